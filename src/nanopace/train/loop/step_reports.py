"""A step's loss is told when the card is done with it, a step or two later, so that nobody waits for it.

With several ranks each step is told exactly `IN_FLIGHT` steps later, by all of them at once: they exchange their times,
and whether somebody wants to stop, and so all know the same of the same step.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from torch import Tensor

from nanopace.ledger import NoteEvent, StepEvent
from nanopace.train.clock.clock import Moment
from nanopace.train.clock.step_events import Bookkeeper
from nanopace.train.listener import StepReport
from nanopace.train.loop.loss_watch import Watch
from nanopace.train.loop.parts import Parts

_USUAL = 1000  # steps whose median is the usual one
IN_FLIGHT = 2  # steps that the host may be ahead: with one, the card waits for the host between steps


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A step that the card may still be at."""

    iteration: int
    done: Moment
    values: Tensor  # mean loss and gradient norm, on the host once it is done
    lr: float


@dataclass(frozen=True, slots=True)
class _Pace:
    """How long a step took: the slowest rank's time, and by how much it lags behind the others."""

    ms: float
    slowest_rank: int | None = None
    lag: float | None = None


class Reporter:
    """The steps that are under way, and the losses since the last evaluation."""

    def __init__(self, parts: Parts, books: Bookkeeper, asked: Callable[[], bool]) -> None:
        """`asked`: whether somebody wants this very process to stop."""
        self._parts, self._books, self._asked = parts, books, asked
        self._asked_somewhere = False
        self._under_way: deque[_UnderWay] = deque()
        self._host = torch.zeros(IN_FLIGHT + 2, 2, pin_memory=parts.plan.device.type == "cuda")
        self._ms: deque[float] = deque(maxlen=_USUAL)
        self.recent = list(parts.recent)
        self.watch = Watch(scaled=parts.scaler.is_enabled())

    @property
    def stopping(self) -> bool:
        """Whether to stop: all ranks after the same step."""
        return self._asked() if self._parts.plan.ranks.size == 1 else self._asked_somewhere

    @property
    def utilisation(self) -> float | None:
        """What the usual step does of the peak that was measured here; None where nobody measured it."""
        peak, ms = self._parts.flops.measured, median(self._ms) if self._ms else 0.0
        return self._parts.flops.per_step / (ms / 1000) / peak if peak and ms > 0 else None

    def add(self, step: int, loss: Tensor, norm: Tensor, lr: float) -> None:
        """A step has been given to the device; its end is marked behind the copy of its values."""
        values = self._host[step % len(self._host)]
        values.copy_(torch.stack([loss, norm]), non_blocking=self._parts.plan.device.type == "cuda")
        done = self._parts.clock.mark("optimizer", step)
        self._under_way.append(_UnderWay(step, done, values, lr))

    def tell(self, in_flight: int = IN_FLIGHT) -> None:
        """Tell of the steps that are done, and wait until at most `in_flight` are not."""
        alone = self._parts.plan.ranks.size == 1
        while self._under_way and (len(self._under_way) > in_flight or (alone and self._under_way[0].done.passed())):
            step = self._under_way.popleft()
            step.done.wait()
            self._books.settle()
            self._tell(step)

    def _tell(self, step: _UnderWay) -> None:
        parts, tokens = self._parts, self._parts.plan.config.tokens_per_iteration
        pace = self._pace(step.iteration)
        ms = pace.ms
        self._ms.append(ms)
        loss, norm = step.values.tolist()
        verdict = self.watch.judge(step.iteration, loss, norm)
        if not verdict.skipped:
            self.recent.append(loss)
        parts.ledger.append(
            StepEvent(
                step.iteration,
                round(ms, 4),
                loss,
                tokens,
                lr=step.lr,
                grad_norm=norm,
                skipped=verdict.skipped,
                spike=None if verdict.spike is None else round(verdict.spike, 2),
                slowest_rank=pace.slowest_rank,
                lag=pace.lag,
            )
        )
        parts.listener.step(
            StepReport(
                iteration=step.iteration,
                loss=loss,
                ms=ms,
                tokens=tokens,
                lr=step.lr,
                grad_norm=norm,
                mfu=parts.flops.per_step / (ms / 1000) / parts.flops.peak if parts.flops.peak and ms > 0 else None,
                skipped=verdict.skipped,
                spike=verdict.spike,
            ),
            parts.clock.shares(),
        )
        if verdict.first:
            self._note_fault(step.iteration, loss, norm)

    def _note_fault(self, iteration: int, loss: float, norm: float) -> None:
        kept = "the weights stay as they were"
        if self._parts.release is not None and math.isfinite(loss):  # each layer learns of those behind it alone
            kept = "but for layers behind the one whose gradient is not finite"
        text = (
            f"step {iteration}: loss {loss:.4f}, gradient norm {norm:.2f}: left out, {kept} "
            f"(skipped so far: {self.watch.skipped})"
        )
        self._parts.ledger.append(NoteEvent(text, iteration))
        self._parts.listener.note(text)

    def _pace(self, iteration: int) -> _Pace:
        ms, own_ms = self._books.step_ms(iteration), self._books.own_ms(iteration)
        if self._parts.plan.ranks.size == 1:
            return _Pace(ms)
        table = self._parts.plan.ranks.exchange([ms, own_ms, self._asked()])
        self._asked_somewhere = bool(table[:, 2].any())
        own = table[:, 1]
        slowest = int(own.argmax())
        usual = float(np.median(np.delete(own, slowest)))
        lag = round(float(own[slowest]) / usual - 1, 4) if usual > 0 else None
        return _Pace(float(table[:, 0].max()), slowest, lag)
