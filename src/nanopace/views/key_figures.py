"""The key figures below a page's answer."""

from __future__ import annotations

from dataclasses import dataclass

from nanopace.views.amounts import cost_name, in_table
from nanopace.views.report import Report, card_range, marked
from nanopace.wording.catalog import UNKNOWN


@dataclass(frozen=True, slots=True)
class Figure:
    """One of the large numbers below the answer."""

    name: str
    value: str
    more: str | None = None


def key_figures(report: Report) -> list[Figure]:
    """The most important figures, as far as known."""
    run, words = report.diagnosis, report.words
    mfu, loss, wall, pace = run.mfu, run.loss, run.wall, run.throughput
    tilde = report.tilde("tokens_per_iteration")
    if mfu.card is not None or mfu.card_low is not None:
        mark = report.tilde("flops_per_token", "tokens_per_iteration")
        of_card = words.text("of the {card}", card=words.card(mfu.card_name or "GPU"))
        utilisation = Figure("mfu", mark + card_range(mfu, words), of_card)
    else:
        utilisation = Figure("mfu", words.mfu(mfu.steady_printed), words.text("without evaluation rows"))
    perplexity = None
    if loss.best_val_perplexity is not None:
        perplexity = f"{words.text('perplexity')} {words.number(loss.best_val_perplexity, 2)}"
    in_all = words.text("{tokens} tokens in this run", tokens=marked(tilde, words.si(pace.tokens_total)))
    figures = [
        Figure(words.text("normal step"), words.ms(run.step.median_ms if run.step.normal_rows else None)),
        Figure(words.text("tokens per second"), marked(tilde, words.si(pace.tokens_per_s)), in_all),
        utilisation,
        Figure(
            words.text("evaluations and checkpoints"),
            words.percent(wall.overhead_share),
            words.text("of the wall clock"),
        ),
        Figure(words.text("wall clock"), words.duration(wall.total_s)),
        *_cost(report),
        Figure(words.text("best validation"), words.number(loss.best_val, 4), perplexity),
    ]
    return [figure for figure in figures if figure.value != UNKNOWN]


def _cost(report: Report) -> list[Figure]:
    """What the run has cost, and will have cost at its end; nothing without prices."""
    words, bill = report.words, report.diagnosis.bill
    if bill is None or bill.so_far.money is None:
        return []
    more = None
    if bill.ahead is not None and bill.ahead.money:
        total = in_table(bill, bill.so_far.money + bill.ahead.money, words)
        more = words.text("{total} in all", total=total if "~" in total else report.tilde("max_iters") + total)
    return [Figure(cost_name(bill, words), in_table(bill, bill.so_far.money, words), more)]
