"""What is drawn: every slow row with its cause, every second of the wall clock, nothing that is not known."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nanopace import render
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis, SlowRow
from nanopace.ledger import CheckpointEvent, EndEvent, EvalEvent, LedgerWriter, RunEvent, SpanEvent, StepEvent
from nanopace.sources import open_runs
from nanopace.views import charts, strip
from nanopace.wording.catalog import words

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def run() -> Diagnosis:
    return diagnose(open_runs(EXAMPLES / "slow-rows.log")[0])


@pytest.fixture(scope="module")
def known() -> Diagnosis:
    """A run whose card and tokens are known."""
    return diagnose(open_runs(EXAMPLES / "wide-header.log", gpu="RTX 4070")[0])


def test_every_row_is_drawn_once_and_slow_ones_by_cause(run: Diagnosis) -> None:
    chart = charts.times_chart([run], words("en"))
    assert chart is not None
    assert chart.log
    drawn = sorted(x for series in chart.series for x in series.x)
    assert drawn == sorted(run.curves.row_iteration)
    by_label = {series.label: series for series in chart.series}
    both = by_label["evaluation + checkpoint"]
    alone = by_label["evaluation"]
    assert {slow.iteration for slow in run.slow_rows if "checkpoint" in slow.causes} == set(both.x)
    assert (both.colour, both.mark) != (alone.colour, alone.mark)
    assert both.mark != alone.mark  # not by colour alone


def test_each_cause_has_its_own_mark_and_colour_where_they_meet() -> None:
    together = ("compile", "stall", "periodic", "checkpoint", "evaluation")
    assert len({charts.CAUSE_MARKS[cause] for cause in together}) == len(together)


def test_times_that_are_alike_have_a_linear_axis(run: Diagnosis) -> None:
    curves = dataclasses.replace(run.curves, row_cause=(None,) * len(run.curves.row_ms))
    curves = dataclasses.replace(curves, row_ms=tuple(100.0 + n % 3 for n in range(len(curves.row_ms))))
    chart = charts.times_chart([dataclasses.replace(run, slow_rows=(), curves=curves)], words("en"))
    assert chart is not None
    assert not chart.log


def test_loss_is_against_tokens_only_where_they_are_known(run: Diagnosis, known: Diagnosis) -> None:
    assert [chart.name for chart in charts.loss_charts([run], words("en"))] == ["loss-iteration", "loss-seconds"]
    by_tokens, by_time = charts.loss_charts([known], words("en"))
    assert by_tokens.name == "loss-tokens"
    per_iteration = known.throughput.tokens_per_iteration
    assert per_iteration is not None
    assert by_tokens.series[0].x[-1] == known.curves.row_iteration[-1] * per_iteration
    assert by_time.series[0].x == known.curves.row_seconds
    assert charts.loss_charts([run, known], words("en"))[0].name == "loss-iteration"


def test_the_best_evaluation_is_marked(run: Diagnosis) -> None:
    best = charts.loss_charts([run], words("en"))[0].series[-1]
    assert best.mark == "ring"
    assert (best.x, best.y) == ((run.loss.best_val_iteration,), (run.loss.best_val,))


def test_only_a_loss_has_a_perplexity_and_shares_an_axis_with_the_printed_loss(run: Diagnosis) -> None:
    bits = dataclasses.replace(run, loss=dataclasses.replace(run.loss, metric="bpb"))
    chart = charts.loss_charts([bits], words("en"))[0]
    assert not chart.perplexity
    assert "printed" not in {series.label for series in chart.series}
    assert charts.loss_charts([run], words("en"))[0].perplexity


def test_mfu_of_the_card_is_the_printed_one_on_another_scale(run: Diagnosis, known: Diagnosis) -> None:
    chart = charts.mfu_chart([known], words("en"))
    assert chart is not None
    printed, cleansed, of_card = chart.series
    assert known.mfu.card is not None
    middle = sorted(y for y in of_card.y if y is not None)[len(of_card.y) // 2]
    assert math.isclose(middle, known.mfu.card, rel_tol=0.02)
    unknown = charts.mfu_chart([run], words("en"))
    assert unknown is not None
    assert [series.label for series in unknown.series] == [printed.label, cleansed.label]


def test_overlaid_runs_go_by_letters_and_never_share_a_colour(run: Diagnosis, known: Diagnosis) -> None:
    both = [run, known]
    made = (charts.times_chart(both, words("en")), charts.mfu_chart(both, words("en")))
    for chart in (*made, *charts.loss_charts(both, words("en"))):
        assert chart is not None
        letters = {(series.label[0], series.colour) for series in chart.series}
        assert letters == {("A", "run-1"), ("B", "run-2")}


def test_nothing_known_draws_nothing(run: Diagnosis) -> None:
    empty = dataclasses.replace(run, curves=type(run.curves)(), slow_rows=())
    assert charts.times_chart([empty], words("en")) is None
    assert charts.loss_charts([empty], words("en")) == ()
    assert charts.mfu_chart([empty], words("en")) is None
    assert strip.timeline(empty) == ()


def test_a_million_slow_rows_are_thinned(run: Diagnosis) -> None:
    many = tuple(SlowRow(n, 900.0, 800.0, ("stall",), {}) for n in range(0, 200_000, 2))
    chart = charts.times_chart([dataclasses.replace(run, slow_rows=many)], words("en"))
    assert chart is not None
    assert all(len(series.x) <= charts.MOST_MARKS for series in chart.series)


def test_the_strip_has_every_second(run: Diagnosis) -> None:
    parts = strip.wall_parts(run)
    assert math.isclose(sum(part.seconds for part in parts), run.wall.total_s, rel_tol=1e-6)
    assert math.isclose(sum(part.share for part in parts), 1.0, rel_tol=1e-6)
    assert parts[0].phase == "training"


@contextmanager
def begun_ledger(path: Path) -> Iterator[LedgerWriter]:
    """Two seconds of start-up are in it."""
    with LedgerWriter(path) as ledger:
        ledger.append(RunEvent("2026-01-01T00:00:00+00:00", "1"))
        ledger.append(SpanEvent("startup", 0, 2000.0, what="the model"))
        yield ledger


def test_the_timeline_of_a_ledger_begins_with_the_start_and_has_every_evaluation(tmp_path: Path) -> None:
    with begun_ledger(tmp_path / "ledger.jsonl") as ledger:
        for iteration in range(100):
            if iteration % 20 == 0:
                ledger.append(EvalEvent(iteration, val=3.0, ms=500.0))
            held_up = iteration == 40  # right after its evaluation
            ledger.append(StepEvent(iteration, 300.0 if held_up else 100.0 + iteration % 3, loss=3.0))
        ledger.append(SpanEvent("step", 99, 10_199.0))
        ledger.append(EndEvent("finished", wall_ms=14_800.0))
    moments = strip.timeline(diagnose(open_runs(tmp_path / "ledger.jsonl")[0]))
    assert [moment.cause for moment in moments] == ["compile", *["evaluation"] * 3, "stall", *["evaluation"] * 2]
    assert moments[0].start == 0
    assert moments[0].seconds == 2.0
    assert moments[1].start == pytest.approx(2.0 / 14.8, abs=0.01)


def test_the_timeline_of_a_ledger_ends_with_the_wait_for_the_last_checkpoint(tmp_path: Path) -> None:
    """Written in the background, and waited for at the end: copying its weights just before is a moment of its own."""
    with begun_ledger(tmp_path / "ledger.jsonl") as ledger:
        for iteration in range(100):
            ledger.append(StepEvent(iteration, 100.0 + iteration % 3 + 1000.0 * (iteration == 0), loss=3.0))
            if iteration == 50:
                ledger.append(CheckpointEvent(50, "out", 40.0, 3000.0))
        ledger.append(SpanEvent("checkpoint", 100, 2500.0, what="waiting for the last one"))
        ledger.append(CheckpointEvent(100, "out", 4.0, 3000.0))
        ledger.append(SpanEvent("step", 100, 11_099.0))
        ledger.append(EndEvent("finished", wall_ms=15_643.0))
    run = diagnose(open_runs(tmp_path / "ledger.jsonl")[0])
    start, first_step, copied, waited = strip.timeline(run)
    assert (start.cause, first_step.cause) == ("compile", "compile")
    assert start.seconds + first_step.seconds == pytest.approx(run.wall.startup_s)
    assert (copied.cause, waited.cause) == ("checkpoint", "checkpoint")
    assert (copied.seconds, waited.seconds) == (0.04, 2.5)
    assert copied.start == pytest.approx(8.05 / 15.643, abs=0.002)
    assert waited.start == pytest.approx(13.143 / 15.643)
    assert waited.start + waited.width == pytest.approx(1.0)
    assert "<title>checkpoint: 2.50 s</title>" in render(run, format="html").replace("\u00a0", " ")


def test_the_timeline_stays_in_its_frame_and_shows_hidden_evaluations(run: Diagnosis, known: Diagnosis) -> None:
    for each in (run, known):
        moments = strip.timeline(each)
        assert all(moment.start >= 0 and moment.start + moment.width <= 1 + 1e-9 for moment in moments)
    assert known.evaluations.hidden
    evaluations = [moment for moment in strip.timeline(known) if moment.cause in ("evaluation", "checkpoint")]
    assert len(evaluations) >= known.evaluations.count
