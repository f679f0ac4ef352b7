"""Losses that are not finite: the run rolls back once and continues with other data, or it stops.

A rollback returns to the newest intact checkpoint, or to the beginning if there is none, and continues with the data in
another order. If training fails again before it has saved a checkpoint past the failed step, the data is not the cause:
training stops and saves the evidence (evidence.py).
"""

from __future__ import annotations

from pathlib import Path

from nanopace.errors import InputError, Message, UsageError
from nanopace.ledger import LedgerWriter, RollbackEvent
from nanopace.train.checkpoint.layout import Saved, newest_intact
from nanopace.train.loop.loop import Loop
from nanopace.train.loop.loss_watch import STREAK
from nanopace.train.plan.origin import further
from nanopace.train.plan.resolve import replan
from nanopace.train.plan.run_plan import RunPlan


class Rollbacks:
    """The rollbacks of one process."""

    def __init__(self, ledger: LedgerWriter) -> None:
        self._ledger = ledger
        self._failures: list[int] = []  # the step where each began

    @property
    def failed_at(self) -> int:
        """The last step that failed."""
        return self._failures[-1]

    def after(self, plan: RunPlan, loop: Loop, failed_at: int) -> RunPlan | None:
        """The plan to restart with; None if training has to stop."""
        before = self._failures[-1] if self._failures else None
        self._failures.append(failed_at)
        loop.close_checkpoints()
        plan.ranks.wait()  # the first rank may still be writing
        saved, refused = newest_intact(plan.ranks.share(plan.claim.run_dir))
        if plan.resumed is not None and not plan.resumed.ours:
            saved = further(saved, plan.resumed)
        for error in refused:
            self._ledger.note(error.as_message(), failed_at)
        if _is_hopeless(plan, saved, before):
            return None
        again = replan(plan, plan.source if saved is None else saved, loop.micro_batch)
        step = 0 if saved is None else saved.step
        path = None if saved is None else str(saved.path)
        self._ledger.append(RollbackEvent(step, failed_at, path, again.data_offset))
        text = Message(
            "step {step}: {count} steps in a row were NaN or infinite; going back to {path}, and on with the data in "
            "another order",
            step=failed_at,
            count=STREAK,
            path=path or Message("the beginning"),
        )
        self._ledger.note(text, failed_at)
        return again


def _is_hopeless(plan: RunPlan, saved: Saved | None, before: int | None) -> bool:
    """`before` is the step that failed last time."""
    if saved is None and plan.resumed is not None:
        return True  # an earlier process began the run, and its checkpoints are gone
    return before is not None and (saved is None or saved.step <= before)


def diverged(out_dir: Path, loop: Loop, failed_at: int) -> UsageError:
    """Save the evidence, and return an error that names its path and what to try."""
    try:
        path = loop.save_evidence(out_dir, failed_at)
    except InputError as error:
        return UsageError(
            "step {step}: the loss keeps becoming NaN or infinite, and the evidence could not be saved: {reason};"
            " try a lower --learning_rate, more --warmup_iters or --grad_clip=0.5",
            step=failed_at,
            reason=error,
        )
    return UsageError(
        "step {step}: the loss keeps becoming NaN or infinite; the evidence is in {path}; try a lower "
        "--learning_rate, more --warmup_iters or --grad_clip=0.5",
        path=path,
        step=failed_at,
    )
