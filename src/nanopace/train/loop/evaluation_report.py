"""What an evaluation found, as the listener hears it and as the ledger keeps it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nanopace.ledger import EvalEvent
from nanopace.train.listener import EvalReport
from nanopace.train.loop.evaluate import Estimate, Evaluation


def eval_report(
    step: int,
    validation: Evaluation,
    second: Estimate | None,
    recent: Sequence[float],
    *,
    ms: float,
    best: float | None,
) -> EvalReport:
    """`second` is nanoGPT's second pass over the training data; without it `recent` is, the losses of the steps.

    `best` is the best validation loss so far. A loss that is not finite is never the best.
    """
    train = second or (Estimate.of(np.array(recent)) if recent else None)
    loss, change = validation.loss, validation.change
    return EvalReport(
        iteration=step,
        val=loss.mean,
        val_error=loss.error,
        windows=loss.count,
        ms=ms,
        train=None if train is None else train.mean,
        train_error=None if train is None else train.error,
        train_steps=None if train is None or second is not None else train.count,
        bits_per_byte=validation.bits_per_byte,
        change=None if change is None else change.mean,
        change_error=None if change is None else change.error,
        best=math.isfinite(loss.mean) and (best is None or loss.mean < best),
    )


def eval_event(report: EvalReport) -> EvalEvent:
    return EvalEvent(
        report.iteration,
        report.train,
        report.val,
        ms=round(report.ms, 4),
        val_error=report.val_error,
        train_error=report.train_error,
        train_steps=report.train_steps,
        windows=report.windows,
        bits_per_byte=report.bits_per_byte,
        change=report.change,
        change_error=report.change_error,
    )
