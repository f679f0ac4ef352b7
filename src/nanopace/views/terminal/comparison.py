"""Runs compared with the first, for the terminal: verdict or ranking first, then the supporting sections."""

from __future__ import annotations

from collections.abc import Sequence

from nanopace.diagnosis.compare.ranking import rank
from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Diagnosis
from nanopace.views.compare.costs import cost_remarks, cost_verdict
from nanopace.views.compare.pair import Pair, letter_pairs
from nanopace.views.compare.pair_sections import details, figures
from nanopace.views.compare.ranking import headline, pair_sections, ranked_table, table_notes
from nanopace.views.document import Cell, run_letter
from nanopace.views.report import total_time
from nanopace.views.terminal.writer import TerminalWriter
from nanopace.wording.catalog import Words


def write_verdict(comparisons: Sequence[Comparison], words: Words, writer: TerminalWriter) -> None:
    """Print which run is better, and which letter is which run."""
    runs = [comparisons[0].a, *(each.b for each in comparisons)]
    if len(comparisons) == 1:
        pair = Pair(comparisons[0], words)
        said = " ".join((*map(pair.sentence, pair.verdict()), *cost_verdict(pair.found, words)))
    else:
        said = headline(rank(runs), words)
    writer.line(Cell(said, "bold"), indent=0)
    _introduce(runs, words, writer)


def write_pair(comparison: Comparison, words: Words, writer: TerminalWriter, *, verbose: bool) -> None:
    pair = Pair(comparison, words)
    said = (*map(pair.sentence, pair.verdict()), *cost_verdict(comparison, words))
    writer.line(Cell(" ".join(said), "bold"), indent=0)
    _introduce([comparison.a, comparison.b], words, writer)
    for section in (figures(pair), *details(pair, verbose=verbose)):
        writer.section(section)


def write_ranking(comparisons: Sequence[Comparison], words: Words, writer: TerminalWriter, *, verbose: bool) -> None:
    pairs = letter_pairs(comparisons, words)
    runs = [comparisons[0].a, *(each.b for each in comparisons)]
    ranking = rank(runs)
    writer.line(Cell(headline(ranking, words), "bold"), indent=0)
    writer.blank()
    writer.blocks([ranked_table(ranking, runs, words), *table_notes(ranking, words), *cost_remarks(runs, words)])
    _introduce(runs, words, writer)
    for section in pair_sections(ranking, pairs, verbose=verbose):
        writer.section(section)
    for pair in pairs if verbose else ():
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
