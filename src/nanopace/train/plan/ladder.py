"""Picks the memory steps that a run needs to fit in memory, and no more.

The steps are in nanopace/memory_ladder.py. The peak is predicted before anything is built (hardware/memory.py); if the
prediction is too low, the stepper runs out of memory, takes the next memory steps, and only then smaller micro-batches.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from nanopace.config import TrainConfig
from nanopace.errors import ConfigError, Message
from nanopace.hardware.memory import GIB, climb, climb_with_host, fused_peak_bytes, host_bytes
from nanopace.knob_values import ingredients, memory_steps
from nanopace.memory_ladder import MEMORY_STEPS, keeps_gradients, on_host, taken
from nanopace.train.checkpoint.layout import Saved
from nanopace.train.host.arena import check_room
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.out_of_memory import smaller
from nanopace.train.plan.device import Machine
from nanopace.train.plan.run_plan import Choice

_OF_THE_MEMORY = ("batch_size", "gradient_accumulation_steps", "memory", "memory_limit", "fp8", "check_every")


def pick_steps(
    config: TrainConfig, shape: ModelShape, machine: Machine, kernels: str, micro_batch: int | None = None
) -> tuple[tuple[str, ...], str]:
    """The memory steps, and why. `micro_batch` is in sequences, if batch_size is known not to fit."""
    if kernels != "fused":
        return (), Message("everything is kept: only our own kernels can save memory")
    asked = memory_steps(config.memory)
    single = config.gradient_accumulation_steps == 1 and micro_batch in (None, config.batch_size)
    single = single and not config.check_every  # which compares gradients, so they have to be kept
    if asked is not None and not on_host(asked):
        asked = tuple(each.name for each in taken(asked) if single or each.keeps_gradients)
        what = ", ".join(asked) or Message("everything is kept")
        return asked, Message.joined(": ", (what, Message("as requested")))
    if machine.memory_gb is None and asked is not None:
        return asked, Message.joined(": ", (", ".join(asked), Message("as requested")))
    if machine.memory_gb is None:
        return (), Message("everything is kept: the amount of memory is unknown")
    size, batch_size = shape.size, config.batch_size
    if asked is None:
        steps = climb(size, batch_size, machine.memory_gb, recipe=shape.recipe, fp8=config.fp8, single=single)
    else:
        found = climb_with_host(size, batch_size, machine.memory_gb, recipe=shape.recipe, fp8=config.fp8)
        steps = tuple(each.name for each in taken({*asked, *found}))
    peak = fused_peak_bytes(size, batch_size, steps, recipe=shape.recipe, fp8=config.fp8)
    need = {"need": peak / GIB, "memory": machine.memory_gb}
    if not steps:
        return steps, Message("everything is kept: it takes about {need:.1f} of {memory:.1f} GiB", **need)
    if on_host(steps):
        host = _host_bytes(config, shape, steps) / GIB
        takes = Message(
            "takes about {need:.1f} of {memory:.1f} GiB, and {host:.1f} GiB of host memory", host=host, **need
        )
        why = Message("as requested") if asked else Message("without it, not even one sequence fits")
        return steps, Message.joined(": ", (", ".join(steps), Message.joined("; ", (takes, why))))
    before = fused_peak_bytes(size, batch_size, steps[:-1], recipe=shape.recipe, fp8=config.fp8) / GIB
    takes = Message(
        "takes about {need:.1f} of {memory:.1f} GiB, and {more:.1f} without {last}", more=before, last=steps[-1], **need
    )
    return steps, Message.joined(": ", (", ".join(steps), takes))


def kept_steps(saved: Saved | None, config: TrainConfig, kernels: str) -> tuple[tuple[str, ...], str] | None:
    """The memory steps of the checkpoint that a run with deterministic=True resumes from, and why: what is recomputed
    in another precision has other bits. None if they do not apply."""
    before = None if saved is None else saved.state.get("memory_steps")
    if saved is None or before is None or kernels != "fused" or not config.deterministic:
        return None
    same = all(saved.config.get(name) == getattr(config, name) for name in _OF_THE_MEMORY)
    if not same or not all(name in MEMORY_STEPS for name in before):
        return None
    steps = tuple(each.name for each in taken(before))
    what = ", ".join(steps) or Message("everything is kept")
    return steps, Message.joined(": ", (what, Message("as before, for the same bits")))


def check_host(config: TrainConfig, shape: ModelShape, kernels: Choice[str], steps: Collection[str]) -> None:
    """Raise if the host's memory was asked for and cannot be used, or is needed and not free."""
    if on_host(memory_steps(config.memory) or ()) and kernels.value != "fused":
        raise ConfigError(
            "memory=host needs our own kernels, which this run cannot use ({reason}); leave out memory=host, or change "
            "that",
            reason=kernels.reason,
        )
    if on_host(steps):
        if config.check_every:
            raise ConfigError(
                "memory=host and check_every cannot be combined: only what is on the card can be checked; use "
                "check_every=0"
            )
        check_room(_host_bytes(config, shape, steps))


def _host_bytes(config: TrainConfig, shape: ModelShape, steps: Collection[str]) -> int:
    muon = "muon" in ingredients(shape.recipe, shape.without)
    return host_bytes(shape.size, config.batch_size, steps, recipe=shape.recipe, muon=muon)


def released_batch(config: TrainConfig, shape: ModelShape, machine: Machine, kernels: str) -> int | None:
    """The largest of batch_size and its halves that fits as a step of one micro-batch; None if none is known to."""
    batch = config.batch_size if config.memory == "auto" else None
    while batch is not None:
        single = replace(config, batch_size=batch, gradient_accumulation_steps=1)
        if not keeps_gradients(pick_steps(single, shape, machine, kernels)[0]):
            return batch
        batch = smaller(batch)
    return None
