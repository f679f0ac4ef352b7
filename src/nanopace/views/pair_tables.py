"""The tables of the page on two runs. Runs go by letters there: names of files are long, and columns are narrow."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nanopace.diagnosis.comparison import Comparison, PairOf
from nanopace.views.charts import run_colour, run_letter
from nanopace.views.comparing import parts_of_speed
from nanopace.views.report import Report, typed
from nanopace.views.tables import Cell, Table, Texts, make_table, marked
from nanopace.wording.catalog import UNKNOWN, Words


def ranking_table(comparisons: Sequence[Comparison], words: Words) -> Table:
    """Three runs and more in one order, the best first."""
    from nanopace.views.ranking import ranked_table, ranking_of, table_notes  # fewer do without it

    ranking = ranking_of(comparisons)
    runs = [comparisons[0].a, *(pair.b for pair in comparisons)]
    head, rows = ranked_table(ranking, [run_letter(number) for number in range(len(runs))], runs, words)
    shaded = [
        (Cell(row[0], run_colour(each.run)), *map(Cell, row[1:])) for each, row in zip(ranking.runs, rows, strict=True)
    ]
    note = " ".join(table_notes(ranking, words)) or None
    return make_table(words.text("Ranking"), head, shaded, range(1, len(head)), note=note)


def changed_table(pair: Comparison, other: int, words: Words) -> Table:
    """The knobs that differ, and where each value is from."""

    def value(x: object, origin: str | None) -> Cell:
        if x is None:
            return Cell(UNKNOWN)
        inferred = origin == "inferred"
        return Cell(("~" if inferred else "") + typed(x), inferred=inferred)

    rows = [
        (change.knob, value(change.a, change.a_origin), value(change.b, change.b_origin)) for change in pair.changed
    ]
    unknown = ", ".join(pair.unknown_knobs)
    note = words.text("Known of one run only: {knobs}.", knobs=unknown) if unknown else None
    return make_table(words.text("What changed"), (words.text("setting"), *_runs(other)), rows, (1, 2), note=note)


def figures_table(pair: Comparison, other: int, a: Report, b: Report) -> Table:
    """The two runs side by side, what rests on an inferred fact marked; what is known of neither is left out."""
    words = a.words
    figures: list[tuple[str, PairOf, Callable[[float | None], str], str]] = [
        (words.text("tokens per second"), pair.tokens_per_s, words.si, "tokens_per_iteration"),
        (words.text("normal step"), pair.median_ms, words.ms, ""),
        (words.text("one micro-batch"), pair.micro_batch_ms, words.ms, "gradient_accumulation_steps"),
        (words.fact("parameters"), pair.parameters, lambda x: words.si(x, digits=2), "parameters"),
        (words.fact("flops_per_token"), pair.flops_per_token, words.flops, "flops_per_token"),
        (words.text("mfu of the card"), pair.mfu_card, words.percent, "flops_per_token"),
        (words.text("evaluation and checkpoints"), pair.overhead_share, lambda x: words.percent(x, 2), ""),
    ]
    rows = [
        (
            name,
            marked(a.tilde(fact), shown(figure.a)),
            marked(b.tilde(fact), shown(figure.b)),
            words.factor(figure.ratio),
        )
        for name, figure, shown, fact in figures
        if figure.a is not None or figure.b is not None
    ]
    head: Texts = ("", *_runs(other), f"{run_letter(other)} / {run_letter(0)}")
    return make_table(words.text("Side by side"), head, rows, (1, 2, 3))


def decomposition_table(pair: Comparison, words: Words) -> Table:
    """Why one is faster: parts that add up to the logarithm, and factors that multiply to the ratio."""
    rows = [
        (name, f"{'+' if x > 0 else ''}{words.number(x, 3)}", words.factor(math.exp(x)))
        for name, x in parts_of_speed(pair.decomposition, words)
    ]
    head = ("", words.text("ln"), words.text("factor"))
    return make_table(words.text("Why the speed differs"), head, rows, (1, 2))


def arrival_table(pair: Comparison, other: int, words: Words) -> Table | None:
    """When both were at the lowest validation loss that both reached."""
    from nanopace.views.arriving import arrival_notes, arrival_rows, goal_label  # the page of one run does without it

    if pair.arrival is None:
        return None  # also of one that was there before its first step: that took no time
    head: Texts = (goal_label(pair.arrival.target, words), *_runs(other), f"{run_letter(other)} / {run_letter(0)}")
    note = " ".join(arrival_notes(pair.arrival, words))
    title = words.text("Time to the same validation loss")
    return make_table(title, head, arrival_rows(pair.arrival, words), (1, 2, 3), note=note)


def equal_tables(pair: Comparison, other: int, words: Words) -> tuple[Table, ...]:
    """Best validation loss of both up to equal tokens, time and arithmetic; the better one of each is marked."""
    by_tokens = [(words.si(at.tokens, digits=2), at.a, at.b) for at in pair.equal_tokens]
    by_time = [(words.duration(at.seconds), at.a, at.b) for at in pair.equal_time]
    by_flops = [(words.flops(at.flops), at.a, at.b) for at in pair.equal_flops]
    named = (
        (words.text("Best loss at equal tokens"), by_tokens),
        (words.text("Best loss at equal time"), by_time),
        (words.text("Best loss at equal FLOPs"), by_flops),
    )
    better = words.text("better")
    return tuple(
        make_table(
            caption,
            ("", *_runs(other), better),
            [(at, words.number(a, 4), words.number(b, 4), _better(a, b, other)) for at, a, b in rows],
            (1, 2),
        )
        for caption, rows in named
        if rows
    )


def settling_lines(pair: Comparison) -> tuple[str, ...]:
    """The settings of the runs that would settle what these cannot."""
    # Two knobs whose product stays the same go together: "16 × 32".
    split = [(settling.knob.split(" × "), str(settling.value).split(" × ")) for settling in pair.settling]
    return tuple(", ".join(f"{k}={v}" for k, v in zip(knobs, values, strict=False)) for knobs, values in split)


def _runs(other: int) -> tuple[Cell, Cell]:
    return Cell(run_letter(0), run_colour(0)), Cell(run_letter(other), run_colour(other))


def _better(a: float, b: float, other: int) -> Cell:
    if a == b:
        return Cell("=")
    winner = 0 if a < b else other
    return Cell(run_letter(winner), run_colour(winner))
