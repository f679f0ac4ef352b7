"""Reports a step's loss after the card has finished it, a step or two later, so that nothing waits for it.

With several ranks, all report each step exactly `IN_FLIGHT` steps later: they exchange their times, and whether the
user asked to stop, so that all have the same information about the same step.
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

from nanopace.errors import Message
from nanopace.ledger import StepEvent
from nanopace.train.clock.clock import Moment
from nanopace.train.clock.step_events import Bookkeeper
from nanopace.train.loop.loss_watch import Watch
from nanopace.train.loop.parts import Parts

_USUAL = 1000  # steps in the median that is the typical step
IN_FLIGHT = 2  # steps the host may be ahead: with one, the card would wait for the host between steps


@dataclass(frozen=True, slots=True)
class _PendingStep:
    """A step that the card may not have finished."""

    iteration: int
    done: Moment
    values: Tensor  # mean loss and gradient norm, on the host once it is done
    lr: float


class StepReports:
    """The pending steps, and the losses since the last evaluation."""

    def __init__(self, parts: Parts, books: Bookkeeper, stop_asked: Callable[[], bool]) -> None:
        """`stop_asked` returns whether the user asked this process to stop."""
        self._parts, self._books, self._stop_asked = parts, books, stop_asked
        self._stop_asked_somewhere = False
        self._pending: deque[_PendingStep] = deque()
        self._host = torch.zeros(IN_FLIGHT + 2, 2, pin_memory=parts.plan.device.type == "cuda")
        self._ms: deque[float] = deque(maxlen=_USUAL)
        self.recent = list(parts.recent)
        self.watch = Watch(scaled=parts.scaler.is_enabled())

    @property
    def stopping(self) -> bool:
        """Whether to stop. All ranks stop after the same step."""
        return self._stop_asked() if self._parts.plan.ranks.size == 1 else self._stop_asked_somewhere

    @property
    def utilisation(self) -> float | None:
        """The typical step's FLOP/s relative to the peak measured here; None if it was not measured."""
        peak, ms = self._parts.flops.measured, median(self._ms) if self._ms else 0.0
        return self._parts.flops.per_step / (ms / 1000) / peak if peak and ms > 0 else None

    def add(self, step: int, loss: Tensor, norm: Tensor, lr: float) -> None:
        """Add a step that was launched; its end is marked after its values are copied."""
        values = self._host[step % len(self._host)]
        values.copy_(torch.stack([loss, norm]), non_blocking=self._parts.plan.device.type == "cuda")
        done = self._parts.clock.mark("optimizer", step)
        self._pending.append(_PendingStep(step, done, values, lr))

    def report(self, in_flight: int = IN_FLIGHT) -> None:
        """Report finished steps, and wait until at most `in_flight` are unfinished."""
        alone = self._parts.plan.ranks.size == 1
        while self._pending and (len(self._pending) > in_flight or (alone and self._pending[0].done.passed())):
            step = self._pending.popleft()
            step.done.wait()
            self._books.drain_clock()
            self._report(step)

    def _report(self, step: _PendingStep) -> None:
        ms, slowest_rank, lag = self._time(step.iteration)
        self._ms.append(ms)
        loss, norm = step.values.tolist()
        verdict = self.watch.judge(step.iteration, loss, norm)
        if not verdict.skipped:
            self.recent.append(loss)
        self._parts.ledger.append(
            StepEvent(
                step.iteration,
                round(ms, 4),
                loss,
                self._parts.plan.config.tokens_per_iteration,
                lr=step.lr,
                grad_norm=norm,
                skipped=verdict.skipped,
                spike=None if verdict.spike is None else round(verdict.spike, 2),
                slowest_rank=slowest_rank,
                lag=lag,
            )
        )
        if verdict.first:
            self._note_fault(step.iteration, loss, norm)

    def _note_fault(self, iteration: int, loss: float, norm: float) -> None:
        known = {"step": iteration, "loss": loss, "norm": norm, "count": self.watch.skipped}
        if self._parts.release is not None and math.isfinite(loss):  # each layer only knows about later ones
            text = Message(
                "step {step}: loss {loss:.4f}, gradient norm {norm:.2f}: skipped, except by the layers behind the "
                "one whose gradient is not finite (skipped so far: {count})",
                **known,
            )
        else:
            text = Message(
                "step {step}: loss {loss:.4f}, gradient norm {norm:.2f}: skipped, the weights stay as they were "
                "(skipped so far: {count})",
                **known,
            )
        self._parts.ledger.note(text, iteration)

    def _time(self, iteration: int) -> tuple[float, int | None, float | None]:
        """A step's ms on the slowest rank, which one that is, and how far it lags behind the others."""
        ms, own_ms = self._books.step_ms(iteration), self._books.own_ms(iteration)
        if self._parts.plan.ranks.size == 1:
            return ms, None, None
        table = self._parts.plan.ranks.exchange([ms, own_ms, self._stop_asked()])
        self._stop_asked_somewhere = bool(table[:, 2].any())
        own = table[:, 1]
        slowest = int(own.argmax())
        usual = float(np.median(np.delete(own, slowest)))
        lag = round(float(own[slowest]) / usual - 1, 4) if usual > 0 else None
        return float(table[:, 0].max()), slowest, lag
