"""The parts of a report before any layout: sections of tables and lines, for terminal and page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nanopace.record import Record

RUN_COLOURS = 6  # run-1 to run-6 in the page's palette; a seventh run starts over with a different mark and dash


class Cell(NamedTuple):
    text: str
    style: str = ""  # in a terminal, such as "bold cyan"
    shade: str = ""  # a colour of the page's palette, shown next to the text
    inferred: bool = False  # not a given fact
    share: float | None = None  # of a total: the terminal draws it as a bar


Text = str | Cell


class Line(Record):
    """A paragraph. `indent` applies to the whole of it, `hanging` to all lines but the first."""

    parts: tuple[Text, ...]
    indent: int = 0
    hanging: int = 0

    @property
    def text(self) -> str:
        return "".join(as_cell(part).text for part in self.parts)


class Table:
    """Rows under a head; the first cell of each is its name. Empty columns are left out.

    Each column has a letter in `align`: l(eft) may wrap, L only if it takes half of the width, r(ight) never.
    """

    def __init__(self, rows: Sequence[Sequence[Text]], align: str, head: Sequence[Text] = (), title: str = "") -> None:
        kept = [i for i in range(len(align)) if any(as_cell(row[i]).text for row in rows)]
        self.rows = [[as_cell(row[i]) for i in kept] for row in rows]
        self.align = [align[i] for i in kept]
        self.head = [as_cell(head[i]) for i in kept] if head else []
        self.title = title  # if the section's heading does not already say it


Block = str | Line | Table


class Section(Record):
    """One part of the evidence for the answer. Without blocks, it is not shown."""

    name: str
    heading: str
    blocks: Sequence[Block]


def as_cell(text: Text) -> Cell:
    return text if isinstance(text, Cell) else Cell(text)


def run_letter(number: int) -> str:
    """The name of the n-th run of a comparison: A, B, C ..."""
    return chr(ord("A") + number) if number < 26 else f"R{number + 1}"


def run_colour(number: int) -> str:
    """The palette's name for the n-th run of a comparison."""
    return f"run-{number % RUN_COLOURS + 1}"


def run_cell(number: int) -> Cell:
    """The head of a run's column."""
    return Cell(run_letter(number), shade=run_colour(number))
