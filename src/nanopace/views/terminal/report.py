"""Reports for the terminal: the answer first, then the sections that support it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from nanopace.diagnosis.result import Diagnosis
from nanopace.record import replace
from nanopace.views.document import Cell, Section, Table, Text, as_cell
from nanopace.views.report import cause_name
from nanopace.views.sections import Explained
from nanopace.views.terminal.sparkline import LETTERS, bar, sparkline
from nanopace.views.terminal.writer import TerminalWriter, columns
from nanopace.wording.catalog import Words

if TYPE_CHECKING:
    from nanopace.diagnosis.comparison import Comparison

# For the bars, by their shade in the page's palette.
STYLES = {
    "training": "green",
    "evaluation": "cyan",
    "checkpoint": "magenta",
    **dict.fromkeys(("stall", "restart", "rollback"), "red"),
}


def print_report(
    results: Sequence[Diagnosis] | Sequence[Comparison],
    words: Words,
    *,
    out: TextIO,
    verbose: bool = False,
    width: int | None = None,
    color: bool | None = None,
    only_answer: bool = False,
) -> None:
    """Print what each run means, or compare runs with the first, as a ranking if there are three or more. Width and
    colours default to those of the terminal; a pipe gets plain text. `only_answer`: the first lines, for users who get
    the rest as a page."""
    writer = TerminalWriter(out, width, color)
    diagnoses = [each for each in results if isinstance(each, Diagnosis)]
    comparisons = [each for each in results if not isinstance(each, Diagnosis)]
    for number, diagnosis in enumerate(diagnoses):
        if number:
            writer.blank()
            if not only_answer:
                writer.line("–" * writer.width, indent=0)
        explained = Explained(diagnosis, words, verbose=verbose)
        for line, style in explained.answer:
            writer.line(Cell(line, style), indent=0)
        if not only_answer:
            _write_sections(explained, writer)
    if comparisons:
        from nanopace.views.terminal.comparison import write_comparisons  # explain starts faster without it

        write_comparisons(comparisons, words, writer, verbose=verbose, only_answer=only_answer)
    writer.finish()


def _write_sections(explained: Explained, writer: TerminalWriter) -> None:
    diagnosis = explained.report.diagnosis
    for section in explained.sections.values():
        if section.name == "times" and diagnosis.timed and diagnosis.curves.row_ms:
            writer.heading(section.heading)
            _draw_times(diagnosis, explained.report.words, writer)
            writer.blocks(section.blocks)
        else:
            writer.section(_with_bars(section, writer.width) if section.name == "wall" else section)


def _draw_times(diagnosis: Diagnosis, words: Words, writer: TerminalWriter) -> None:
    """The sparkline, and the meaning of its letters."""
    curves = diagnosis.curves
    times = [ms or 0.0 for ms in curves.row_ms]  # only logs without times have None
    line = sparkline(curves.row_iteration, times, curves.row_cause, writer.width - 4)
    writer.line(line.bars)
    if line.causes:
        writer.line(Cell(line.marks.rstrip(), "bold"))
        legend = [f"{LETTERS[cause]} {cause_name(cause, words, diagnosis)}" for cause in line.causes]
        writer.line(words.text("Slow rows: {legend}", legend=", ".join(legend)))


def _with_bars(wall: Section, width: int) -> Section:
    """Add a column to the table: a bar for the share of each phase."""
    if not wall.blocks:
        return wall  # the time is unknown
    table, *lines = wall.blocks
    assert isinstance(table, Table)
    priced = max((columns(as_cell(row[3]).text) + 2 for row in table.rows if len(row) > 3), default=0)
    room = max(8, width - 50 - priced)
    rows = [
        (*row, Cell("" if name.share is None else bar(name.share, room), STYLES.get(name.shade, "")))
        for row in table.rows
        for name in row[:1]
    ]
    head: list[Text] = [*table.head, ""] if table.head else []
    return replace(wall, blocks=[Table(rows, "".join([*table.align, "l"]), head), *lines])
