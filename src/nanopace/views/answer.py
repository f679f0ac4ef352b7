"""What stands above everything else on the page: the answer, in the terminal's own first lines, and the key figures."""

from __future__ import annotations

from dataclasses import dataclass

from nanopace.diagnosis.result import Diagnosis
from nanopace.views.report import Report, card_range
from nanopace.views.summary import summary
from nanopace.views.tables import marked
from nanopace.wording.catalog import UNKNOWN, Words


def begin_report(run: Diagnosis, words: Words) -> tuple[Report, list[str]]:
    """The report on a run, and its first lines as in the terminal but for the title: the page has a larger one."""
    report = Report(run, words)
    return report, [line for line, _ in summary(report)][1:]


@dataclass(frozen=True, slots=True)
class Figure:
    """One of the large numbers below the answer."""

    name: str
    value: str
    more: str | None = None


def key_figures(report: Report) -> list[Figure]:
    """What a person wants to know before all else, as far as it is known."""
    run, words = report.diagnosis, report.words
    mfu, loss, wall = run.mfu, run.loss, run.wall
    tokens = marked(report.tilde("tokens_per_iteration"), words.si(run.throughput.tokens_per_s))
    overhead = words.percent(wall.overhead_share)
    if mfu.card is not None or mfu.card_low is not None:
        mark = report.tilde("flops_per_token", "tokens_per_iteration")
        utilisation = Figure("mfu", mark + card_range(mfu, words), words.text("of the {card}", card=mfu.card_name))
    else:
        utilisation = Figure("mfu", words.mfu(mfu.steady_printed), words.text("without evaluation rows"))
    perplexity = None
    if loss.best_val_perplexity is not None:
        perplexity = f"{words.text('perplexity')} {words.number(loss.best_val_perplexity, 1)}"
    figures = [
        Figure(words.text("normal step"), words.ms(run.step.median_ms if run.step.normal_rows else None)),
        Figure(words.text("tokens per second"), tokens),
        utilisation,
        Figure(words.text("evaluation and checkpoints"), overhead, words.text("of the wall clock")),
        Figure(words.text("wall clock"), words.duration(wall.total_s)),
        Figure(words.text("best validation"), words.number(loss.best_val, 4), perplexity),
    ]
    return [figure for figure in figures if figure.value != UNKNOWN]
