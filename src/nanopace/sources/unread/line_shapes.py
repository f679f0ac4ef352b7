"""Lines that differ only in their numbers have the same shape: its literals, and its numbers by column."""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST_LINE = 4000  # characters of a line that may be a row
_MOST_SHAPES = 500
_SAMPLE = 400  # lines to keep per shape

_NUMBER = re.compile(
    r"(?<![\w.])(?:\d{1,4}:\d\d(?::\d\d)?(?:\.\d{1,6})?(?![\w:])"  # a clock
    r"|[-+]?\d{1,20}(?:,\d{3}(?!\d)){0,5}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?|(?i:nan|inf)(?!\w))"
)
_WORD_BEFORE = re.compile(r"([A-Za-z_][\w/().%-]{0,30})([^A-Za-z0-9_]{0,8})$")
_WORD_AFTER = re.compile(r"[A-Za-z]{1,12}(?:/[A-Za-z]{1,12})?(?![\w/])")


class Shape:
    """Lines that differ only in their numbers. Spaces next to a number do not count: they may be padding."""

    def __init__(self, line: str) -> None:
        self.example = line
        self.count = 0
        self.lines: list[str] = []  # the first of them, and their numbers
        self.numbers: list[list[str]] = []
        found = list(_NUMBER.finditer(line))
        bounds = [0, *(edge for each in found for edge in each.span()), len(line)]
        self.literals = [line[begin:end].strip() for begin, end in zip(bounds[::2], bounds[1::2], strict=True)]
        self.places = [each.start() for each in found]
        self._ends = [each.end() for each in found]
        self.glued = [not line[each.end() : each.end() + 1].isspace() for each in found]  # to what follows

    def column(self, index: int) -> list[str]:
        return [each[index] for each in self.numbers]

    def named(self, index: int) -> re.Match[str] | None:
        """The word before a number, with the marks between them, unless it is the unit of the number before it."""
        found = _WORD_BEFORE.search(self.literals[index])
        is_unit = found is not None and not found.start() and index > 0 and self.glued[index - 1]
        return None if is_unit else found

    def name(self, index: int) -> str:
        """The word before a number."""
        found = self.named(index)
        return found[1] if found else ""

    def unit(self, index: int) -> str:
        """The word after a number, unless it is the name of the next one."""
        behind = self.literals[index + 1]
        found = _WORD_AFTER.match(behind)
        names_next = found is not None and found[0] == behind.rstrip(":=") and index + 2 < len(self.literals)
        return found[0] if found and (self.glued[index] or not names_next) else ""

    def is_part(self, index: int) -> bool:
        """Whether a decimal comma makes it and its neighbour one number: 6,1234."""
        return any(
            self.literals[after] == "," and self.places[after] == self._ends[after - 1] + 1
            for after in (index, index + 1)
            if 0 < after < len(self.places)
        )

    def word_number(self, index: int) -> int:
        """Which word of the line contains a number."""
        return len(self.example[: self.places[index] + 1].split())


def find_shapes(some: Iterable[str]) -> list[Shape]:
    """The shapes of these lines, most frequent first."""
    shapes: dict[str, Shape] = {}
    for line in some:
        key = "\0".join(" ".join(literal.split()) for literal in _NUMBER.sub("\0", line).split("\0"))
        shape = shapes.get(key)
        if shape is None:
            if key.count("\0") < 2 or len(shapes) >= _MOST_SHAPES:
                continue
            shape = shapes[key] = Shape(line)
        shape.count += 1
        if len(shape.lines) < _SAMPLE:
            shape.lines.append(line)
            shape.numbers.append(_NUMBER.findall(line))
    several = [shape for shape in shapes.values() if shape.count > 1]
    return sorted(several, key=lambda shape: -shape.count)
