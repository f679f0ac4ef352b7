"""Guesses how to read a log that no format reads: which lines look like rows, and a --pattern for them.

Lines that differ only in their numbers have the same shape. A shape has rows if one number is an iteration, which rises
by the same amount from line to line, and another is a loss or, by its unit or name, a time. The guess is offered, never
applied, and only after the pattern has been tried on the file and found the right values in each of these lines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from typing import NamedTuple

from nanopace.errors import UsageError
from nanopace.medians import median
from nanopace.sources.formats.pattern import Search, compile_patterns
from nanopace.sources.time_stamps import Stamps
from nanopace.sources.unread.line_shapes import LONGEST_LINE, Shape, find_shapes
from nanopace.sources.unread.progress_bars import bars_with_loss, is_bar

_MOST_LINES = 200_000  # to examine, and characters of them; a refusal should not take long
_MOST_CHARACTERS = 100_000_000
_TRIED = 5_000  # lines to try a pattern on
_MOST_TRIED = 20  # shapes that may be evaluations, and lines of each
_FEWEST = 5  # lines needed to count as rows
_REGULAR = 0.9  # share of the lines in which the iteration rises by the same amount
_ENOUGH_TO_RISE = 8  # lines: with fewer, step times may rise by chance

_ITERATION = re.compile(r"(?i:(?:^|_)(?:global_?)?(?:steps?|it|iters?|iterations?|batch|updates?)$)")
_NO_ITERATION = re.compile(r"(?i:epoch|tok|sample|seen|seq|example|time|elapsed|lr|eta|^ep$)")
_TIME = re.compile(r"(?i:time|^dt|_dt$|elapsed|took|duration|latency|^ms$|_ms$|^sec)")
_NO_TIME = re.compile(
    r"(?i:eta|remain|left|data|load|eval|val|fwd|bwd|forward|backward|loss|lr|tok|mem|stamp|epoch|_min$|_max$)"
)
_LOSS = re.compile(r"(?i:(?:^|[_/.])(?:train(?:ing)?[_/]?)?loss$)")
_OTHER_LOSS = re.compile(r"(?i:val|test|eval|dev)")
_PART_OF_LOSS = re.compile(r"(?i:actor|critic|policy|entropy|aux|reg|(?:^|[_/\s])(?:kl|pg|vf)_)")  # or of RL
_VALIDATION = re.compile(r"(?i:(?:val(?:id(?:ation)?)?|eval(?:uation)?)$)")
_GLOBAL = re.compile(r"(?i:global|total)")  # a step of all epochs
_UNITS = (  # the word after a number, or the end of its name
    ("ms", re.compile(r"(?i:(?:.*[_(])?(?:ms|msecs?|milliseconds?)\)?(?:/\w{1,12})?$)")),
    ("it_per_s", re.compile(r"(?i:(?:it|iters?|iterations?|its|steps?|batch|batches)(?:/|_per_)s(?:ec|econd)?$)")),
    ("s", re.compile(r"(?:.*[_(])?(?:s|secs?|seconds?)\)?(?:/(?:it|iter|iteration|step|batch))?$")),
)
_NAMED_NUMBER = re.compile(
    r"\W{0,20}(?:[A-Z][a-z]{1,12} )?(?P<name>[A-Za-z][\w/().-]{0,80})\s{0,4}[:=]\s{0,4}"
    r"(?P<number>\d[\d,]{0,15}(?:\.\d{1,20})?(?:e[-+]?\d{1,3})?)\s{0,20}"
)
_ANY_LOSS = re.compile(r"(?i:loss)")
_DATE = r"\d{4}[-/]\d\d[-/]\d\d[T ]"
_STAMP = re.compile(rf"(?:{_DATE})?\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?")
_MOST_NAMES = 500
_NAME = 40  # characters before a number


class Offer(NamedTuple):
    """Lines that look like rows, and patterns that would read them."""

    patterns: tuple[str, ...]  # for the rows and, if there are any, the evaluations
    lines: int
    kind: str  # the group that holds the time; "loss" if there is none; "record": rows of several lines
    iteration_column: int  # word in the line, counting from 1
    kind_column: int


def guess(printed: Iterable[str]) -> Offer | None:
    """What to offer for these lines; None if nothing looks like rows."""
    lines = _examined(printed)
    some = [*islice(lines, _TRIED)]
    found = _of_shapes(some, lines)
    if (found is None or found.kind == "loss") and (bars := bars_with_loss(some)) is not None:
        pattern, count, iteration, at = bars
        return Offer((pattern,), count, "elapsed_s", iteration, at)
    return found or _of_records(some)


def _examined(printed: Iterable[str]) -> Iterator[str]:
    left = _MOST_CHARACTERS
    for line in islice(printed, _MOST_LINES):
        yield line[:LONGEST_LINE]
        left -= min(len(line), LONGEST_LINE)
        if left <= 0:
            return


def _of_shapes(some: Sequence[str], rest: Iterable[str]) -> Offer | None:
    shapes = find_shapes(chain(some, rest))
    for shape in shapes:
        iteration = _iteration(shape) if shape.count >= _FEWEST and not is_bar(shape.example) else None
        if iteration is None:
            continue
        time, loss = _time(shape, iteration), _loss(shape, iteration)
        chosen = {iteration: "iteration"} | ({} if loss is None else {loss: "loss"}) | (dict([time]) if time else {})
        if len(chosen) == 1:
            continue
        patterns = [_pattern(shape, chosen), "^" + _spelled_out(shape, chosen)]
        if time is None and (stamp := _stamp(shape, iteration)):
            patterns.insert(0, stamp + patterns[0])
        for pattern in patterns:
            search, quick = _searcher(pattern)
            if _finds(search, shape, chosen) and not (quick and _goes_back(search, some)):
                at, kind = time or (loss or 0, "loss")
                column = shape.word_number(at)
                if "(?P<stamp>" in pattern and (found := _STAMP.search(shape.example)) is not None:
                    kind, column = "stamp", len(shape.example[: found.end()].split())
                offered = (pattern, *_of_evaluations(shapes, search))
                return Offer(offered, shape.count, kind, shape.word_number(iteration), column)
    return None


def _of_records(some: Sequence[str]) -> Offer | None:
    """For rows of several lines: one has the iteration, each of the others a name and a number."""
    named: dict[str, list[str]] = {}
    for line in some:
        if (found := _NAMED_NUMBER.fullmatch(line)) is not None and len(named) < _MOST_NAMES:
            named.setdefault(found["name"], []).append(found["number"])
    for shape in find_shapes(some):
        index = _iteration(shape) if shape.count >= _FEWEST and not is_bar(shape.example) else None
        if index is None or not _ITERATION.search(shape.name(index)):
            continue
        often = {name: texts for name, texts in named.items() if len(texts) >= _REGULAR * shape.count}
        loss = next((name for name in often if _ANY_LOSS.search(name) and not _OTHER_LOSS.search(name)), None)
        time = next(((name, kind) for name, texts in often.items() if (kind := _kind_of_name(name, texts))), None)
        pattern, stamp = _pattern(shape, {index: "iteration"}), _stamp(shape, index)
        if stamp and _finds(_searcher(stamp + pattern)[0], shape, {index: "iteration"}):
            pattern, time = stamp + pattern, None  # a printed rate is often the mean of many steps
        if loss is None or not _finds(_searcher(pattern)[0], shape, {index: "iteration"}):
            continue
        patterns = [pattern, _of_name(loss, "loss", often[loss])]
        patterns += [] if time is None else [_of_name(*time, often[time[0]])]
        return Offer(tuple(patterns), shape.count, "record", 0, 0)
    return None


def _kind_of_name(name: str, texts: Sequence[str]) -> str | None:
    """The group for a number that is the time of a step by its name."""
    if _NO_TIME.search(name.rpartition("/")[2]):
        return None
    kind = next((kind for kind, unit in _UNITS if unit.match(name.rpartition("/")[2])), None)
    runs_on = kind in ("ms", "s") and _rises([float(text.replace(",", "")) for text in texts])
    return None if runs_on else kind


def _of_name(name: str, group: str, texts: Sequence[str]) -> str:
    return rf"{_escaped(name)}\s*[:=]\s*{_group(group, texts)}"


def _of_evaluations(shapes: Sequence[Shape], of_rows: Search) -> Iterator[str]:
    """The pattern for lines with a validation loss, if there are any that the pattern for rows does not match."""
    for shape in shapes[:_MOST_TRIED]:
        iteration, val = _iteration(shape, evenly=False), _validation(shape)
        if iteration is None or val is None or iteration == val or any(map(of_rows, shape.lines[:_MOST_TRIED])):
            continue
        chosen = {iteration: "iteration", val: "val"}
        pattern = _pattern(shape, chosen)
        if _finds(_python_search(pattern), shape, chosen):
            yield pattern
            return


# --- which number is which -------------------------------------------------------------------------------------------


def _iteration(shape: Shape, *, evenly: bool = True) -> int | None:
    """An integer that rises by the same amount: preferably one named like an iteration, else the first. Evaluations
    need not be `evenly` spaced: some trainers add one after the first step and one at the end."""
    found = [
        index
        for index in range(len(shape.places))
        if not _NO_ITERATION.search(shape.name(index)) and _counts(shape.column(index), evenly=evenly)
    ]
    named = [index for index in found if _ITERATION.search(shape.name(index))]
    return min(named or found, key=lambda index: (not _GLOBAL.match(shape.name(index)), index), default=None)


def _counts(texts: Sequence[str], *, evenly: bool) -> bool:
    if not all(text.replace(",", "").isdecimal() for text in texts):
        return False
    numbers = [_whole(text) for text in texts]
    if not evenly:
        return all(before < after for before, after in pairwise(numbers))
    (step, count), *_ = Counter(after - before for before, after in pairwise(numbers)).most_common(1)
    return step > 0 and count >= _REGULAR * (len(numbers) - 1)


def _time(shape: Shape, iteration: int) -> tuple[int, str] | None:
    """A number that is a time by its unit or name, and its group. A number named like a time comes first; of several,
    the greatest, since the others are of its parts."""
    found = []
    for index in range(len(shape.places)):
        name = shape.name(index)
        if index == iteration or shape.is_part(index) or _NO_TIME.search(name):
            continue
        if (kind := _kind(shape, index)) is None:
            continue
        is_of_all = kind.startswith("elapsed") or kind == "it_per_s"
        value = 0.0 if is_of_all else median([float(text.replace(",", "")) for text in shape.column(index)])
        found.append((not _TIME.search(name), -value if kind == "ms" else -1000 * value, index, kind))
    return min(found)[2:] if found else None


def _kind(shape: Shape, index: int) -> str | None:
    texts, name = shape.column(index), shape.name(index)
    if all(":" in text for text in texts):
        return "elapsed_s" if _TIME.search(name) and _rises([_clock(text) for text in texts]) else None
    try:
        times = [float(text.replace(",", "")) for text in texts]
    except ValueError:
        return None
    if not all(0 < time < 1e12 for time in times):
        return None
    words = (shape.unit(index), name)
    kind = next((kind for word in words for kind, unit in _UNITS if word and unit.match(word)), None)
    if kind is None and _TIME.search(name) and median(times) < 1:
        kind = "s"  # without a unit: nobody prints such a small fraction of a millisecond
    return f"elapsed_{kind}" if kind in ("ms", "s") and _rises(times) else kind


def _stamp(shape: Shape, iteration: int) -> str:
    """The beginning of a pattern for lines that begin with the time when they were printed, as Python's logging does;
    empty if they do not."""
    if not _ITERATION.search(shape.name(iteration)) or any(Stamps().read(line) is None for line in shape.lines):
        return ""
    found = _STAMP.search(shape.example)
    date = _DATE if found is not None and found[0][2] != ":" else ""
    return rf"(?P<stamp>{date}\d\d:\d\d:\d\d(?:[.,]\d+)?).*?"


def _rises(times: Sequence[float]) -> bool:
    return len(times) >= _ENOUGH_TO_RISE and all(before < after for before, after in pairwise(times))


def _clock(text: str) -> float:
    seconds = 0.0
    for part in text.split(":"):
        seconds = 60 * seconds + float(part)
    return seconds


def _loss(shape: Shape, iteration: int) -> int | None:
    """Of several losses, the one that is called nothing but that."""
    found = []
    for index in range(len(shape.places)):
        name = shape.name(index)
        before = shape.literals[index]
        if index == iteration or shape.is_part(index):
            continue
        if _LOSS.search(name) and not _OTHER_LOSS.search(before) and not _PART_OF_LOSS.search(before[-_NAME:]):
            found.append((name.lower() not in ("loss", "train_loss"), index))
    return min(found)[1] if found else None


def _validation(shape: Shape) -> int | None:
    """A number named like a validation loss."""
    for index in range(len(shape.places)):
        if shape.is_part(index):
            continue
        if "loss" in (name := shape.name(index).lower()) and _OTHER_LOSS.search(shape.literals[index]):
            return index
        if _VALIDATION.match(name):
            return index
    return None


# --- the pattern -----------------------------------------------------------------------------------------------------


def _pattern(shape: Shape, chosen: Mapping[int, str]) -> str:
    """From the name of the first number to the unit of the last. Text between two numbers is skipped if the second has
    a name; otherwise, it is spelled out."""
    pattern, last = "", -1
    for index in sorted(chosen):
        name = shape.named(index)
        if name is None or (pattern and index == last + 1):
            pattern += ("" if pattern else "^") + _spelled_out(shape, {index: chosen[index]}, last + 1)
        else:
            skipped = ".*?" if pattern else ""
            pattern += skipped + r"\b" + _escaped(name[0]) + r"\s*" + _group(chosen[index], shape.column(index))
        last = index
    return _short(pattern + _unit(shape, last))


def _spelled_out(shape: Shape, chosen: Mapping[int, str], first: int = 0) -> str:
    """All literals and numbers from `first` on, up to the last chosen number."""
    pattern, last = "", max(chosen)
    for index in range(first, last + 1):
        group = _group(chosen[index], shape.column(index)) if index in chosen else r"[\w.,:+-]+"
        pattern += r"\s*" + _escaped(shape.literals[index]) + r"\s*" + group
    return _short(pattern + (_unit(shape, last) if len(chosen) > 1 else ""))


def _unit(shape: Shape, index: int) -> str:
    return r"\s*" + _escaped(shape.unit(index)) if shape.unit(index) else ""


def _short(pattern: str) -> str:
    return re.sub(r"(?:\\s\*)+(?=\\s[*+])", "", pattern)


def _escaped(literal: str) -> str:
    """With any white space for a blank, and any character for one that a shell or terminal might change."""
    escaped = re.escape(" ".join(literal.split()))
    safe = "".join(each if " " <= each <= "~" and each != "'" else "." for each in escaped)
    return safe.replace("\\ ", r"\s+")


def _group(name: str, texts: Sequence[str]) -> str:
    if name in ("loss", "val"):
        return rf"(?P<{name}>[\w.+-]+)"
    thousands = any("," in text for text in texts)
    whole = r"\d+(?:,\d+)*" if thousands else r"\d+"
    if name == "iteration":
        return f"(?P<iteration>{whole})"
    if thousands:
        return rf"(?P<{name}>{whole}(?:\.\d+)?)"
    more = ":" if any(":" in text for text in texts) else ""
    more += "eE+-" if any("e" in text.lower() for text in texts) else ""
    return rf"(?P<{name}>[\d.{more}]+)"


# --- the proof -------------------------------------------------------------------------------------------------------


def _finds(search: Search, shape: Shape, chosen: Mapping[int, str]) -> bool:
    """Whether it finds the right values in each line of a shape."""
    wanted = ({name: numbers[index] for index, name in chosen.items()} for numbers in shape.numbers)
    for line, values in zip(shape.lines, wanted, strict=True):
        found = dict(search(line) or {})
        stamp = _STAMP.search(line)
        if "stamp" in found and (stamp is None or found.pop("stamp") != stamp[0]):
            return False
        if found != values:
            return False
    return True


def _goes_back(search: Search, some: Sequence[str]) -> bool:
    """Whether it finds iterations that fall: then it matches more than rows."""
    found = [each["iteration"] for line in some if (each := search(line)) is not None]
    falls = sum(_whole(after) < _whole(before) for before, after in pairwise(found))
    return falls > (1 - _REGULAR) * len(found)


def _whole(text: str) -> int:
    return int(text.replace(",", ""))


def _searcher(pattern: str) -> tuple[Search, bool]:
    """A function that tries a pattern, and whether it is fast on every line. Without RE2, it uses Python's `re`."""
    try:
        return compile_patterns((pattern,))[0].search, True
    except UsageError:
        return _python_search(pattern), False


def _python_search(pattern: str) -> Search:
    expression = re.compile(pattern)
    return lambda line: found.groupdict() if (found := expression.search(line)) else None
