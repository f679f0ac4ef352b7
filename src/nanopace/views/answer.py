"""What stands above everything else on the page: the answer, in the terminal's own first lines, and the key figures."""

from __future__ import annotations

import io
from dataclasses import dataclass

from nanopace.diagnosis.result import Diagnosis
from nanopace.views.paper import _GLUE, Cell, Paper
from nanopace.views.sections import Report
from nanopace.views.summary import summary
from nanopace.views.tables import marked
from nanopace.wording.catalog import UNKNOWN, Words

_UNGLUED = {ord(glue): space for space, glue in _GLUE.items()}


class _Notes(Paper):
    """A paper that keeps its lines as they are: the page has a layout of its own."""

    def __init__(self) -> None:
        super().__init__(io.StringIO(), None, color=False)
        self.lines: list[str] = []

    def line(self, *parts: Cell, style: str = "", indent: int = 2, hanging: int = 0) -> None:  # noqa: ARG002
        text = "".join(part if isinstance(part, str) else part.plain for part in parts)
        self.lines.append(text.translate(_UNGLUED))


def begin_report(run: Diagnosis, words: Words) -> tuple[Report, list[str]]:
    """The report on a run, and its first lines as in the terminal but for the title: the page has a larger one."""
    notes = _Notes()
    report = Report(run, words, notes, verbose=False)
    summary(report)
    return report, notes.lines[1:]


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
    if mfu.card is not None:
        mark = report.tilde("flops_per_token", "tokens_per_iteration")
        utilisation = Figure("mfu", mark + words.percent(mfu.card), words.text("of the {card}", card=mfu.card_name))
    else:
        utilisation = Figure("mfu", words.percent(mfu.steady_printed, 2), words.text("without evaluation rows"))
    perplexity = None
    if loss.best_val_perplexity is not None:
        perplexity = f"{words.text('perplexity')} {words.number(loss.best_val_perplexity, 1)}"
    figures = [
        Figure(words.text("normal step"), words.ms(run.step.median_ms)),
        Figure(words.text("tokens per second"), tokens),
        utilisation,
        Figure(words.text("evaluation and checkpoints"), overhead, words.text("of the wall clock")),
        Figure(words.text("wall clock"), words.duration(wall.total_s)),
        Figure(words.text("best validation"), words.number(loss.best_val, 4), perplexity),
    ]
    return [figure for figure in figures if figure.value != UNKNOWN]
