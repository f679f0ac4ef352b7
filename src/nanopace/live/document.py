"""A file that is a single document: it is read again when it changes, and its new rows are reported.

trainer_state.json is replaced at every checkpoint, TensorBoard's event files and W&B's runs are appended to, and
Lightning rewrites its metrics.csv. None of their lines are passed on. Reading takes at most a tenth of the time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator

from nanopace.errors import InputError, NotALog
from nanopace.live.observed import Observer, Seen
from nanopace.run import Run
from nanopace.sources.detect import Detector
from nanopace.sources.formats.registry import find_format
from nanopace.sources.log_format import LogFormat
from nanopace.sources.runs import open_runs

LEAST_S = 1.0  # between two readings, and ...
SHARE = 9.0  # ... this many times what one takes
_OPENING = 16 << 10  # bytes needed to recognise a file
_HALF_WRITTEN_S = 2.0  # how long a file may be incomplete at first


def document_format(path: str) -> str | None:
    """The name of the format if a file is a document, else None."""
    detector = Detector()
    try:
        with open(path, "rb") as file:
            detector.look_at(file.read(_OPENING))
    except OSError:
        return None
    format = detector.format
    return format.name if format is not None and (format.opening or format.written_anew) else None


class Waiting:
    """A source without lines: it only waits until the user stops."""

    may_wait = True
    skipped = 0

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def history(self) -> Iterator[bytes]:
        return iter(())

    def live(self) -> Iterator[bytes]:
        self._stop.wait()
        return iter(())


class Document:
    """Reads a file repeatedly; `find` returns its current path. `complain` is called once with the reason why it has no
    row yet."""

    def __init__(self, find: Callable[[], str], observer: Observer, complain: Callable[[InputError], object]) -> None:
        self._find, self._observer, self._complain = find, observer, complain
        self._complained = False
        self._run: Run | None = None
        self._mark: tuple[int, ...] = ()
        self._next_s = self._first_s = 0.0
        self._reached = self._evaluated = -1  # iterations that have been reported

    @property
    def format(self) -> LogFormat | None:
        return None if self._run is None else find_format(self._run.format)

    def feed(self, data: bytes) -> None:
        """No lines arrive."""

    def look(self, now: float) -> bool:
        """Whether it has changed. A file that still cannot be read after its first moments is an InputError; later on,
        it is probably being written and is read another time."""
        if now < self._next_s:
            return False
        self._first_s = self._first_s or now
        began_s = time.monotonic()
        try:
            path = self._find()
            about = os.stat(path)
            mark = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
            if mark == self._mark:
                return False
            run = open_runs(path)[-1]
        except NotALog as error:  # nothing is logged yet
            if self._run is None and not self._complained:
                self._complained = True
                self._complain(error)
            return False
        except (InputError, OSError):
            if self._run is None and now - self._first_s >= _HALF_WRITTEN_S:
                raise
            return False
        finally:
            self._next_s = now + max(LEAST_S, SHARE * (time.monotonic() - began_s))
        self._mark = mark
        if self._is_half_of_it(run):
            return False
        self._run = run
        self._tell(run)
        return True

    def _is_half_of_it(self, run: Run) -> bool:
        """Whether this is a shorter version of what was read before: the file is being rewritten."""
        known, end = self._run.logged if self._run is not None else (), len(run.logged) - 1
        if end + 1 >= len(known):
            return False
        return (known[end].iteration, known[end].loss) == (run.logged[end].iteration, run.logged[end].loss)

    def snapshot(self) -> Run | None:
        return self._run

    def finish(self) -> None:
        """Nothing is left to read."""

    def _tell(self, run: Run) -> None:
        """Report what is new. If it ends before what was already reported, it is another run."""
        rows, timed = run.logged, len(run.rows) > 0
        new_run = self._reached < 0 or rows.last_iteration[-1] < self._reached
        if new_run:
            self._reached = self._evaluated = -1
        first = new_run
        for evaluation in run.evaluations:
            if evaluation.iteration > self._evaluated:
                self._evaluated = evaluation.iteration
                self._observer.saw_evaluation(evaluation.iteration)
        contain = {each.row for each in run.evaluations} if timed else set()
        saved = {each.row for each in run.checkpoints} if timed else set()
        for index in range(len(rows)):
            if rows.last_iteration[index] > self._reached:
                row = rows[index]
                self._observer.saw_row(Seen(row, index in contain, index in saved, first, first, None, timed))
                first = False
        self._reached = rows.last_iteration[-1]
        if run.ending is not None:
            self._observer.saw_ending(run.ending)
