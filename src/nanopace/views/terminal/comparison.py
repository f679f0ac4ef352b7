"""Runs compared with the first, for the terminal: verdict or ranking first, then the supporting sections."""

from __future__ import annotations

from collections.abc import Sequence

from nanopace.diagnosis.compare.ranking import rank
from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Diagnosis
from nanopace.views.compare.costs import cost_remarks, cost_verdict
from nanopace.views.compare.pair import letter_pairs, runs_of
from nanopace.views.compare.pair_sections import details, figures
from nanopace.views.compare.ranking import headline, pair_sections, ranked_table, table_notes
from nanopace.views.document import Cell, run_letter
from nanopace.views.report import total_time
from nanopace.views.terminal.writer import TerminalWriter
from nanopace.wording.catalog import Words


def write_comparisons(
    comparisons: Sequence[Comparison],
    words: Words,
    writer: TerminalWriter,
    *,
    verbose: bool = False,
    only_answer: bool = False,
) -> None:
    """Print the verdict on two runs or the ranking of more, which letter is which run, and what supports it."""
    runs, pairs = runs_of(comparisons), letter_pairs(comparisons, words)
    if len(pairs) == 1:
        said = [*map(pairs[0].sentence, pairs[0].verdict()), *cost_verdict(comparisons[0], words)]
        writer.line(Cell(" ".join(said), "bold"), indent=0)
        sections = [figures(pairs[0]), *details(pairs[0], verbose=verbose)]
    else:
        ranking = rank(runs)
        writer.line(Cell(headline(ranking, words), "bold"), indent=0)
        sections = pair_sections(ranking, pairs, verbose=verbose)
        if not only_answer:
            writer.blank()
            notes = (*table_notes(ranking, words), *cost_remarks(runs, words))
            writer.blocks([ranked_table(ranking, runs, words), *notes])
    _introduce(runs, words, writer)
    if only_answer:
        return
    for section in sections:
        writer.section(section)
    for pair in pairs if verbose and len(pairs) > 1 else ():
        for section in details(pair, verbose=True):
            writer.section(section, f" ({pair.a}, {pair.b})")


def _introduce(runs: Sequence[Diagnosis], words: Words, writer: TerminalWriter) -> None:
    """Print which letter is which run."""
    writer.blank()
    for number, run in enumerate(runs):
        span = words.text(
            "iterations {first} to {last}", first=run.source.first_iteration, last=run.source.last_iteration
        )
        writer.line(
            Cell(f"{run_letter(number)}  ", "bold cyan"),
            " · ".join((run.source.name, span, *total_time(run, words))),
            hanging=3,
        )
