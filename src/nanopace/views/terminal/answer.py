"""The answer alone: the first lines of a report, for users who get the rest as a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nanopace.diagnosis.result import Diagnosis
from nanopace.views.document import Cell
from nanopace.views.report import Report
from nanopace.views.summary import summary
from nanopace.views.terminal.writer import TerminalWriter
from nanopace.wording.catalog import Words

if TYPE_CHECKING:
    from nanopace.diagnosis.comparison import Comparison


def write_answer(results: Sequence[Diagnosis] | Sequence[Comparison], words: Words, writer: TerminalWriter) -> None:
    """Print what each run means, or which of the compared runs is better."""
    diagnoses = [each for each in results if isinstance(each, Diagnosis)]
    comparisons = [each for each in results if not isinstance(each, Diagnosis)]
    for number, diagnosis in enumerate(diagnoses):
        if number:
            writer.blank()
        for line, style in summary(Report(diagnosis, words)):
            writer.line(Cell(line, style), indent=0)
    if comparisons:
        from nanopace.views.terminal.comparison import write_verdict  # explain does not need it

        write_verdict(comparisons, words, writer)
