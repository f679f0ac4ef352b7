"""The events that a trainer records: the only vocabulary that trainer and analyst share.

An event is one line of JSON, described in docs/ledger-format.md. The dataclasses below define the format: their fields
are the keys, and a field's annotation determines how codec.py checks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

MAJOR, MINOR = 1, 6
VERSION = f"{MAJOR}.{MINOR}"
WITHOUT_SAMPLES, WITH_SAMPLES = "1.4", "1.6"  # versions of the ledgers that our trainer writes

# The annotations of the events. codec.py has a check for each.
Count = int  # an iteration, or a number of things: not negative, and below 2**53
Milliseconds = float  # not negative, and less than a century
Number = float  # any number, even nan or infinity (a diverged loss is worth knowing); from 1e30 on, it is infinite
Scalar = bool | int | float | str
Config = Mapping[str, Scalar]
Texts = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The common part of all events: when it was written, by the process's monotonic clock."""

    name: ClassVar[str] = ""

    at_ms: Milliseconds | None = None  # since the process started or opened the ledger; the writer fills it in


@dataclass(frozen=True, slots=True)
class RunEvent(Event):
    """Describes a process: always its first event."""

    name: ClassVar[str] = "run"

    started: str  # wall clock, ISO 8601 with UTC offset
    nanopace: str  # version of the trainer
    config: Config = field(default_factory=dict)  # nanoGPT's knob names
    ledger: str = WITHOUT_SAMPLES  # the oldest format version that has everything in this ledger
    monotonic_s: Number | None = None  # the monotonic clock at `started`, to align other files of this machine
    python: str | None = None
    torch: str | None = None
    code_hash: str | None = None
    gpu: str | None = None
    gpu_memory_gb: Number | None = None
    gpu_sms: Count | None = None
    gpu_count: Count | None = None
    measured_tflops: Number | None = None  # what large matrix products reach on this card, in the config's precision
    world_size: Count | None = None
    parameters: Count | None = None
    flops_per_token: Number | None = None
    tokens_per_iteration: Count | None = None
    choices: Texts = field(default_factory=dict)  # by knob or subject: why the trainer chose it
    corpus: str | None = None  # fingerprint of the data
    tokenizer: str | None = None  # hash of its kind and vocabulary
    trainer: str | None = None  # if another program trains: loop, transformers, lightning


@dataclass(frozen=True, slots=True)
class StepEvent(Event):
    """One iteration: data, forward, backward and optimizer, and nothing else."""

    name: ClassVar[str] = "step"

    iteration: Count
    ms: Milliseconds
    loss: Number | None = None  # mean of all micro-batches, not just the last one
    tokens: Count | None = None  # in this iteration, across all GPUs
    lr: Number | None = None
    grad_norm: Number | None = None
    skipped: bool = False  # loss or gradient was not finite, so the weights did not change
    spike: Number | None = None  # how many standard deviations the loss stands out, if it does
    slowest_rank: Count | None = None  # with several ranks; `ms` is its time
    lag: Number | None = None  # how much longer its work took than the others' median: 0.12 for 12%


@dataclass(frozen=True, slots=True)
class SpanEvent(Event):
    """Time without a separate event: a part of the step, start-up, logging, ..."""

    name: ClassVar[str] = "span"

    phase: str
    iteration: Count
    ms: Milliseconds
    background: bool = False  # ran while training continued
    what: str | None = None  # which part of the phase, if it has parts (start-up does)


@dataclass(frozen=True, slots=True)
class EvalEvent(Event):
    """One evaluation, before the step of the same iteration."""

    name: ClassVar[str] = "eval"

    iteration: Count
    train: Number | None = None
    val: Number | None = None
    metric: str = "loss"
    ms: Milliseconds | None = None
    val_error: Number | None = None  # standard error
    train_error: Number | None = None
    train_steps: Count | None = None  # `train` is the mean of this many steps before it; None: measured like `val`
    windows: Count | None = None  # windows of validation data evaluated
    bits_per_byte: Number | None = None
    change: Number | None = None  # of val since the previous evaluation, window by window
    change_error: Number | None = None


@dataclass(frozen=True, slots=True)
class CheckpointEvent(Event):
    """One checkpoint: how long training paused for it, and how long writing continued in the background."""

    name: ClassVar[str] = "checkpoint"

    iteration: Count
    path: str | None = None
    stall_ms: Milliseconds | None = None
    background_ms: Milliseconds | None = None
    bytes: Count | None = None


@dataclass(frozen=True, slots=True)
class CompileEvent(Event):
    """Something was compiled while training waited."""

    name: ClassVar[str] = "compile"

    ms: Milliseconds
    what: str | None = None
    iteration: Count = 0


@dataclass(frozen=True, slots=True)
class StallEvent(Event):
    """Training paused although it had nothing else to do."""

    name: ClassVar[str] = "stall"

    iteration: Count
    ms: Milliseconds
    reason: str = "unknown"  # data, suspend, gc, unknown


@dataclass(frozen=True, slots=True)
class GpuEvent(Event):
    """The card's sensors, read every few seconds during training."""

    name: ClassVar[str] = "gpu"

    iteration: Count  # the iteration at that time
    sm_mhz: Number | None = None
    memory_mhz: Number | None = None
    watts: Number | None = None
    celsius: Number | None = None
    utilization: Number | None = None  # 0 to 1: share of time, not of the card's compute
    memory_used_gb: Number | None = None
    throttle: str | None = None  # why the clocks are reduced, separated by commas: power_cap, thermal, hw_slowdown, ...


@dataclass(frozen=True, slots=True)
class NoteEvent(Event):
    """A message to the user: a fallback, a warning."""

    name: ClassVar[str] = "note"

    text: str
    iteration: Count = 0


@dataclass(frozen=True, slots=True)
class SampleEvent(Event):
    """Text that the model generated before the step of the same iteration. A span of phase `sample` has its time."""

    name: ClassVar[str] = "sample"

    iteration: Count
    text: str


@dataclass(frozen=True, slots=True)
class ResumeEvent(Event):
    """This process resumed from a checkpoint. Comes right after its run event."""

    name: ClassVar[str] = "resume"

    iteration: Count  # the first iteration of this process
    checkpoint: str | None = None
    lost_iterations: Count | None = None  # done by the previous process, and to be repeated


@dataclass(frozen=True, slots=True)
class MicroBatchEvent(Event):
    """Memory ran out: from here on, a step takes the same tokens in smaller micro-batches."""

    name: ClassVar[str] = "micro_batch"

    iteration: Count
    batch_size: Count  # sequences per micro-batch, from now on
    accumulation: Count  # micro-batches per step across all cards, from now on; an evaluation does not change it
    where: str = "step"  # what ran out of memory: startup, step, evaluation


@dataclass(frozen=True, slots=True)
class RollbackEvent(Event):
    """Several steps in a row had no finite loss: this process goes back and continues with other data."""

    name: ClassVar[str] = "rollback"

    iteration: Count  # the first iteration to be repeated
    failed_at: Count  # the last iteration that failed
    checkpoint: str | None = None  # None: back to the beginning
    data_offset: Count = 1  # number of the data order it continues with; 0 is the first


@dataclass(frozen=True, slots=True)
class EndEvent(Event):
    """The process ends and knows the reason."""

    name: ClassVar[str] = "end"

    reason: str  # finished, interrupted, out_of_memory, diverged, corrupted, error
    wall_ms: Milliseconds | None = None  # of this process
    energy_kwh: Number | None = None  # of all its cards, if all reached the end
    failure: str | None = None  # why its last step has no checkpoint in out_dir; None: it has one or needs none
    saved: Count | None = None  # if so: the newest step with an intact checkpoint


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
