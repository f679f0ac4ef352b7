"""Charts of speed: tokens per second and mfu, with the card's maximum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nanopace.diagnosis.result import Diagnosis
from nanopace.views.document import run_colour
from nanopace.views.page.charts import DASHED, RUN_MARKS, Chart, Series, run_dash, run_name
from nanopace.views.report import first_of
from nanopace.wording.catalog import Words

FAR = 8.0  # times the typical speed: a limit beyond this would flatten everything else
NEAR = 0.5  # of the card's peak: above this, draw its limit
DOTTED = (2, 3)


# --- tokens per second ------------------------------------------------------------------------------------------------


def tokens_chart(runs: Sequence[Diagnosis], words: Words) -> Chart | None:
    """Tokens per second of every row and, for a single run, the most its card could reach; None if there is nothing to
    compare it with."""
    series = tuple(one for number, run in enumerate(runs) for one in _tokens(run, words, number, len(runs) > 1))
    if len(series) < min(2, len(runs)):
        return None
    limits = _limits(runs[0], words, runs[0].throughput.tokens_per_s) if len(runs) == 1 else ()
    return Chart(
        name="throughput",
        title=words.text("Tokens per second"),
        x_label=words.text("Iteration"),
        x_unit="count",
        y_label=words.text("Tokens per second"),
        y_unit="rate",
        series=(*series, *limits),
        from_zero=True,
        log_axes=("y",),
    )


def _tokens(run: Diagnosis, words: Words, number: int, several: bool) -> Iterator[Series]:
    tokens, curves = run.throughput.tokens_per_iteration, run.curves
    if not tokens or not run.timed:
        return
    rows = [(x, 1000 * tokens / ms) for x, ms in zip(curves.row_iteration, curves.row_ms, strict=True) if ms]
    x, y = tuple(float(row[0]) for row in rows), tuple(row[1] for row in rows)
    if several:
        yield Series(run_name(number, run), x, y, run_colour(number), RUN_MARKS[number % len(RUN_MARKS)])
    else:
        yield Series(words.text("each row"), x, y, "evaluation", "dots")


def _limits(run: Diagnosis, words: Words, typical: float | None) -> Iterator[Series]:
    """What the card would reach at its peak, and at its measured peak; `typical` is what it reaches now."""
    card, name = run.mfu.card, words.card(run.mfu.card_name or "")
    known = [(card, words.text("{card} at 100% of its peak", card=name), DASHED)]
    measured = first_of(run.findings, ("utilisation_measured",))
    if measured is not None:
        share = measured.numbers.get("measured_share")
        label = words.text("{card} at the measured limit of matrix products", card=name)
        known.append((share if isinstance(share, float) else None, label, DOTTED))
    ends = tuple(float(each) for each in (run.source.first_iteration, run.source.last_iteration))
    for share, label, dash in known:
        if share and typical and 1 / share <= FAR:
            yield Series(label, ends, (typical / share,) * 2, "muted", "line", dash=dash)


# --- mfu --------------------------------------------------------------------------------------------------------------


def mfu_chart(runs: Sequence[Diagnosis], words: Words) -> Chart | None:
    """The printed mfu, the same without evaluation rows, and the utilisation of the card that ran."""
    series = tuple(
        one
        for number, run in enumerate(runs)
        for one in _mfu_series(run, words, number if len(runs) > 1 else None)
        if any(y is not None for y in one.y)
    )
    if not series:
        return None
    near = len(runs) == 1 and (runs[0].mfu.card or 0.0) >= NEAR
    return Chart(
        name="mfu",
        title=words.text("GPU utilisation (mfu)"),
        x_label=words.text("Iteration"),
        x_unit="count",
        y_label="mfu",
        y_unit="share",
        series=(*series, *(_limits(runs[0], words, runs[0].mfu.card) if near else ())),
        from_zero=True,
    )


def _mfu_series(run: Diagnosis, words: Words, number: int | None) -> Iterable[Series]:
    curves, mfu = run.curves, run.mfu
    x = tuple(float(iteration) for iteration in curves.row_iteration)
    own = "" if number is None else run_colour(number)
    before = "" if number is None else f"{run_name(number, run)}: "
    dash = () if number is None else run_dash(number)
    printed = words.text("as printed")
    yield Series(before + printed, x, tuple(curves.row_mfu_printed), own or "checkpoint", "line", bool(own), dash)
    if number is None:
        yield Series(words.text("without evaluation rows"), x, tuple(curves.row_mfu_true), "evaluation", "line")
    of_card = _of_card(run)
    if of_card:
        label = words.text("of the {card}", card=words.card(mfu.card_name or ""))
        yield Series(before + label, x, of_card, own or "best", "line", dash=dash if own else DASHED)
    elif number is not None:
        label = before + words.text("without evaluation rows")
        yield Series(label, x, tuple(curves.row_mfu_true), own, "line", dash=dash)


def _of_card(run: Diagnosis) -> tuple[float | None, ...]:
    """The utilisation in each row: from the printed mfu, or from the row's time if no mfu is printed."""
    curves, mfu, typical = run.curves, run.mfu, run.step.median_ms
    if mfu.card_tflops and mfu.printed_peak_tflops:
        ratio = mfu.printed_peak_tflops / mfu.card_tflops
        return tuple(None if value is None else value * ratio for value in curves.row_mfu_true)
    if mfu.card is None or typical is None:
        return ()
    rows = zip(curves.row_ms, curves.row_cause, strict=True)
    return tuple(mfu.card * typical / ms if ms and cause is None else None for ms, cause in rows)
