"""Reports for the terminal: the answer in the first lines, then a section for each thing that supports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from nanopace.views import figures, sections
from nanopace.views.paper import Paper, styled
from nanopace.views.sections import TerminalReport
from nanopace.views.summary import summary
from nanopace.wording.catalog import Words

if TYPE_CHECKING:
    from nanopace.diagnosis.comparison import Comparison
    from nanopace.diagnosis.result import Diagnosis


def print_explain(
    diagnoses: Sequence[Diagnosis],
    words: Words,
    *,
    out: TextIO,
    verbose: bool = False,
    width: int | None = None,
    color: bool | None = None,
) -> None:
    """What each run means. `color` and `width` are the terminal's unless given; a pipe gets plain text."""
    paper = Paper(out, width, color)
    for number, diagnosis in enumerate(diagnoses):
        if number:
            paper.blank()
            paper.line("–" * paper.width, indent=0)
        report = TerminalReport(diagnosis, words, paper, verbose=verbose)
        for line, style in summary(report):
            paper.line(styled(line, style), indent=0)
        sections.where_the_time_went(report)
        sections.iteration_times(report)
        sections.slow_rows(report)
        figures.throughput(report)
        figures.utilisation(report)
        figures.loss(report)
        figures.known_facts(report)
        sections.notes_of_the_trainer(report)
        sections.advice(report)
    paper.finish()


def print_compare(
    comparisons: Sequence[Comparison],
    words: Words,
    *,
    out: TextIO,
    verbose: bool = False,
    width: int | None = None,
    color: bool | None = None,
) -> None:
    """Runs against the first of them: the verdict, then the tables; of three and more a ranking."""
    from nanopace.views import comparing, ranking  # explain does without them, and start-up matters

    paper = Paper(out, width, color)
    if len(comparisons) == 1:
        comparing.write(comparisons[0], words, paper, verbose=verbose)
    elif comparisons:
        ranking.write(comparisons, words, paper, verbose=verbose)
    paper.finish()
