"""Looks for silent corruption: bits that change although nothing changed them, and results that are not repeatable.

Between two updates, weights and averages must not change: their checksums are taken after each update and compared
before the next one, on the device, without waiting. Every `check_every` steps, and before each checkpoint, the host
looks at the result; in those steps, one micro-batch's gradients are also computed twice and compared, bit for bit. This
needs arithmetic that is always the same: deterministic=True, if it is a card's.

Not covered: what goes wrong in the update itself, or in a micro-batch that is computed only once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nanopace.errors import Message
from nanopace.train.loop.evidence import write_evidence
from nanopace.train.loop.parts import Parts
from nanopace.train.optim.optimizer import optimizer_tensors
from nanopace.train.out_of_memory import attempt, make_room

_SHOWN = 8  # differing values of a tensor in the evidence
_WORD = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # integers by size


@dataclass(frozen=True, slots=True)
class Difference:
    """A tensor that is not what it should be. For gradients, which values differ; of weights and averages, only
    by how much the sum of their bits has changed: by a power of two, if a single bit has flipped."""

    name: str
    rank: int
    size: int  # values in it
    count: int | None = None  # values that differ
    largest: float | None = None  # difference
    values: tuple[Mapping[str, Any], ...] = ()  # the first ones
    change: int | None = None  # of the checksum


class CorruptedError(Exception):
    """Something is wrong with this machine's memory or arithmetic."""

    def __init__(self, step: int, differences: Sequence[Difference], batch: Mapping[str, Tensor] | None = None) -> None:
        super().__init__(step)
        self.step, self.differences = step, differences
        self.batch = batch  # a micro-batch that was computed twice; None: weights or averages changed between updates


class CorruptionWatch:
    """With check_every=0, it does nothing."""

    def __init__(self, parts: Parts) -> None:
        self._parts, self._every = parts, parts.plan.config.check_every
        self._named: dict[str, Tensor] = {}  # all that must not change between updates
        if self._every:
            named = {**dict(parts.model.named_parameters()), **optimizer_tensors(parts.model, parts.optimizer)}
            self._named = {name: _local(each) for name, each in named.items()}
        self._sums = self._since = self._change = torch.empty(0)
        self._kernels = bool(self._named) and _suits_kernels(self._named.values())
        self._plan: Tensor | None = None  # for kernels: these tensors never move
        if self._every:
            self.after_update()
            self._since = torch.full_like(self._sums, -1)  # the step before whose update a change was found
            self._change = torch.zeros_like(self._sums)

    def due(self, step: int) -> bool:
        return self._every > 0 and step % self._every == 0

    def after_update(self) -> None:
        if self._every:
            self._sums = self._checksums()

    def before_update(self, step: int) -> None:
        """Compare, and leave it to `look` to wait for the result."""
        if self._every:
            change = self._checksums() - self._sums
            found = (change != 0) & (self._since < 0)
            self._since = torch.where(found, step, self._since)
            self._change = torch.where(found, change, self._change)

    def look(self, step: int) -> None:
        """Raise CorruptedError if weights or averages have changed between two updates, on any rank."""
        if not self._every:
            return
        self.before_update(step)
        rank = self._parts.plan.ranks.rank
        named = zip(self._named.items(), self._since.tolist(), self._change.tolist(), strict=True)
        own = [
            (since, Difference(name, rank, each.numel(), change=change))
            for (name, each), since, change in named
            if change
        ]
        if everyone := [each for some in self._parts.plan.ranks.gather(own) for each in some]:
            raise CorruptedError(min(since for since, _ in everyone), [each for _, each in everyone])
        self._parts.clock.mark("other", step, "check_every")

    def compute_twice(self, step: int, inputs: Tensor, targets: Tensor, micro_batch: int) -> None:
        """Raise CorruptedError if the gradients of the step's first micro-batch differ from one time to the next. They
        are zero afterwards, and random numbers and weights are as before."""
        inputs, targets = (each.view(-1, micro_batch, each.size(-1)) for each in (inputs, targets))
        batch = {"inputs": inputs[0], "targets": targets[0]}
        own = attempt(lambda: self._twice(batch, len(inputs)))
        self._parts.passes.zero_grad()
        if own is None:  # if there is no room for the step either, it will find out, and give something up
            make_room(self._parts.plan.device)
            said = Message("step {step}: gradients are not checked (check_every), since memory is full", step=step)
            self._parts.ledger.note(said, step)
            own = []
        if everyone := [each for some in self._parts.plan.ranks.gather(own) for each in some]:
            raise CorruptedError(step, everyone, batch)
        self._parts.clock.mark("other", step, "check_every")

    def _twice(self, batch: Mapping[str, Tensor], count: int) -> list[Difference]:
        first = {name: each.cpu() if each.is_cuda else each.clone() for name, each in self._gradients(batch, count)}
        rank = self._parts.plan.ranks.rank
        compared = (_compared(name, rank, first[name], each) for name, each in self._gradients(batch, count))
        return [each for each in compared if each is not None]

    def _gradients(self, batch: Mapping[str, Tensor], count: int) -> list[tuple[str, Tensor]]:
        """The loss and all gradients: the tensors themselves, not copies."""
        parts = self._parts
        parts.passes.zero_grad()
        cards = [parts.plan.device] if parts.plan.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cards), parts.parallel.rehearsing():
            loss = parts.passes(batch["inputs"], batch["targets"], count)
        parts.passes.finish()
        named = ((name, weight.grad) for name, weight in parts.model.named_parameters())
        return [("loss", loss), *((name, _local(each)) for name, each in named if each is not None)]

    def _checksums(self) -> Tensor:
        tensors = list(self._named.values())
        if not self._kernels:
            return torch.stack([_words(each).sum(dtype=torch.int64) for each in tensors])
        from nanopace.train.kernels.checksum import checksum_plan, checksums

        if self._plan is None:
            self._plan = checksum_plan(tensors)
        return checksums(tensors, self._plan)


def _suits_kernels(tensors: Iterable[Tensor]) -> bool:
    """Whether checksum.py can sum them: tensors on a card, of whole words."""
    whole = all(each.is_cuda and each.is_contiguous() and each.nbytes % 4 == 0 for each in tensors)
    return whole and find_spec("triton") is not None


def save_corruption(directory: Path, parts: Parts, error: CorruptedError) -> None:
    """Write what is known, next to the checkpoints: text and tokens, no code."""
    known = {
        "step": error.step,
        "what": "a micro-batch computed twice" if error.batch else "weights and averages between two updates",
        "differences": [asdict(each) for each in error.differences],
        "gpu": parts.plan.machine.name,
        "gpu_uuid": parts.plan.machine.uuid,
        **{name: value for name, value in parts.describe(error.step).items() if name in ("versions", "config")},
    }
    write_evidence(directory, known, error.batch)


def _compared(name: str, rank: int, first: Tensor, second: Tensor) -> Difference | None:
    """None if they agree in every bit: NaN equals itself, and 0 is not -0."""
    first = first.to(second.device)
    differing = (_words(first) != _words(second)).nonzero().flatten()
    if not len(differing):
        return None
    one, other = (each.detach().reshape(-1)[differing].double() for each in (first, second))
    gaps = (one - other).abs()
    largest = float(gaps.nan_to_num(math.inf, math.inf).max())
    values = tuple(
        {"at": int(at), "first": _written(a), "second": _written(b)}
        for at, a, b in zip(differing[:_SHOWN], one[:_SHOWN], other[:_SHOWN], strict=True)
    )
    return Difference(name, rank, first.numel(), len(differing), largest if math.isfinite(largest) else None, values)


def _written(value: Tensor) -> str:
    return f"{float(value):.9g}"


def _words(tensor: Tensor) -> Tensor:
    """Its bits as integers, one per value."""
    return tensor.detach().reshape(-1).view(_WORD[tensor.element_size()])


def _local(tensor: Tensor) -> Tensor:
    """The part that this rank holds."""
    part: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part.detach()
