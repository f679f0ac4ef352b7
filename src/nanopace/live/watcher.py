"""From lines to comments: immediate ones, an occasional diagnosis, alerts, and the final summary."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from nanopace.diagnosis.result import Diagnosis
from nanopace.diagnosis.time.pace_findings import SCHEDULED
from nanopace.errors import InputError
from nanopace.incidents import LossSpike
from nanopace.live.commentary import Commentary
from nanopace.live.comments import Comment, Say
from nanopace.live.last_words import Close, last_words, no_log, of_ending
from nanopace.live.observed import Observer, Seen
from nanopace.live.passthrough import Piece
from nanopace.live.reading import LiveReader, Reader
from nanopace.live.remarks import again, first_not_finite, in_blocks, no_lines, silent, usual_s
from nanopace.live.silence import Silence
from nanopace.live.standing import Standing
from nanopace.live.status import Status, footer, status_line
from nanopace.record import replace
from nanopace.run import Ending, Row, Run, Span
from nanopace.views.report import Report
from nanopace.views.terminal.status_lines import Losses
from nanopace.wording.catalog import Words

FIRST_ROWS = 5  # before anything is said about the run as a whole
STATUS_S = 300.0  # between two status lines
STATUS_AT_EVALUATION_S = 30.0  # the same after an evaluation
AT_REST_S = 5.0  # how long a finished log must be silent to be over
_STARTUP = (
    *("startup", "startup_bounded", "startup_together", "startup_unsplit", "startup_compile", "startup_of_several"),
)


class Watcher:
    """Takes pieces of a log in order, and checks regularly whether there is something to say."""

    def __init__(
        self,
        name: str,
        words: Words,
        say: Say,
        complete: Callable[[Run], Run],
        *,
        silent_s: float | None = None,
        status_lines: bool = True,
        patterns: Sequence[str] = (),
        reader: Callable[[Observer], Reader] | None = None,
    ) -> None:
        """`complete` adds the user's settings to the run; without `status_lines`, a footer shows the same; `patterns`
        are those of --pattern; `reader` reads a document, without it lines are expected."""
        self._words, self._say, self._status_lines = words, say, status_lines
        self._reader = LiveReader(name, self, patterns) if reader is None else reader(self)
        self._of_lines = reader is None
        self._standing = Standing(self._reader, complete)
        self._commentary = Commentary(words, self._comment)
        self._silence = Silence(silent_s)
        self._losses = Losses()
        self._live = False
        self._now = time.monotonic()
        self._rows_of_piece: list[Row] = []
        self._covers = 1  # how many iterations a row's time turned out to cover
        self._gap_s = 0.0  # before this piece
        self._came = False  # whether something has just arrived
        self._status_s = -math.inf
        self._shown: int | None = None  # the iteration of the last status
        self._status_every_s = STATUS_S
        self._startup_said = True  # nothing to say before the first row
        self._ending: Ending | None = None
        self._told_ending: Ending | None = None
        self._refused = False  # a document instead of lines

    # --- what comes --------------------------------------------------------------------------------------------------

    def feed(self, piece: Piece) -> None:
        """Take lines; an empty piece means that none arrived for a moment."""
        self._now = piece.at_s
        if piece.live and not self._live:
            self._standing.news |= self._reader.look(self._now)
            self._begin_live()
        self._rows_of_piece.clear()
        self._came = bool(piece.data)
        if piece.data:
            self._heard()
            self._standing.news = True
            self._reader.feed(piece.data)
            self._refuse()
            if self._live and self._standing.clock.blocks(self._rows_of_piece, piece.data.count(b"\n"), self._gap_s):
                self._comment(in_blocks(len(self._rows_of_piece), self._words))
        if self._reader.look(self._now):
            self._standing.news = self._came = True
            self._heard()
        self._look()

    def saw_process(self) -> None:
        self._standing.begin_process()

    def saw_row(self, seen: Seen) -> None:
        if seen.new_run:
            self._losses = Losses()
            self._startup_said, self._told_ending = False, None
        self._ending = None
        self._rows_of_piece.append(seen.row)
        if seen.row.loss is not None:
            self._losses.add(seen.row.iteration, seen.row.loss)
        one = seen if self._covers == 1 else seen._replace(row=replace(seen.row, ms=seen.row.ms / self._covers))
        self._commentary.row(one, self._now)
        self._standing.row(seen.row, self._now if self._live else None, first=seen.first, new_run=seen.new_run)

    def saw_evaluation(self, iteration: int) -> None:
        self._standing.evaluation(iteration)
        self._status_every_s = STATUS_AT_EVALUATION_S
        if self._standing.last is not None:
            self._silence.evaluation()

    def saw_span(self, span: Span) -> None:
        self._commentary.span(span)

    def saw_spike(self, spike: LossSpike) -> None:
        self._commentary.watches_loss = True
        self._commentary.spike(spike)

    def saw_skipped(self, iteration: int) -> None:
        self._commentary.skipped(iteration)

    def saw_ending(self, ending: Ending) -> None:
        self._ending = ending

    # --- what is said ------------------------------------------------------------------------------------------------

    def footer(self, width: int) -> list[str]:
        status = self._status()
        return [] if status is None else footer(status, self._losses, self._words, width)

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The most recent one."""
        return self._standing.diagnosis

    @property
    def over(self) -> bool:
        """Whether the log says that the run is finished and has been silent since."""
        return self._standing.is_finished and not self._standing.news and self._silence.lasts_s(self._now) >= AT_REST_S

    def finish(self, close: Close) -> None:
        self._live = True
        try:
            self._reader.finish()
            self._refuse()
        except InputError as error:
            self._comment(Comment(self._words.error(error), "ended"))
            return
        if self._reader.format is None or self._standing.last is None:
            if close.closed and not self._refused:
                self._comment(no_log(self._words))
            return
        self._diagnose()
        assert self._standing.diagnosis is not None
        for comment in last_words(self._standing.diagnosis, close, self._words, self._told_ending):
            self._comment(comment)

    # --- now and then ------------------------------------------------------------------------------------------------

    def _begin_live(self) -> None:
        """The history has been read without comments."""
        self._live = True
        self._standing.begin_live()
        if self._standing.last is not None:
            self._status_s = -math.inf
            self._startup_said = True
            self._silence.line(self._now)

    def _heard(self) -> None:
        if not self._live:
            return
        self._gap_s = self._silence.lasts_s(self._now)
        silent_s = self._silence.line(self._now)
        if silent_s is not None:
            self._comment(again(silent_s, self._of_lines, self._words))

    def _look(self) -> None:
        if not self._live:
            return
        if self._standing.is_due(self._now):
            self._diagnose(FIRST_ROWS)
        self._look_for_silence()
        self._look_for_ending()
        status = self._status()
        if status is None:
            return
        if not self._startup_said:
            self._startup_said = True
            found = next((each for each in status.diagnosis.findings if each.code in _STARTUP), None)
            if found is not None:
                self._comment(Comment(Report(status.diagnosis, self._words).text(found)))
        if (
            self._status_lines
            and status.pace_is_known
            and self._now - self._status_s >= self._status_every_s
            and (self._came or self._status_s == -math.inf)  # in silence, there is nothing new
            and status.last.last_iteration != self._shown
        ):
            self._status_s, self._status_every_s = self._now, STATUS_S
            self._shown = status.last.last_iteration
            self._comment(Comment(status_line(status, self._words)))

    def _diagnose(self, fewest: int = 1) -> None:
        run = self._standing.diagnose(self._now, fewest)
        if run is None:
            return
        self._commentary.on_cpu = run.on_cpu
        self._commentary.elsewhere = not run.nanogpt_knobs
        self._commentary.is_scheduled = any(each.code in SCHEDULED for each in run.caveats)
        self._covers = 1 if run.rows_cover_shown_by in ("trainer", "clock") else run.rows_cover  # already divided
        self._commentary.watches_loss = run.spikes is not None
        if (first := first_not_finite(run.logged)) is not None:
            self._commentary.not_finite(first)

    def _status(self) -> Status | None:
        lasts_s = self._silence.lasts_s(self._now)
        worth = self._of_lines and lasts_s > max(5.0, 3 * self._silence.usual_s)
        return self._standing.status(lasts_s if worth else None)

    def _look_for_ending(self) -> None:
        """Report the ending. A traceback names the error in its last line, so wait a moment for that."""
        last = self._standing.last
        if last is None or self._ending == self._told_ending or self._silence.lasts_s(self._now) <= 1.0:
            return
        comment = of_ending(self._ending, last.last_iteration, self._words, elsewhere=self._commentary.elsewhere)
        if comment is not None:
            self._told_ending = self._ending
            self._comment(comment)

    def _look_for_silence(self) -> None:
        last = self._standing.last
        if last is None or self._ending is not None or self._standing.is_finished:
            return
        row_s, evaluation_s = usual_s(self._standing.diagnosis)
        silent_s = self._silence.check(self._now, row_s, evaluation_s)
        if silent_s is not None:
            usual = (self._silence.usual_s or row_s) if self._of_lines else None
            self._comment(silent(silent_s, usual, last.last_iteration, self._words))

    def _refuse(self) -> None:
        """Report once that a document arrives through a pipe."""
        if not self._refused and isinstance(self._reader, LiveReader) and self._reader.is_document:
            self._refused = True
            self._comment(no_lines(self._reader.trainer, self._words))

    def _comment(self, comment: Comment) -> None:
        if self._live:
            self._say(comment)
