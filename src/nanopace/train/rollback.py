"""What becomes of a run whose losses are not finite: it goes back once and meets other data, or it stops.

Going back means the newest whole checkpoint, or the beginning where there is none, and another order of the data from
there on. If that fails too before training got past the step where it failed, by at least one newer checkpoint, it is
not the data: training stops, and what is known of it is saved (evidence.py).
"""

from __future__ import annotations

from pathlib import Path

from nanopace.errors import UsageError
from nanopace.ledger import LedgerWriter, NoteEvent, RollbackEvent
from nanopace.train.checkpoint.layout import Saved, newest_whole
from nanopace.train.loop.loop import Loop
from nanopace.train.loop.loss_watch import STREAK
from nanopace.train.plan.origin import further
from nanopace.train.plan.resolve import replan
from nanopace.train.plan.run_plan import RunPlan


class Rollbacks:
    """Those of one process."""

    def __init__(self, ledger: LedgerWriter) -> None:
        self._ledger = ledger
        self._failures: list[int] = []  # the step at which each began

    @property
    def failed_at(self) -> int:
        """The last step that failed."""
        return self._failures[-1]

    def after(self, plan: RunPlan, loop: Loop, failed_at: int) -> RunPlan | None:
        """Where to begin again; None where training has to stop."""
        before = self._failures[-1] if self._failures else None
        self._failures.append(failed_at)
        loop.close_saves()
        plan.ranks.wait()  # the first one may still be writing
        saved, refused = newest_whole(plan.ranks.share(plan.claim.home))
        if plan.resumed is not None and not plan.resumed.ours:
            saved = further(saved, plan.resumed)
        for error in refused:
            self._ledger.append(NoteEvent(str(error), failed_at))
        if _is_hopeless(plan, saved, before):
            return None
        again = replan(plan, plan.source if saved is None else saved, loop.micro_batch)
        step = 0 if saved is None else saved.step
        path = None if saved is None else str(saved.path)
        self._ledger.append(RollbackEvent(step, failed_at, path, again.data_offset))
        text = (
            f"step {failed_at}: {STREAK} steps in a row were not finite; back to {path or 'the beginning'}, "
            "and on with another order of the data"
        )
        self._ledger.append(NoteEvent(text, failed_at))
        return again


def _is_hopeless(plan: RunPlan, saved: Saved | None, before: int | None) -> bool:
    """`before`: where it failed the last time."""
    if saved is None and plan.resumed is not None:
        return True  # the beginning was another process', and all that it saved is gone
    return before is not None and (saved is None or saved.step <= before)


def diverged(out_dir: Path, loop: Loop, failed_at: int) -> UsageError:
    """Saves the evidence, and says where it is and what to try."""
    try:
        path = loop.save_evidence(out_dir, failed_at)
    except OSError as error:
        return UsageError(
            "step {step}: the loss is not finite, again and again, and the evidence could not be saved: {reason}; "
            "try a lower --learning_rate, more --warmup_iters or --grad_clip=0.5",
            step=failed_at,
            reason=error.strerror or error,
        )
    return UsageError(
        "{path}: the evidence is there: the loss is not finite, again and again, at step {step}; "
        "try a lower --learning_rate, more --warmup_iters or --grad_clip=0.5",
        path=path,
        step=failed_at,
    )
