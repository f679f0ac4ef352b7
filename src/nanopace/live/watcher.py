"""From lines to what is said under them: comments at once, a diagnosis now and then, alerts, and the last words."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.errors import InputError
from nanopace.incidents import LossSpike
from nanopace.live.clock_here import ClockHere
from nanopace.live.commentary import Commentary
from nanopace.live.comments import Comment, Say
from nanopace.live.last_words import Close, last_words, no_log, of_ending
from nanopace.live.observed import Observer, Seen
from nanopace.live.passthrough import Piece
from nanopace.live.reading import LiveReader, Reader
from nanopace.live.remarks import again, first_not_finite, in_blocks, no_lines, silent, usual_s
from nanopace.live.silence import Silence
from nanopace.live.status import Status, footer, status_line
from nanopace.run import Ending, Row, Run, Span
from nanopace.views.report import Report
from nanopace.views.status_lines import Losses
from nanopace.wording.catalog import Words

FIRST_ROWS = 5  # before anything is said of the whole
LEAST_S = 1.0  # from one diagnosis to the next, and ...
SHARE = 20.0  # ... so many times what one takes: a twentieth of a core
STATUS_S = 300.0  # from one line of status to the next
STATUS_AT_EVALUATION_S = 30.0  # the same after an evaluation
AHEAD_ITERATIONS = 32  # by which a program that runs ahead of its GPU surely waits for it
AT_REST_S = 5.0  # that a finished log has to be silent, to be over
_STARTUP = (
    *("startup", "startup_bounded", "startup_together", "startup_unsplit", "startup_compile", "startup_of_several"),
)


class Watcher:
    """Takes pieces of a log in their order, and is asked now and then whether there is something to say."""

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
        """`complete` adds what a person said about the run; without `status_lines` a footer shows the same; `patterns`
        are those of --pattern; `reader` is that of a document, else lines come."""
        self._words, self._say, self._complete = words, say, complete
        self._status_lines = status_lines
        self._reader = LiveReader(name, self, patterns) if reader is None else reader(self)
        self._of_lines = reader is None
        self._commentary = Commentary(words, self._comment)
        self._silence = Silence(silent_s)
        self._clock = ClockHere()
        self._losses = Losses()
        self._live = False
        self._now = time.monotonic()
        self._last: Row | None = None
        self._told: Row | None = None  # the last one that is certain: a reader may hold later ones back
        self._last_evaluation: int | None = None
        self._rows_of_piece: list[Row] = []
        self._gap_s = 0.0  # before this piece
        self._came = self._news = False  # something has come: now, or since the diagnosis
        self._diagnosis: Diagnosis | None = None
        self._next_s = -math.inf
        self._status_s = -math.inf
        self._shown: int | None = None  # the iteration of the last status
        self._status_every_s = STATUS_S
        self._startup_said = True  # there is nothing to say before the first row
        self._ending: Ending | None = None
        self._told_ending: Ending | None = None
        self._refused = False  # a document, among lines

    # --- what comes --------------------------------------------------------------------------------------------------

    def feed(self, piece: Piece) -> None:
        """Lines; an empty piece is a moment in which none came."""
        self._now = piece.at_s
        if piece.live and not self._live:
            self._news |= self._reader.look(self._now)
            self._begin_live()
        self._rows_of_piece.clear()
        self._came = bool(piece.data)
        if piece.data:
            self._heard()
            self._news = True
            self._reader.feed(piece.data)
            self._refuse()
            if self._live and self._clock.blocks(self._rows_of_piece, piece.data.count(b"\n"), self._gap_s):
                self._comment(in_blocks(len(self._rows_of_piece), self._words))
        if self._reader.look(self._now):
            self._news = self._came = True
            self._heard()
        self._look()

    def saw_process(self) -> None:
        """Another one begins, whose rows may be held back for a while: what is known was of the one before."""
        self._clock.begin()
        self._told = None

    def saw_row(self, seen: Seen) -> None:
        if seen.new_run:
            self._losses = Losses()
            self._startup_said, self._told_ending = False, None
        if seen.first:
            self._clock.begin()
        self._ending = None
        self._last = self._told = seen.row
        self._rows_of_piece.append(seen.row)
        if seen.row.loss is not None:
            self._losses.add(seen.row.iteration, seen.row.loss)
        self._commentary.row(seen, self._now)
        if self._live:
            self._clock.row(seen.row, self._now)

    def saw_evaluation(self, iteration: int) -> None:
        self._last_evaluation = iteration
        self._clock.evaluation()
        self._status_every_s = STATUS_AT_EVALUATION_S
        if self._last is not None:
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
        """For the bottom of a terminal."""
        status = self._status()
        return [] if status is None else footer(status, self._losses, self._words, width)

    @property
    def over(self) -> bool:
        """Whether the log says that the run is finished, and has been silent since."""
        return self._is_finished() and not self._news and self._silence.lasts_s(self._now) >= AT_REST_S

    def finish(self, close: Close) -> None:
        """The last words."""
        self._live = True
        try:
            self._reader.finish()
            self._refuse()
        except InputError as error:
            self._comment(Comment(self._words.error(error), "ended"))
            return
        if self._reader.format is None or self._last is None:
            if close.closed and not self._refused:
                self._comment(no_log(self._words))
            return
        self._diagnose()
        assert self._diagnosis is not None
        for comment in last_words(self._diagnosis, close, self._words, self._told_ending):
            self._comment(comment)

    # --- now and then ------------------------------------------------------------------------------------------------

    def _begin_live(self) -> None:
        """What was there before has been read in silence."""
        self._live = True
        if self._last is not None:
            self._next_s = self._status_s = -math.inf
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
        if self._news and self._now >= self._next_s:
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
            and (self._came or self._status_s == -math.inf)  # in silence there is nothing new
            and status.last.last_iteration != self._shown
        ):
            self._status_s, self._status_every_s = self._now, STATUS_S
            self._shown = status.last.last_iteration
            self._comment(Comment(status_line(status, self._words)))

    def _diagnose(self, fewest: int = 1) -> None:
        """With rows that are held back, too: those only say how far it is, and that the loss is none."""
        began_s = time.thread_time()
        self._news = False
        run = self._reader.snapshot()
        if run is not None and run.logged.lines >= fewest:
            run = self._complete(run)
            self._diagnosis = diagnose(run)
            self._commentary.on_cpu = run.on_cpu
            self._commentary.watches_loss = run.spikes is not None
            self._last = run.logged[-1]
            if self._live and (self._told is None or self._told.last_iteration < self._last.last_iteration):
                self._clock.row(self._last, self._now)
            self._last_evaluation = max((each.iteration for each in run.evaluations), default=None)
            if (first := first_not_finite(run.logged)) is not None:
                self._commentary.not_finite(first)
        least_s = LEAST_S if self._diagnosis is not None else 0.0  # the first one comes with its row
        self._next_s = self._now + max(least_s, SHARE * (time.thread_time() - began_s))

    def _status(self) -> Status | None:
        diagnosis, last = self._diagnosis, self._last
        if diagnosis is None or last is None:
            return None
        lasts_s = self._silence.lasts_s(self._now)
        worth = self._of_lines and lasts_s > max(5.0, 3 * self._silence.usual_s)
        return Status(
            diagnosis,
            last,
            self._last_evaluation,
            self._clock.iteration_s if diagnosis.timed else self._clock.untimed_iteration_s,
            lasts_s if worth else None,
            pace_is_known=self._knows_pace(last),
        )

    def _knows_pace(self, last: Row) -> bool:
        """A program runs ahead of its GPU until the first evaluation: its first rows alone do not tell the pace."""
        format = self._reader.format
        certain = self._told is not None and self._told.last_iteration <= last.last_iteration
        return certain or format is None or not format.running_clock or last.last_iteration >= AHEAD_ITERATIONS

    def _look_for_ending(self) -> None:
        """A traceback says what it is in its last line: a moment is waited for that."""
        if self._last is None or self._ending == self._told_ending or self._silence.lasts_s(self._now) <= 1.0:
            return
        comment = of_ending(self._ending, self._last.last_iteration, self._words)
        if comment is not None:
            self._told_ending = self._ending
            self._comment(comment)

    def _look_for_silence(self) -> None:
        if self._last is None or self._ending is not None or self._is_finished():
            return
        row_s, evaluation_s = usual_s(self._diagnosis)
        silent_s = self._silence.check(self._now, row_s, evaluation_s)
        if silent_s is not None:
            usual = (self._silence.usual_s or row_s) if self._of_lines else None
            self._comment(silent(silent_s, usual, self._last.last_iteration, self._words))

    def _is_finished(self) -> bool:
        return self._diagnosis is not None and self._diagnosis.source.ending == "finished"

    def _refuse(self) -> None:
        """A document that comes in a pipe, once."""
        if not self._refused and isinstance(self._reader, LiveReader) and self._reader.is_document:
            self._refused = True
            self._comment(no_lines(self._reader.trainer, self._words))

    def _comment(self, comment: Comment) -> None:
        if self._live:
            self._say(comment)
