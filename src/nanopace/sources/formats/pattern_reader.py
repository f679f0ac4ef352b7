"""Reads a log by the expressions of --pattern: their groups become rows and evaluations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.pattern import RUNNING, TIMES, LinePattern, format_of
from nanopace.sources.printed_numbers import RateBounds, half_unit
from nanopace.sources.running_clock import RunningClock
from nanopace.sources.time_stamps import Stamps

_LONGEST = 40  # characters of a number
_LARGEST_ITERATION = 10**12
_LONGEST_MS = 1e12


class PatternReader:
    """Passes to the builder what the expressions find in each line."""

    def __init__(self, builder: RunBuilder, patterns: Sequence[LinePattern]) -> None:
        builder.format = format_of(patterns)
        self.matched = 0
        self.first_unread: tuple[int, str] | None = None  # number and text of the first line that is not a row
        self._builder = builder
        self._patterns = patterns
        self._clock: _ElapsedClock | _RunningClock = _ElapsedClock(builder)
        self._stamps = Stamps()
        self._tokens = _Tokens(builder)
        self._last: int | None = None  # iteration of the last row
        self._line = 0
        self._of_several_lines = not all("iteration" in each.groups for each in patterns)
        self._record: dict[str, str] = {}  # what the lines since the last iteration hold

    def feed(self, line: str) -> bool:
        """Read one clean line. Return True if it was understood."""
        self._line += 1
        for pattern in self._patterns:
            if (found := pattern.search(line)) is not None:
                self.matched += 1
                understood = self._collect(found) if self._of_several_lines else self._understood(found)
                if not understood and self.first_unread is None:
                    self.first_unread = self._line, line
                return understood
        return False

    def feed_cut(self, _line: str) -> bool:
        """A last line without its end may stop in the middle of a number."""
        return False

    def finish(self) -> None:
        """With a running clock, the first row waits for the second."""
        self._end_record()
        self._clock.flush()
        self._tokens.flush()

    def _collect(self, found: Mapping[str, str]) -> bool:
        """A line with an iteration begins a record. The others add to it; of the same group, the first counts."""
        if "iteration" in found:
            self._end_record()
            self._record = dict(found)
        elif self._record:
            self._record = {**found, **self._record}
        return True

    def _end_record(self) -> None:
        record, self._record = self._record, {}
        if len(record) > 1:
            self._understood(record)

    def _understood(self, found: Mapping[str, str]) -> bool:
        iteration = _iteration(found["iteration"]) if "iteration" in found else None
        if iteration is None:
            return False
        loss, val = _loss(found.get("loss")), _loss(found.get("val"))
        is_row = bool(found.keys() & {*TIMES, "tokens_per_s"}) or val is None
        if val is not None:
            train = _loss(found.get("train")) if is_row or "train" in found else loss
            self._clock.evaluation(iteration, train, val, after_row=iteration == self._last)
        return not is_row or self._row(iteration, loss, found) or val is not None

    def _row(self, iteration: int, loss: float | None, found: Mapping[str, str]) -> bool:
        is_elapsed = not RUNNING.isdisjoint(found)
        if iteration == self._last and not is_elapsed:
            return True  # the summary of an epoch, for example
        mfu, percent = _number(found.get("mfu")), _number(found.get("mfu_percent"))
        if mfu is None and percent is not None:
            mfu = percent / 100
        ms = _ms(found)
        if "stamp" in found:
            at_s = self._stamps.read(found["stamp"])
            ms = None if at_s is None else 1000 * at_s
        if self._last is not None and iteration < self._last:
            self._tokens.flush()  # of the previous run, if this is another one
        if ms is None:
            if loss is None:
                return False
            self._builder.untimed_row(iteration, loss)
        elif is_elapsed:
            shown = found.get("stamp") or found.get("elapsed_s", ".")
            whole = {".", ","}.isdisjoint(shown)
            if self._last is None and (whole or "stamp" in found):
                self._clock = _RunningClock(self._builder, whole=whole, starts_s=None if "stamp" in found else 0.0)
            self._clock.row(Row(iteration, ms, loss, mfu))
        else:
            self._builder.row(Row(iteration, ms, loss, mfu))
        self._tokens.add(found, ms or 0.0)
        self._last = iteration
        return True


class _ElapsedClock:
    """Rows of a clock that counts from the start: the time of a row is the difference from the previous one.

    If the second row shows that the first is near the start, its time is that since the start. Otherwise, the log is an
    excerpt, and its time is unknown. So the first row waits, with the evaluations after it.
    """

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder
        self._before: Row | None = None
        self._first: Row | None = None  # while it waits
        self._waiting: list[tuple[int, float | None, float, bool]] = []

    def row(self, row: Row) -> None:
        before = self._before
        if before is not None and row.ms == before.ms:
            return  # the same line twice, or less time than the clock shows: the next row includes it
        if before is None or row.ms < before.ms:  # another process: its clock starts at 0
            if before is not None:
                self.flush()
                self._builder.begin_process()
            self._first = row
        else:
            self.flush(row.iteration)
            self._builder.row(Row(row.iteration, row.ms - before.ms, row.loss, row.mfu))
        self._before = row

    def evaluation(self, iteration: int, train: float | None, val: float, *, after_row: bool) -> None:
        if self._first is not None:
            self._waiting.append((iteration, train, val, after_row))
        else:
            self._builder.evaluation(iteration, train, val, after_row=after_row)

    def flush(self, second: int | None = None) -> None:
        """Pass on what waits. `second`: the iteration of the row after the first."""
        first, self._first = self._first, None
        if first is not None and (second is None or first.iteration <= max(1, second - first.iteration)):
            self._builder.row(first)
        for iteration, train, val, after_row in self._waiting:
            self._builder.evaluation(iteration, train, val, after_row=after_row)
        self._waiting.clear()


class _RunningClock:
    """The same if it shows whole seconds, as a progress bar does, or the time of day: then nothing shows when the first
    row began, and it is left out. Rows that whole seconds cannot distinguish get their mean."""

    def __init__(self, builder: RunBuilder, *, whole: bool, starts_s: float | None) -> None:
        self._builder = builder
        self._resolution_s = 1.0 if whole else 0.0
        self._starts_s = starts_s
        self._running = RunningClock(builder, resolution_s=self._resolution_s, starts_s=starts_s)
        self._before_ms = 0.0

    def row(self, row: Row) -> None:
        if row.ms < self._before_ms:  # another process: its clock starts at 0
            self.flush()
            self._builder.begin_process()
            self._running = RunningClock(self._builder, resolution_s=self._resolution_s, starts_s=self._starts_s)
        self._running.row(row.iteration, row.ms / 1000, row.loss, row.mfu)
        if self._resolution_s:
            self._builder.caveat("whole_seconds")
        self._before_ms = row.ms

    def evaluation(self, iteration: int, train: float | None, val: float, *, after_row: bool) -> None:  # noqa: ARG002
        self._running.evaluation(iteration, val, train=train)

    def flush(self) -> None:
        self._running.flush()


class _Tokens:
    """The tokens of an iteration: as all rows print them, or from their rates and times."""

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder
        self._printed: set[float] = set()  # two values already differ, so no more are needed
        self._bounds = RateBounds()

    def add(self, found: Mapping[str, str], ms: float) -> None:
        tokens, rate = _number(found.get("tokens")), _number(found.get("tokens_per_s"))
        if tokens is not None and len(self._printed) < 2:
            self._printed.add(tokens)
        time = next((name for name in ("ms", "s") if name in found), None)
        if rate is None or time is None:
            return
        half, half_s = half_unit(found["tokens_per_s"]), half_unit(found[time]) / (1000 if time == "ms" else 1)
        low, high = (rate - half) * (ms / 1000 - half_s), (rate + 2 * half) * (ms / 1000 + half_s)
        self._bounds.narrow(low, high)

    def flush(self) -> None:
        """Add the tokens to the run that ends here."""
        if len(self._printed) == 1 and 1 <= (tokens := self._printed.pop()) < _LARGEST_ITERATION:
            self._builder.fact("tokens_per_iteration", round(tokens))
        elif not self._printed:
            self._bounds.tell(self._builder)
        self._printed.clear()
        self._bounds = RateBounds()


# --- numbers ---------------------------------------------------------------------------------------------------------


def _number(text: str | None) -> float | None:
    """A finite number, with or without thousands separators; None if it is not one."""
    if text is None or len(text) > _LONGEST:
        return None
    try:
        number = float(text.strip().rstrip("%").replace(",", ""))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _iteration(text: str) -> int | None:
    number = _number(text)
    return int(number) if number is not None and 0 <= number < _LARGEST_ITERATION and number == int(number) else None


def _loss(text: str | None) -> float | None:
    """nan means that the loss diverged."""
    if text is not None and text.strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return math.inf
    return _number(text)


def _ms(found: Mapping[str, str]) -> float | None:
    """The time that a row gives, of an iteration or since the start; None if it gives none."""
    name = next((name for name in TIMES if name in found), None)
    if name == "stamp":
        return None
    if name is None:
        tokens, rate = _number(found.get("tokens")), _number(found.get("tokens_per_s"))
        ms = 1000 * tokens / rate if tokens and rate else None
    elif name.endswith("ms"):
        ms = _number(found[name])
    elif name == "it_per_s":
        rate = _number(found[name])
        ms = 1000 / rate if rate else None
    else:
        seconds = _seconds(found[name])
        ms = None if seconds is None else 1000 * seconds
    return ms if ms is not None and 0 <= ms <= _LONGEST_MS else None


def _seconds(text: str) -> float | None:
    """Seconds from a number, h:mm:ss or m:ss."""
    seconds = 0.0
    for part in text.split(":", maxsplit=3):
        number = _number(part)
        if number is None or number < 0:
            return None
        seconds = 60 * seconds + number
    return seconds
