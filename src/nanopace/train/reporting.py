"""A step's loss is told when the card is done with it, a step or two later, so that nobody waits for it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

from nanopace.ledger import StepEvent
from nanopace.train.bookkeeping import Bookkeeper
from nanopace.train.clock import Moment
from nanopace.train.listener import StepReport
from nanopace.train.parts import Parts

IN_FLIGHT = 2  # steps that the host may be ahead: with one, the card waits for the host between steps


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A step that the card may still be at."""

    iteration: int
    done: Moment
    values: Tensor  # mean loss and gradient norm, on the host once it is done
    lr: float


class Reporter:
    """The steps that are under way, and the losses since the last evaluation."""

    def __init__(self, parts: Parts, books: Bookkeeper) -> None:
        self._parts, self._books = parts, books
        self._under_way: deque[_UnderWay] = deque()
        self._host = torch.zeros(IN_FLIGHT + 2, 2, pin_memory=parts.device.type == "cuda")
        self.recent = list(parts.recent)

    def add(self, step: int, loss: Tensor, norm: Tensor, lr: float) -> None:
        """A step has been given to the device; its end is marked behind the copy of its values."""
        values = self._host[step % len(self._host)]
        values.copy_(torch.stack([loss, norm]), non_blocking=self._parts.device.type == "cuda")
        done = self._parts.clock.mark("optimizer", step)
        self._under_way.append(_UnderWay(step, done, values, lr))

    def tell(self, in_flight: int = IN_FLIGHT) -> None:
        """Tell of the steps that are done, and wait until at most `in_flight` are not."""
        while self._under_way and (len(self._under_way) > in_flight or self._under_way[0].done.passed()):
            step = self._under_way.popleft()
            step.done.wait()
            self._books.settle()
            self._tell(step)

    def _tell(self, step: _UnderWay) -> None:
        parts, tokens = self._parts, self._parts.config.tokens_per_iteration
        ms = self._books.step_ms(step.iteration)
        loss, norm = step.values.tolist()
        clipped = norm if norm == norm else None  # nan: nothing clips, so nobody knows
        self.recent.append(loss)
        parts.ledger.append(StepEvent(step.iteration, round(ms, 4), loss, tokens, lr=step.lr, grad_norm=clipped))
        parts.listener.step(
            StepReport(
                iteration=step.iteration,
                loss=loss,
                ms=ms,
                tokens=tokens,
                lr=step.lr,
                grad_norm=clipped,
                mfu=parts.flops_per_step / (ms / 1000) / parts.peak_flops if parts.peak_flops and ms > 0 else None,
            ),
            parts.clock.shares(),
        )
