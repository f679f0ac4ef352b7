"""Computes the validation loss almost for free: fixed windows kept on the card, no gradients, one sync at the end.

The windows are the first of one fixed order, the same in every evaluation. So two evaluations can be compared window by
window, and their difference is known far better than either loss. `eval_target_error` takes as many windows as that
error needs, never fewer than the evaluation before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nanopace.corpus.shards.corpus import Split
from nanopace.corpus.shards.order import Order
from nanopace.ledger import EvalEvent
from nanopace.train.ranks import Ranks

_MOST = 1e6  # limit on one window's error over the target error: no corpus has enough windows for more
_FEWEST = 16  # windows, before their spread means anything

Losses = Callable[[Tensor, Tensor], Tensor]  # tokens and targets of some windows to the loss of each


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and how well it is known."""

    mean: float
    error: float  # standard error
    count: int

    @classmethod
    def of(cls, values: np.ndarray) -> Estimate:
        error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf
        return cls(float(values.mean()), error, len(values))


class Evaluator:
    """Evaluates one split, always on the same windows."""

    def __init__(
        self,
        losses: Losses,
        split: Split,
        *,
        block_size: int,
        batch_size: int,
        windows: int,
        seed: int,
        device: torch.device,
        token_bytes: np.ndarray | None = None,
        target_error: float = 0.0,
        ranks: Ranks = Ranks(),  # noqa: B008, frozen
    ) -> None:
        self._ranks = ranks
        self._losses, self._split, self._device, self._batch_size = losses, split, device, batch_size
        self._order = Order(split, block_size, seed)
        self._token_bytes, self._target_error = token_bytes, target_error
        self._tokens = torch.zeros((0, block_size + 1), dtype=torch.int32, device=device)
        self._text_bytes = np.zeros(0, np.int64)  # by window
        self._before = np.zeros(0)  # the losses of the previous evaluation
        self._take(windows)

    @property
    def windows(self) -> int:
        return len(self._tokens)

    def evaluate(self, iteration: int) -> EvalEvent:
        """The loss of this split, in the validation fields of an event; its other fields are still empty."""
        losses = self._from(0)
        while self._target_error and (needed := self._needed(losses)) > self.windows:
            known = self.windows
            self._take(needed)
            if self.windows == known:
                break  # there are no more
            losses = np.concatenate([losses, self._from(known)])
        common = min(len(losses), len(self._before))
        change = Estimate.of(losses[:common] - self._before[:common]) if common > 1 else None
        self._before = losses
        loss = Estimate.of(losses)
        return EvalEvent(
            iteration,
            val=loss.mean,
            val_error=loss.error,
            windows=loss.count,
            bits_per_byte=self._bits_per_byte(losses),
            change=None if change is None else change.mean,
            change_error=None if change is None else change.error,
        )

    def warm_up(self) -> Tensor:
        """Run one batch, which compiles and allocates whatever the first use needs."""
        return self._batch(0).cpu()

    def halve(self) -> int | None:
        """When memory is full, evaluate half as many windows at a time, with the same losses. Returns how many, or None
        if it was one already."""
        if self._batch_size == 1:
            return None
        self._batch_size //= 2
        return self._batch_size

    def state(self) -> dict[str, Any]:
        """State for a checkpoint, so that the first evaluation after a resume can be compared with the last before."""
        return {"before": self._before.tolist()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._before = np.asarray(state["before"], dtype=np.float64)
        self._take(len(self._before))

    def _take(self, windows: int) -> None:
        """Put this many windows on the device, or all there are."""
        first, count = self.windows, min(windows, self._order.windows)
        if count <= first:
            return
        tokens = np.empty((count - first, self._tokens.size(1)), dtype=np.int32)
        self._split.gather(self._order.starts(first, count - first), tokens.shape[1], tokens)
        self._tokens = torch.cat([self._tokens, torch.from_numpy(tokens).to(self._device)])
        if self._token_bytes is not None:
            self._text_bytes = np.concatenate([self._text_bytes, self._token_bytes[tokens[:, 1:]].sum(axis=1)])

    def _from(self, first: int) -> np.ndarray:
        """The losses of the windows from `first` on. The host waits for the card only once all are launched.

        Each rank takes equally many consecutive windows, whatever its batch size; past the last one it wraps around.
        """
        count = self.windows - first
        stretch = math.ceil(count / self._ranks.size)
        begin = first + self._ranks.rank * stretch
        under_way = [self._batch(at) for at in range(begin, begin + stretch, self._batch_size)]
        own = torch.cat(under_way)[:stretch].double().cpu().numpy()
        return self._ranks.exchange(own).reshape(-1)[:count]

    def _batch(self, first: int) -> Tensor:
        """The losses of one batch, always of the same shape for a compiled model: the last one wraps to the front."""
        numbers = torch.arange(first, first + self._batch_size, device=self._device) % self.windows
        tokens = self._tokens[numbers].long()
        return self._losses(tokens[:, :-1], tokens[:, 1:])

    def _needed(self, losses: np.ndarray) -> int:
        """How many windows the target error needs, estimated from those so far."""
        if len(losses) < _FEWEST:
            return _FEWEST
        times = float(losses.std(ddof=1)) / self._target_error
        return 0 if math.isnan(times) else math.ceil(min(times, _MOST) ** 2)  # more windows do not make a loss finite

    def _bits_per_byte(self, losses: np.ndarray) -> float | None:
        text_bytes = int(self._text_bytes.sum())
        targets = self._tokens.size(1) - 1
        return float(losses.sum()) * targets / math.log(2) / text_bytes if text_bytes else None


def with_train_loss(event: EvalEvent, second: EvalEvent | None, recent: Sequence[float]) -> EvalEvent:
    """Add the training loss: from `second`, nanoGPT's second pass over the training data, or else the mean of `recent`,
    the losses of the steps since the last evaluation."""
    if second is not None:
        return replace(event, train=second.val, train_error=second.val_error)
    if not recent:
        return event
    steps = Estimate.of(np.array(recent))
    return replace(event, train=steps.mean, train_error=steps.error, train_steps=steps.count)
