"""What a trainer records of its run, event by event: the only words that trainer and analyst share.

An event is one line of JSON, described in docs/ledger-format.md. The dataclasses below are the format: their fields
are the keys, and a field's annotation says how it is checked when it is read (codec.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

MAJOR, MINOR = 1, 6
VERSION = f"{MAJOR}.{MINOR}"
WITHOUT_SAMPLES, WITH_SAMPLES = "1.4", "1.6"  # what our own trainer's ledgers have in them

# The annotations of the events, each with its own check in codec.py.
Count = int  # an iteration, or how many of something: not negative, and below 2**53
Milliseconds = float  # not negative, and less than a century
Number = float  # any number, also nan and infinity: a loss that diverged is worth knowing. From 1e30 on it is infinite
Scalar = bool | int | float | str
Config = Mapping[str, Scalar]
Texts = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have: when it was written, by the process's monotonic clock."""

    name: ClassVar[str] = ""

    at_ms: Milliseconds | None = None  # since this process began, or opened the ledger; the writer fills it in


@dataclass(frozen=True, slots=True)
class RunEvent(Event):
    """A process introduces itself. The first event of each process that writes to the ledger."""

    name: ClassVar[str] = "run"

    started: str  # wall clock, ISO 8601 with its offset
    nanopace: str  # version of the trainer
    config: Config = field(default_factory=dict)  # nanoGPT's knob names
    ledger: str = WITHOUT_SAMPLES  # the oldest version that has all it says
    monotonic_s: Number | None = None  # the monotonic clock at `started`, to relate other files of this machine
    python: str | None = None
    torch: str | None = None
    code_hash: str | None = None
    gpu: str | None = None
    gpu_memory_gb: Number | None = None
    gpu_sms: Count | None = None
    gpu_count: Count | None = None
    measured_tflops: Number | None = None  # that large matrix products reach on this card, in the config's precision
    world_size: Count | None = None
    parameters: Count | None = None
    flops_per_token: Number | None = None
    tokens_per_iteration: Count | None = None
    choices: Texts = field(default_factory=dict)  # a knob or a thing, and why the trainer chose it so
    corpus: str | None = None  # fingerprint of the data
    tokenizer: str | None = None  # hash of its kind and vocabulary
    trainer: str | None = None  # where another program than our trainer trains: loop, transformers, lightning


@dataclass(frozen=True, slots=True)
class StepEvent(Event):
    """One iteration: data, forward, backward and optimizer, and nothing else."""

    name: ClassVar[str] = "step"

    iteration: Count
    ms: Milliseconds
    loss: Number | None = None  # mean of all micro-batches, not of the last one
    tokens: Count | None = None  # of this iteration, over all GPUs
    lr: Number | None = None
    grad_norm: Number | None = None
    skipped: bool = False  # loss or gradient was not finite, so the weights stayed as they were
    spike: Number | None = None  # by how many standard deviations the loss stands out; only where it does
    slowest_rank: Count | None = None  # of several; `ms` is its time
    lag: Number | None = None  # how much longer it took for its own work than the median of the others: 0.12 for 12%


@dataclass(frozen=True, slots=True)
class SpanEvent(Event):
    """A stretch of time that has no event of its own: a part of the step, start-up, logging, ..."""

    name: ClassVar[str] = "span"

    phase: str
    iteration: Count
    ms: Milliseconds
    background: bool = False  # ran beside training and kept nobody waiting
    what: str | None = None  # which part of the phase, where it has parts: of start-up


@dataclass(frozen=True, slots=True)
class EvalEvent(Event):
    """One evaluation, before the step of the same iteration."""

    name: ClassVar[str] = "eval"

    iteration: Count
    train: Number | None = None
    val: Number | None = None
    metric: str = "loss"
    ms: Milliseconds | None = None
    val_error: Number | None = None  # standard errors
    train_error: Number | None = None
    train_steps: Count | None = None  # `train` is the mean of so many steps before; None: measured like `val`
    windows: Count | None = None  # of the validation data that were looked at
    bits_per_byte: Number | None = None
    change: Number | None = None  # of val to the evaluation before, window by window
    change_error: Number | None = None


@dataclass(frozen=True, slots=True)
class CheckpointEvent(Event):
    """One checkpoint: how long training stood still for it, and how long it was written beside training."""

    name: ClassVar[str] = "checkpoint"

    iteration: Count
    path: str | None = None
    stall_ms: Milliseconds | None = None
    background_ms: Milliseconds | None = None
    bytes: Count | None = None


@dataclass(frozen=True, slots=True)
class CompileEvent(Event):
    """Something was compiled, and training waited."""

    name: ClassVar[str] = "compile"

    ms: Milliseconds
    what: str | None = None
    iteration: Count = 0


@dataclass(frozen=True, slots=True)
class StallEvent(Event):
    """Training stood still although it had nothing else to do."""

    name: ClassVar[str] = "stall"

    iteration: Count
    ms: Milliseconds
    reason: str = "unknown"  # data, suspend, gc, unknown


@dataclass(frozen=True, slots=True)
class GpuEvent(Event):
    """What the card's own sensors say, every few seconds, beside training."""

    name: ClassVar[str] = "gpu"

    iteration: Count  # under way meanwhile
    sm_mhz: Number | None = None
    memory_mhz: Number | None = None
    watts: Number | None = None
    celsius: Number | None = None
    utilization: Number | None = None  # 0 to 1: of the time, not of the card's arithmetic
    memory_used_gb: Number | None = None
    throttle: str | None = None  # why the clocks are held back, by commas: power_cap, thermal, hw_slowdown, ...


@dataclass(frozen=True, slots=True)
class NoteEvent(Event):
    """Something that a person should see: a fallback, a warning."""

    name: ClassVar[str] = "note"

    text: str
    iteration: Count = 0


@dataclass(frozen=True, slots=True)
class SampleEvent(Event):
    """Text that the model wrote, before the step of the same iteration. Its time is in a span of the phase `sample`."""

    name: ClassVar[str] = "sample"

    iteration: Count
    text: str


@dataclass(frozen=True, slots=True)
class ResumeEvent(Event):
    """This process goes on from a checkpoint. Right after its run event."""

    name: ClassVar[str] = "resume"

    iteration: Count  # the first that is done by this process
    checkpoint: str | None = None
    lost_iterations: Count | None = None  # done by the process before, and to be done again


@dataclass(frozen=True, slots=True)
class MicroBatchEvent(Event):
    """Memory was full: from here on a step is the same tokens in smaller pieces."""

    name: ClassVar[str] = "micro_batch"

    iteration: Count
    batch_size: Count  # sequences per micro-batch, from now on
    accumulation: Count  # micro-batches per step over all cards, from now on; unchanged by an evaluation
    where: str = "step"  # what ran out of memory: startup, step, evaluation


@dataclass(frozen=True, slots=True)
class RollbackEvent(Event):
    """Steps in a row had no finite loss: this process goes back and meets other data."""

    name: ClassVar[str] = "rollback"

    iteration: Count  # the first that is done again
    failed_at: Count  # the last that failed
    checkpoint: str | None = None  # None: back to the beginning
    data_offset: Count = 1  # which order of the data it goes on with; 0 is the first


@dataclass(frozen=True, slots=True)
class EndEvent(Event):
    """The process ends and knows why."""

    name: ClassVar[str] = "end"

    reason: str  # finished, interrupted, out_of_memory, diverged, error
    wall_ms: Milliseconds | None = None  # of this process
    energy_kwh: Number | None = None  # of all its cards, where all came to the end
    failure: str | None = None  # why its last step has no checkpoint in out_dir; None: it has, or should have none
    saved: Count | None = None  # then: the newest step that has a whole one


EVENTS: Mapping[str, type[Event]] = {
    kind.name: kind
    for kind in (
        RunEvent,
        StepEvent,
        SpanEvent,
        EvalEvent,
        CheckpointEvent,
        CompileEvent,
        StallEvent,
        GpuEvent,
        NoteEvent,
        SampleEvent,
        ResumeEvent,
        MicroBatchEvent,
        RollbackEvent,
        EndEvent,
    )
}
