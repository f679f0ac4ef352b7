"""From lines to what is said under them: comments at once, a diagnosis now and then, alerts, and the last words."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.incidents import LossSpike
from nanopace.live.commentary import Commentary
from nanopace.live.comments import Comment, Say
from nanopace.live.last_words import Close, last_words, no_log, of_ending
from nanopace.live.observed import Seen
from nanopace.live.passthrough import Piece
from nanopace.live.reading import LiveReader
from nanopace.live.silence import Silence
from nanopace.live.status import Status, footer, status_line
from nanopace.run import Ending, Row, Run, Span
from nanopace.views.report import Report
from nanopace.views.terminal.status_lines import Losses
from nanopace.wording.catalog import Words

FIRST_ROWS = 5  # before anything is said of the whole
LEAST_S = 1.0  # from one diagnosis to the next, and ...
SHARE = 20.0  # ... so many times what one takes: a twentieth of a core
STATUS_S = 300.0  # from one line of status to the next
STATUS_AT_EVALUATION_S = 30.0  # the same after an evaluation
AT_REST_S = 5.0  # that a finished log has to be silent, to be over
_STARTUP = (
    *("startup", "startup_bounded", "startup_together", "startup_unsplit", "startup_compile", "startup_of_several"),
)
_BLOCK_ROWS, _BLOCK_S = 10, 5.0  # rows that come at once and took so long: the trainer's output is buffered


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
    ) -> None:
        """`complete` adds what a person said about the run; without `status_lines` a footer shows the same; `patterns`
        are those of --pattern."""
        self._words, self._say, self._complete = words, say, complete
        self._status_lines = status_lines
        self._reader = LiveReader(name, self, patterns)
        self._commentary = Commentary(words, self._comment)
        self._silence = Silence(silent_s)
        self._losses = Losses()
        self._live = False
        self._now = time.monotonic()
        self._rows = 0
        self._last: Row | None = None
        self._last_evaluation: int | None = None
        self._rows_of_piece: list[Row] = []
        self._gap_s = 0.0  # before this piece
        self._blocks = 0
        self._first_live: tuple[float, int, int] | None = None  # when, which iteration, evaluations until then
        self._clock: tuple[float, int] | None = None  # of the last live row
        self._evaluations = 0
        self._diagnosis: Diagnosis | None = None
        self._diagnosed_rows = 0
        self._next_s = -math.inf
        self._status_s = -math.inf
        self._status_every_s = STATUS_S
        self._startup_said = False
        self._ending: Ending | None = None
        self._told_ending: Ending | None = None

    # --- what comes --------------------------------------------------------------------------------------------------

    def feed(self, piece: Piece) -> None:
        """Lines; an empty piece is a moment in which none came."""
        self._now = piece.at_s
        if piece.live and not self._live:
            self._begin_live()
        self._rows_of_piece.clear()
        if piece.data:
            self._heard()
            self._reader.feed(piece.data)
            self._notice_blocks()
        self._look()

    def saw_row(self, seen: Seen) -> None:
        if seen.new_run:
            self._losses, self._rows = Losses(), 0
            if self._last_evaluation is not None and self._last_evaluation > seen.row.iteration:
                self._last_evaluation = None  # of the run before
            self._diagnosis, self._startup_said, self._told_ending = None, False, None
        if seen.first:
            self._first_live = None
        self._ending = None
        self._rows += 1
        self._last = seen.row
        self._rows_of_piece.append(seen.row)
        if seen.row.loss is not None:
            self._losses.add(seen.row.iteration, seen.row.loss)
        self._commentary.row(seen, self._now)
        if self._live:
            self._clock = self._now, seen.row.last_iteration
            if self._first_live is None:
                self._first_live = self._now, seen.row.last_iteration, self._evaluations

    def saw_evaluation(self, iteration: int) -> None:
        self._last_evaluation = iteration
        self._evaluations += 1
        self._status_every_s = STATUS_AT_EVALUATION_S
        if self._rows:
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
        finished = self._diagnosis is not None and self._diagnosis.source.ending == "finished"
        return finished and self._rows == self._diagnosed_rows and self._silence.lasts_s(self._now) >= AT_REST_S

    def finish(self, close: Close) -> None:
        """The last words."""
        self._reader.finish()
        self._live = True
        if self._reader.format is None or not self._rows:
            if close.closed:
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
        if self._rows:
            self._next_s = self._status_s = -math.inf
            self._startup_said = True
            self._silence.line(self._now)

    def _heard(self) -> None:
        if not self._live:
            return
        self._gap_s = self._silence.lasts_s(self._now)
        silent_s = self._silence.line(self._now)
        if silent_s is not None:
            said = self._words.text("Lines come again, after {time}.", time=self._words.duration(silent_s))
            self._comment(Comment(said))

    def _look(self) -> None:
        self._reader.fold()
        if not self._live:
            return
        if self._rows >= FIRST_ROWS and self._rows != self._diagnosed_rows and self._now >= self._next_s:
            self._diagnose()
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
            and self._now - self._status_s >= self._status_every_s
            and (self._rows_of_piece or self._status_s == -math.inf)  # in silence there is nothing new
        ):
            self._status_s, self._status_every_s = self._now, STATUS_S
            self._comment(Comment(status_line(status, self._words)))

    def _diagnose(self) -> None:
        began_s = time.thread_time()
        run = self._reader.snapshot()
        if run is None:
            return
        run = self._complete(run)
        self._diagnosis, self._diagnosed_rows = diagnose(run), self._rows
        self._commentary.on_cpu = run.on_cpu
        self._commentary.watches_loss = run.spikes is not None
        self._next_s = self._now + max(LEAST_S, SHARE * (time.thread_time() - began_s))

    def _status(self) -> Status | None:
        if self._diagnosis is None or self._last is None:
            return None
        lasts_s = self._silence.lasts_s(self._now)
        worth = lasts_s > max(5.0, 3 * self._silence.usual_s)
        return Status(self._diagnosis, self._last, self._last_evaluation, self._clock_s(), lasts_s if worth else None)

    def _clock_s(self) -> float | None:
        """What an iteration took by the clock here, over two evaluations and more."""
        if self._first_live is None or self._clock is None or self._evaluations - self._first_live[2] < 2:
            return None
        iterations = self._clock[1] - self._first_live[1]
        return (self._clock[0] - self._first_live[0]) / iterations if iterations > 0 else None

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
        silent_s = self._silence.check(self._now, *self._usual_s())
        if silent_s is None:
            return
        words, last = self._words, self._last.last_iteration
        said = words.text(
            "No line for {time}; they usually come every {usual}. The last row was of iteration {iteration}.",
            time=words.duration(silent_s),
            usual=words.duration(self._silence.usual_s or self._usual_s()[0]),
            iteration=words.count(last),
        )
        self._comment(Comment(said, "silent", last))

    def _usual_s(self) -> tuple[float, float]:
        """What a row and an evaluation take, by the log; 0 where it does not say."""
        if self._diagnosis is None:
            return 0.0, 0.0
        row_ms = (self._diagnosis.step.median_ms or 0.0) * (self._diagnosis.source.log_interval or 1)
        return row_ms / 1000, (self._diagnosis.evaluations.each_ms or 0.0) / 1000

    def _is_finished(self) -> bool:
        return self._diagnosis is not None and self._diagnosis.source.ending == "finished"

    def _notice_blocks(self) -> None:
        """Rows that took seconds and come all at once were kept back by the trainer's own buffer."""
        rows = self._rows_of_piece
        if not self._live or len(rows) < _BLOCK_ROWS or min(self._gap_s, sum(row.ms for row in rows) / 1000) < _BLOCK_S:
            return
        self._blocks += 1
        if self._blocks == 2:
            said = self._words.text(
                "Rows come in blocks of about {count}: the trainer's output is buffered. With python -u, or "
                "PYTHONUNBUFFERED=1, each comes at once.",
                count=self._words.count(len(rows)),
            )
            self._comment(Comment(said))

    def _comment(self, comment: Comment) -> None:
        if self._live:
            self._say(comment)
