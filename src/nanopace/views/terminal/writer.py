"""The writer for all terminal views, with three guarantees.

Nothing from a log can move the cursor or colour the screen (control characters are removed); a number is never
separated from its unit at the end of a line; and characters that the terminal's encoding lacks are replaced one for
one, so that columns stay aligned.

Why not rich: see docs/decisions/0007-the-report-without-rich.md.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Sequence
from typing import TextIO

from nanopace.views.document import Block, Cell, Line, Section, Table, Text, as_cell
from nanopace.wording.printable import clean

NARROWEST, WIDEST = 40, 120
FOLDED = 8  # columns: no cell is wrapped to less
# The terminal's own 16 colours: they are chosen to be legible on its background.
_CODES = {"bold": "1", "red": "31", "green": "32", "magenta": "35", "cyan": "36"}
_PLAIN = dict(zip("–·×±∞≤…→ß’₂\u202f▁▂▃▄▅▆▇█", "--x~*<.>s'2 _.-=+*%#", strict=True))


def columns(text: str) -> int:
    """How many columns a text takes in the terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at spaces: never at a no-break space, and inside a word only if
    necessary."""
    lines, line = [], ""
    for word in text.split(" "):
        if line and columns(line) + 1 + columns(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line or lines else word
        while columns(line) > width:
            cut = next(n for n in range(len(line), 0, -1) if columns(line[:n]) <= width or n == 1)
            lines.append(line[:cut])
            line = line[cut:]
    return [*lines, line] if line or not lines else lines


def fit_encoding(text: str, encoding: str | None) -> str:
    """The text in characters that the encoding has, replaced one for one."""
    try:
        text.encode(encoding or "utf-8")
        return text
    except UnicodeEncodeError:
        return "".join(_fit(character, encoding or "utf-8") for character in text)
    except LookupError:
        return fit_encoding(text, "ascii")


def _fit(character: str, encoding: str) -> str:
    for attempt in (character, _PLAIN.get(character, ""), unicodedata.normalize("NFKD", character)[:1]):
        try:
            if attempt and attempt.encode(encoding):
                return attempt
        except UnicodeEncodeError:
            continue
    return "?"


class TerminalWriter:
    """Collects a report and writes it all at once."""

    def __init__(self, out: TextIO, width: int | None, color: bool | None) -> None:
        self._out = out
        terminal = bool(getattr(out, "isatty", lambda: False)())
        if color is None:
            color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.width = max(NARROWEST, min(WIDEST, width or _terminal_width(out if terminal else None)))
        self._color = color
        self._lines: list[str] = []

    def blank(self) -> None:
        self._lines.append("")

    def heading(self, text: str) -> None:
        self.blank()
        self.line(Cell(text, "bold cyan"), indent=0)

    def section(self, section: Section, suffix: str = "") -> None:
        """Write the heading and blocks of a section, if it has any."""
        if section.blocks:
            self.heading(section.heading + suffix)
            self.blocks(section.blocks)

    def blocks(self, blocks: Sequence[Block]) -> None:
        """Write the blocks of a section, with a blank line between two tables."""
        for before, block in zip((None, *blocks), blocks, strict=False):
            if isinstance(block, Table):
                if isinstance(before, Table):
                    self.blank()
                self.table(block)
            elif isinstance(block, Line):
                self.line(*block.parts, indent=2 + block.indent, hanging=block.hanging)
            else:
                self.line(block)

    def line(self, *parts: Text, indent: int = 2, hanging: int = 0) -> None:
        """A paragraph; `hanging` indents all its lines but the first."""
        pieces = [_cleaned(part) for part in parts]
        text = "".join(piece.text for piece in pieces)
        lines = [text]
        if columns(text) > self.width - indent:
            lines = wrap(text, self.width - indent - hanging)
        styles = [piece.style for piece in pieces for _ in piece.text]  # one per character
        at = 0
        for number, line in enumerate(lines):
            at = text.index(line, at)
            margin = " " * (indent + (hanging if number else 0))
            self._lines.append(margin + self._painted(line, styles[at : at + len(line)]))
            at += len(line)

    def table(self, table: Table) -> None:
        """Write a table, as wide as its content but no wider than the terminal."""
        head = [[Cell(cell.text, "bold") for cell in table.head]] if table.head else []
        grid = [[_cleaned(cell) for cell in row] for row in (*head, *table.rows)]
        widths = self._widths(grid, table.align)
        for row in grid:
            folded = [wrap(cell.text, width) for cell, width in zip(row, widths, strict=True)]
            for number in range(max(map(len, folded))):
                cells = [lines[number] if number < len(lines) else "" for lines in folded]
                self._lines.append("  " + self._row(cells, row, widths, table.align))

    def _row(self, texts: Sequence[str], row: Sequence[Cell], widths: Sequence[int], align: Sequence[str]) -> str:
        shown = []
        for text, cell, width, side in zip(texts, row, widths, align, strict=True):
            padding = " " * (width - columns(text))
            painted = self._painted(text, [cell.style] * len(text))
            shown.append(padding + painted if side == "r" else painted + padding)
        return "  ".join(shown)

    def _widths(self, grid: Sequence[Sequence[Cell]], align: Sequence[str]) -> list[int]:
        """The widths of the columns. If the content is too wide, the widest columns that may wrap shrink first, then
        all others; a word is broken only if a line would otherwise exceed the terminal."""
        widths = [max(columns(row[i].text) for row in grid) for i in range(len(align))]
        words = [max(columns(word) for row in grid for word in row[i].text.split(" ")) for i in range(len(align))]
        may_fold = [i for i, side in enumerate(align) if side == "l" or (side == "L" and widths[i] >= self.width // 2)]
        excess = sum(widths) + 2 * len(widths) - self.width
        for narrowest, folding in (
            ([max(FOLDED, word) for word in words], may_fold),
            (words, range(len(align))),
            ([1] * len(align), range(len(align))),
        ):
            while excess > 0:
                widest = max((i for i in folding if widths[i] > narrowest[i]), key=lambda i: widths[i], default=None)
                if widest is None:
                    break
                widths[widest] -= 1
                excess -= 1
        return widths

    def _painted(self, text: str, styles: Sequence[str]) -> str:
        if not self._color or not any(styles):
            return text
        painted, now = [], ""
        for character, style in zip(text, styles, strict=True):
            if style != now:
                painted.append("\x1b[0m" if now else "")
                painted.append(f"\x1b[{';'.join(_CODES[name] for name in style.split())}m" if style else "")
                now = style
            painted.append(character)
        return "".join(painted) + ("\x1b[0m" if now else "")

    def finish(self) -> None:
        text = "".join(f"{line.rstrip()}\n" for line in self._lines).replace("\u00a0", " ")
        self._out.write(fit_encoding(text, getattr(self._out, "encoding", None)))


def _cleaned(text: Text) -> Cell:
    cell = as_cell(text)
    return cell._replace(text=clean(cell.text))


def _terminal_width(terminal: TextIO | None) -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(terminal.fileno()).columns if terminal else 80
    except (OSError, ValueError):
        return 80
