"""What the terminal views write on: rich for layout, and three promises about what comes out.

Nothing from a log can move the cursor or colour the screen (control characters are taken out, markup is never parsed);
a number is never parted from its unit at the end of a line; and what the terminal's encoding cannot show is written in
characters that it can, one for one, so that columns stay columns.
"""

from __future__ import annotations

import io
import os
import unicodedata
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

Cell = str | Text

NARROWEST, WIDEST = 40, 120
# rich breaks lines at any kind of space. These two stand for the spaces at which no line may be broken.
_GLUE = {"\u00a0": "\ue000", "\u202f": "\ue001"}
_UNGLUE = str.maketrans({"\ue000": " ", "\ue001": "\u202f"})
_PLAIN = dict(zip("–·×±∞…→ß’\u202f▁▂▃▄▅▆▇█", "--x~*.>s' _.-=+*%#", strict=True))


def clean(text: str) -> str:
    """One line without control characters, its fixed spaces kept fixed."""
    return "".join(_GLUE.get(c, c if c.isprintable() else " ") for c in text)


def styled(text: str, style: str = "") -> Text:
    """A piece of text in a style; never parsed as markup."""
    return Text(clean(text), style=style)


def fit_encoding(text: str, encoding: str | None) -> str:
    """The text in characters that the encoding has, one for one."""
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


class Paper:
    """Collects a report and writes it in one piece."""

    def __init__(self, out: TextIO, width: int | None, color: bool | None) -> None:
        self._out = out
        terminal = bool(getattr(out, "isatty", lambda: False)())
        if color is None:
            color = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.width = max(NARROWEST, min(WIDEST, width or _terminal_width(out if terminal else None)))
        self._color = color
        self._text = io.StringIO()
        # The 16 colours of the terminal's own theme: whoever chose the background chose them to be legible on it.
        self._console = Console(
            file=self._text,
            width=self.width,
            force_terminal=color,
            color_system="standard" if color else None,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )

    def blank(self) -> None:
        self._text.write("\n")

    def heading(self, text: str) -> None:
        """A section's title."""
        self.blank()
        self.line(text, style="bold cyan", indent=0)

    def line(self, *parts: Cell, style: str = "", indent: int = 2, hanging: int = 0) -> None:
        """A paragraph; `hanging` indents all its lines but the first."""
        text = Text(style=style)
        for part in parts:
            text.append_text(part if isinstance(part, Text) else styled(part))
        for number, piece in enumerate(text.wrap(self._console, self.width - indent - hanging)):
            margin = " " * (indent + (hanging if number else 0))
            if self._color and (style or piece.spans):
                self._console.print(Text(margin) + piece)
            else:  # rich takes half a millisecond for every line
                self._text.write(f"{margin}{piece.plain}\n")

    def table(self, rows: Sequence[Sequence[Cell]], align: str, header: Sequence[str] = ()) -> None:
        """Columns by `align`: l(eft) may fold, L only where it takes half of the width, r(ight) never does.

        Columns without any content are left out.
        """
        kept = [i for i in range(len(align)) if any(len(row[i]) for row in rows)]
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=bool(header), header_style="bold")
        for i in kept:
            table.add_column(
                styled(header[i]) if header else "",
                justify="right" if align[i] == "r" else "left",
                no_wrap=align[i] == "r" or (align[i] == "L" and max(len(row[i]) for row in rows) < self.width // 2),
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(cell if isinstance(cell, Text) else styled(cell) for cell in (row[i] for i in kept)))
        with self._console.capture() as capture:
            self._console.print(table, width=self.width - 2)
        for line in capture.get().splitlines():
            self._text.write(f"  {line}\n")

    def finish(self) -> None:
        """Write everything."""
        text = self._text.getvalue().translate(_UNGLUE)
        lines = "\n".join(line.rstrip() for line in text.splitlines())
        self._out.write(fit_encoding(lines + "\n", getattr(self._out, "encoding", None)))


def _terminal_width(terminal: TextIO | None) -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(terminal.fileno()).columns if terminal else 80
    except (OSError, ValueError):
        return 80
