"""The loop's side of checkpoints: when to save, how to report it, and what to do if it fails.

The checkpointer writes in the background. A failed save is noted, and training continues: the next one may succeed. The
last one has no successor, so it is retried, and finally written to --rescue_dir. So a disk that is full for a moment
costs a few seconds, and one that stays full costs no step. The retries are short, because whoever stops a run may not
wait long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from nanopace.errors import Message
from nanopace.ledger import CheckpointEvent
from nanopace.train.checkpoint.best import BEST
from nanopace.train.checkpoint.saver import SaveResult
from nanopace.train.clock.step_events import LAST_SAVE, Bookkeeper
from nanopace.train.loop.parts import Parts
from nanopace.train.loop.step_reports import StepReports

WAITS = (0.5, 1.0, 2.0)  # seconds before each further attempt

_POLL_S = 0.05  # between checks for a request to stop


class CheckpointManager:
    def __init__(
        self,
        parts: Parts,
        books: Bookkeeper,
        reports: StepReports,
        state: Callable[[int], dict[str, object]],
        stop_asked: Callable[[], bool],
    ) -> None:
        """`state` returns what a step's checkpoint holds in addition to weights and optimizer."""
        self._parts, self._books, self._reports = parts, books, reports
        self._state, self._stop_asked = state, stop_asked
        self._failed = False  # the previous save
        self.step = parts.plan.saved_step  # the last one saved; a resumed step need not be saved again
        self.due = False  # save as soon as possible: the last save was postponed
        self.newest: Path | None = None  # the newest checkpoint on disk
        self.unsaved: SaveResult | None = None  # why the last step has no checkpoint in out_dir, if it should have one
        self.rescued = False  # whether it has one in rescue_dir

    def save(self, step: int, *, anyway: bool = False) -> None:
        """Save, but postpone it while losses are not finite, because a rollback needs a good checkpoint. `anyway` saves
        regardless, for when there is no later chance."""
        if step in (0, self.step) or self._parts.plan.config.eval_only:
            return
        self._parts.listener.phase("checkpoint")
        self._reports.report(0)  # the checkpoint includes all losses up to here
        self._parts.clock.mark("logging", step)
        self.due = self._reports.watch.in_doubt and not anyway
        if not self.due:
            self._parts.checkpointer.save(step, self._state(step))
            self.step = step
            self._parts.clock.mark("checkpoint", step)
        self._parts.listener.phase("step")

    def collect(self, iteration: int) -> None:
        """Report the saves that have ended."""
        if news := self._parts.plan.claim.news():  # earlier checkpoints may be out of reach, so save soon
            self.due = self._parts.plan.ranks.size == 1 or self.due
        for text in (*news, *self._parts.checkpointer.notes()):
            self._parts.ledger.note(text, iteration)
        for result in self._parts.checkpointer.results():
            if result.failure is not None:
                self._note_failure(result, iteration)
                continue
            self._failed, self.unsaved, self.newest = False, None, result.path
            self._books.drain_clock()
            stall_ms = round(self._books.checkpoint_ms(result.step), 4)
            background_ms = round(result.background_ms, 3)
            self._parts.ledger.append(
                CheckpointEvent(result.step, str(result.path), stall_ms, background_ms, result.bytes)
            )

    def _note_failure(self, failed: SaveResult, iteration: int) -> None:
        """Note it only once, until a save succeeds again."""
        if failed.path.name != BEST:
            self.unsaved = failed
        if not self._failed:
            text = Message(
                "could not save {path}: {reason}; training continues, and the next save tries again",
                path=failed.path,
                reason=failed.failure,
            )
            self._parts.ledger.note(text, iteration)
        self._failed = True

    def close(self, iteration: int, *, last: bool) -> None:
        """Wait until all saves have ended, and report them. Nothing can be saved after that.

        `last` means that the run ends here, so a failed save is retried."""
        self._reports.report(0)
        self._parts.clock.mark("other", iteration)
        self._parts.checkpointer.close()
        if last:
            self._retry(iteration)
        self._parts.clock.mark(LAST_SAVE, iteration)
        self._parts.clock.finish()
        self.collect(iteration)

    def _retry(self, iteration: int) -> None:
        """Retry the last save if it failed. The first rank decides for all, because each may hold a shard."""
        ranks, checkpointer = self._parts.plan.ranks, self._parts.checkpointer
        try:
            self.collect(iteration)
            for wait in WAITS:
                if not ranks.share(self.unsaved is not None and _waited(wait, self._stop_asked)):
                    break
                checkpointer.retry_last_save()
                self.collect(iteration)
        except KeyboardInterrupt:  # another Ctrl-C ends the attempts
            if self.unsaved is None or ranks.size > 1:  # other ranks may be waiting for this one elsewhere
                raise
        elsewhere, missing = self._parts.plan.config.rescue_dir, self.unsaved
        if ranks.share(bool(elsewhere and missing is not None)):
            checkpointer.retry_last_save(lambda: self._parts.plan.claim.rescue(Path(elsewhere)))
            self.collect(iteration)
            self.rescued, self.unsaved = self.unsaved is None, missing


def _waited(seconds: float, stop_asked: Callable[[], bool]) -> bool:
    """Wait; return False as soon as the user asks to stop, for the first time or again."""
    before, end = stop_asked(), time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if stop_asked() != before:
                return False
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        return False
    return True
