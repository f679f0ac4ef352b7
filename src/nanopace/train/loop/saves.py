"""A run's checkpoints as the loop sees them: when to save, what became of it, and what to do where it failed.

The checkpointer writes in the background. A save that fails is noted, and training goes on: the next one may succeed.
Nothing comes after the last one: it is tried again, and at last elsewhere. A disk that is full for a moment costs a few
seconds that way, and one that stays full costs no step where --rescue_dir names another. All of it is short, because
whoever stops a run may not wait long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nanopace.ledger import CheckpointEvent, NoteEvent
from nanopace.train.checkpoint.best import BEST
from nanopace.train.clock.step_events import LAST_SAVE, Bookkeeper
from nanopace.train.loop.parts import Parts
from nanopace.train.loop.step_reports import StepReports

WAITS = (0.5, 1.0, 2.0)  # seconds before each further attempt

_A_LOOK = 0.05  # seconds between looks at whether somebody wants to leave


@dataclass(frozen=True, slots=True)
class Unsaved:
    """The last step has no checkpoint in out_dir."""

    path: Path  # that it should have
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class Saves:
    def __init__(
        self,
        parts: Parts,
        books: Bookkeeper,
        reports: StepReports,
        state: Callable[[int], dict[str, object]],
        stop_asked: Callable[[], bool],
    ) -> None:
        """`state`: a step to what its checkpoint holds beside weights and optimizer."""
        self._parts, self._books, self._reports = parts, books, reports
        self._state, self._stop_asked = state, stop_asked
        self._failed = False  # the save before
        self.step = parts.plan.saved_step  # the last that was saved; a resumed one need not be saved again
        self.due = False  # although it is not its turn: the last one was put off
        self.newest: Path | None = None  # the newest checkpoint on the disk
        self.unsaved: Unsaved | None = None  # why the last step has no checkpoint in out_dir, if it should have one
        self.rescued = False  # it has one elsewhere

    def save(self, step: int, *, anyway: bool = False) -> None:
        """Put off while steps are not finite: what training goes back to shall be good. `anyway`: there is no later."""
        if step in (0, self.step) or self._parts.plan.config.eval_only:
            return
        self._parts.listener.phase("checkpoint")
        self._reports.report(0)  # the losses up to here belong into it
        self._parts.clock.mark("logging", step)
        self.due = self._reports.watch.in_doubt and not anyway
        if not self.due:
            self._parts.checkpointer.save(step, self._state(step))
            self.step = step
            self._parts.clock.mark("checkpoint", step)
        self._parts.listener.phase("step")

    def collect(self, iteration: int) -> None:
        """Report the checkpoints that are on the disk by now, or failed."""
        if news := self._parts.plan.claim.news():  # what was saved before may be out of reach
            self.due = self._parts.plan.ranks.size == 1 or self.due
        for text in (*news, *self._parts.checkpointer.notes()):
            self._parts.ledger.append(NoteEvent(text, iteration))
        for result in self._parts.checkpointer.results():
            if result.failure is not None:
                self._note_failure(Unsaved(result.path, result.failure), iteration)
                continue
            self._failed, self.unsaved, self.newest = False, None, result.path
            self._books.settle()
            stall_ms = round(self._books.checkpoint_ms(result.step), 4)
            background_ms = round(result.background_ms, 3)
            self._parts.ledger.append(
                CheckpointEvent(result.step, str(result.path), stall_ms, background_ms, result.bytes)
            )

    def _note_failure(self, failure: Unsaved, iteration: int) -> None:
        """Once, until a save succeeds again."""
        if failure.path.name != BEST:
            self.unsaved = failure
        if not self._failed:
            text = f"could not save {failure}; training goes on and tries again at the next save"
            self._parts.ledger.append(NoteEvent(text, iteration))
        self._failed = True

    def close(self, iteration: int, *, last: bool) -> None:
        """Wait until all checkpoints are on the disk, or failed, and report them. Nothing can be saved after that.

        `last`: nor will there be another chance."""
        self._reports.report(0)
        self._parts.clock.mark("other", iteration)
        self._parts.checkpointer.close()
        if last:
            self._try_again(iteration)
        self._parts.clock.mark(LAST_SAVE, iteration)
        self._parts.clock.finish()
        self.collect(iteration)

    def _try_again(self, iteration: int) -> None:
        """If the last save failed. The first rank decides whether to, and all do: each may hold a part of it."""
        ranks, checkpointer = self._parts.plan.ranks, self._parts.checkpointer
        try:
            self.collect(iteration)
            for wait in WAITS:
                if not ranks.share(self.unsaved is not None and _waited(wait, self._stop_asked)):
                    break
                checkpointer.again()
                self.collect(iteration)
        except KeyboardInterrupt:  # one more Ctrl-C ends the attempts, wherever it comes
            if self.unsaved is None or ranks.size > 1:  # others may wait for this rank at another place
                raise
        elsewhere, missing = self._parts.plan.config.rescue_dir, self.unsaved
        if ranks.share(bool(elsewhere and missing is not None)):
            checkpointer.again(lambda: self._parts.plan.claim.rescue(Path(elsewhere)))
            self.collect(iteration)
            self.rescued, self.unsaved = self.unsaved is None, missing


def _waited(seconds: float, stop_asked: Callable[[], bool]) -> bool:
    """False as soon as somebody asks to stop, who had not when this began, or asks again."""
    before, end = stop_asked(), time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if stop_asked() != before:
                return False
            time.sleep(_A_LOOK)
    except KeyboardInterrupt:
        return False
    return True
