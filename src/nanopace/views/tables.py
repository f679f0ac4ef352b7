"""The tables of the page on one run: what stands in them, in words and numbers of a language, before any layout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nanopace.run import DERIVED_FACTS
from nanopace.views import charts, strip
from nanopace.views.report import (
    Report,
    card_range,
    gap_name,
    last_training,
    made_of,
    parts_of_phases,
    phase_name,
    share_done,
    typed,
)
from nanopace.wording.catalog import UNKNOWN

MOST_SLOW_ROWS = 500  # in the page; the JSON has them all


@dataclass(frozen=True, slots=True)
class Cell:
    """A text; `shade` is a colour of the palette that is shown beside it, `inferred` that it is no given fact."""

    text: str
    shade: str | None = None
    inferred: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; the first cell of each is its name. Columns in `numbers` are set to the right."""

    caption: str
    head: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numbers: frozenset[int] = frozenset()
    note: str | None = None
    wordy: bool = False  # cells hold sentences: a phone shows each row as a card
    paired: bool = False  # a name and its value, of any length: a phone has the third cell below them


Texts = Iterable[str | Cell]


def make_table(
    caption: str,
    head: Texts,
    rows: Iterable[Texts],
    numbers: Sequence[int],
    *,
    note: str | None = None,
    wordy: bool = False,
    paired: bool = False,
) -> Table:
    """A table of texts."""
    return Table(caption, _cells(head), tuple(_cells(row) for row in rows), frozenset(numbers), note, wordy, paired)


def _cells(texts: Texts) -> tuple[Cell, ...]:
    return tuple(Cell(text) if isinstance(text, str) else text for text in texts)


# --- the wall clock --------------------------------------------------------------------------------------------------


def wall_table(report: Report) -> Table:
    """The legend of the strip, with the figures."""
    run, words = report.diagnosis, report.words
    rows: list[Texts] = []
    for part in strip.wall_parts(run):
        name = Cell(phase_name(run, part.phase, words), part.phase)
        rows.append((name, words.percent(part.share), words.duration(part.seconds)))
        for inner, seconds in parts_of_phases(run.phases, run.wall).get(part.phase, {}).items():
            share = words.percent(seconds / run.wall.total_s)
            rows.append((f"– {words.part(inner)}", share, words.duration(seconds)))
    if run.wall.unknown_s is None:
        rows.append((Cell(words.phase("unknown"), "unknown"), "?", "?"))
    rows.append((words.text("whole run"), words.percent(1.0, 0), words.duration(run.wall.total_s)))
    head = (words.text("phase"), words.text("share"), words.text("time"))
    inside = run.evaluations.contains_checkpoint
    note = words.text("Checkpoints are inside the evaluation's time here.") if inside else None
    return make_table(words.text("Every second of the run"), head, rows, (1, 2), note=note)


def slow_rows_table(report: Report) -> Table:
    """Every slow row, as far as a page can hold them."""
    run, words = report.diagnosis, report.words
    shown = run.slow_rows[:MOST_SLOW_ROWS]
    left = sum(row.count for row in run.slow_rows[MOST_SLOW_ROWS:])
    rows = [
        (
            words.count(slow.iteration),
            words.ms(slow.ms),
            f"+{words.duration(slow.excess_ms / 1000)}",
            Cell(charts.named_causes(slow, words), charts.row_group(slow)),
            made_of(slow, words),
        )
        for slow in shown
    ]
    head = (
        *(words.text("iteration"), words.text("time"), words.text("over a step")),
        *(words.text("cause"), words.text("made of")),
    )
    note = words.plural("{n} more row is in the JSON.", "{n} more rows are in the JSON.", left) if left else None
    return make_table(words.text("Slow rows"), head, rows, (0, 1, 2), note=note)


# --- figures ---------------------------------------------------------------------------------------------------------


def throughput_table(report: Report) -> Table:
    """From normal rows only, and how long the rest will take."""
    run, words = report.diagnosis, report.words
    pace, step, ahead = run.throughput, run.step, run.ahead
    tokens = report.tilde("tokens_per_iteration")
    micro_batch = marked(report.tilde("gradient_accumulation_steps"), words.ms(pace.micro_batch_ms))
    rows = [
        (words.text("normal step"), words.ms(step.median_ms if step.normal_rows else None)),
        (words.text("one micro-batch"), micro_batch),
        (words.fact("tokens_per_iteration"), marked(tokens, words.count(pace.tokens_per_iteration))),
        (words.text("tokens per second"), marked(tokens, words.si(pace.tokens_per_s))),
        (words.text("tokens per second, overhead included"), marked(tokens, words.si(pace.tokens_per_s_overall))),
        (words.text("tokens per day"), marked(tokens, words.si(pace.tokens_per_day))),
        (words.text("tokens in this run"), marked(tokens, words.si(pace.tokens_total))),
        (words.text("1,000 more iterations"), words.duration(ahead.seconds_per_1000)),
    ]
    if ahead.remaining_iterations:
        done = words.percent(share_done(run))
        rows.append((words.text("done of max_iters"), marked(report.tilde("max_iters"), done)))
        rows.append((words.text("until max_iters"), marked(report.tilde("max_iters"), words.duration(ahead.eta_s))))
    by_trainer = words.text("time in steps, by the trainer's own count from step 11 on")
    rows.append((by_trainer, words.duration(pace.told_training_s)))
    return _known(words.text("Throughput"), rows)


def utilisation_table(report: Report) -> Table:
    """The mfu in its three readings, and what it is made of."""
    run, words = report.diagnosis, report.words
    mfu, model = run.mfu, run.model
    mark = report.tilde("flops_per_token", "tokens_per_iteration")
    card = mfu.card_name or words.text("GPU")
    causal = words.text("the same with causal attention")
    peak_of_card = words.text("peak of the {card}, dense {precision}", card=card, precision=mfu.card_precision)
    rows = [
        (words.text("as printed, last row"), words.mfu(mfu.printed_last)),
        (words.text("without evaluation rows"), words.mfu(mfu.steady_printed)),
        (words.text("peak behind the printed mfu"), words.tflops(mfu.printed_peak_tflops)),
        (words.text("of the {card}", card=card), marked(mark, card_range(mfu, words))),
        (causal, marked(mark, words.percent(mfu.card_causal))),
        (peak_of_card, words.tflops(mfu.card_tflops)),
        (words.text("achieved"), marked(mark, words.tflops(mfu.achieved_tflops))),
        (causal, marked(mark, words.tflops(mfu.achieved_tflops_causal))),
        (words.fact("parameters"), marked(report.tilde("parameters"), words.si(model.parameters, digits=2))),
        (words.fact("flops_per_token"), marked(report.tilde("flops_per_token"), words.flops(model.flops_per_token))),
    ]
    return _known(words.text("GPU utilisation (mfu)"), rows)


def loss_table(report: Report) -> Table:
    """Loss with its perplexity beside it, so that nobody takes one for the other, and where the trend leads."""
    run, words = report.diagnosis, report.words
    loss = run.loss

    def at(
        name: str,
        value: float | None,
        iteration: int | None = None,
        *,
        error: float | None = None,
        is_loss: bool = True,
    ) -> tuple[str, ...]:
        perplexity = math.exp(value) if value is not None and value < 50 and is_loss and loss.metric == "loss" else None
        return name, words.loss(value, error), words.number(perplexity, 1), words.count(iteration)

    rows = [
        at(words.text("best validation"), loss.best_val, loss.best_val_iteration, error=loss.best_val_error),
        at(words.text("last validation"), loss.last_val, loss.last_val_iteration, error=loss.last_val_error),
        at(last_training(words, loss), loss.last_train, loss.last_val_iteration),
        at(gap_name(words, loss), loss.gap, is_loss=False),
        at(words.text("noise of the printed loss"), loss.noise, is_loss=False),
    ]
    for ahead in loss.forecast:
        low, high = words.number(ahead.low, 3), words.number(ahead.high, 3)
        name = words.text("if the trend holds: {low} to {high}", low=low, high=high)
        rows.append(at(name, ahead.loss, ahead.iteration))
    known = [row for row in rows if row[1] != UNKNOWN]
    head = ("", words.metric(loss.metric), words.text("perplexity"), words.text("iteration"))
    return make_table(words.text("Loss"), head, known, (1, 2, 3))


def marked(mark: str, text: str) -> str:
    """A figure with its mark; what is unknown needs none."""
    return text if text == UNKNOWN else mark + text


def _known(caption: str, rows: Sequence[tuple[str, str]]) -> Table:
    """A table of names and values without those that are unknown."""
    return make_table(caption, (), [row for row in rows if row[1] != UNKNOWN], (1,))


# --- advice and facts ------------------------------------------------------------------------------------------------


def advice_table(report: Report) -> Table:
    """What to change, what it saves and what it costs, in the diagnosis' order: the largest saving is first."""
    run, words = report.diagnosis, report.words
    rows = [
        (
            report.text(advice),
            words.duration(advice.saves_s),
            words.percent(advice.saves_share),
            words.advice_cost(advice.code, advice.numbers) or UNKNOWN,
        )
        for advice in run.findings
        if advice.advice
    ]
    head = (words.text("change"), words.text("saves"), words.text("share"), words.text("costs"))
    return make_table(words.text("What each change would have saved in this run"), head, rows, (1, 2), wordy=True)


def facts_table(report: Report) -> Table:
    """All that is known of the run, and how."""
    run, words = report.diagnosis, report.words
    rows: list[Texts] = []
    for name, fact in sorted(run.facts.items()):
        measured = name in DERIVED_FACTS and isinstance(fact.value, (int, float))  # no setting that anybody types
        shown = words.number(float(fact.value)) if measured else typed(fact.value)
        inferred = fact.origin == "inferred"
        value = Cell(("~" if inferred else "") + shown, inferred=inferred)
        rows.append((words.fact(name), value, Cell(words.origin(fact), inferred=inferred)))
    head = (words.text("setting"), words.text("value"), words.text("origin"))
    marks = any(fact.origin == "inferred" for fact in run.facts.values())
    note = words.text("~ marks what is inferred, not read, and every figure that rests on it.") if marks else None
    return make_table(words.text("What is known, and how"), head, rows, (1,), note=note, paired=True)
