"""What is drawn: every slow row with its cause, every second of the wall clock, nothing unknown."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nanopace import render
from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis, SlowRow
from nanopace.ledger import CheckpointEvent, EndEvent, EvalEvent, LedgerWriter, RunEvent, SpanEvent, StepEvent
from nanopace.sources.runs import open_runs
from nanopace.views.document import RUN_COLOURS
from nanopace.views.page import charts, wall_timeline
from nanopace.views.page.loss_charts import loss_charts
from nanopace.views.page.page import strip
from nanopace.views.page.speed_charts import mfu_chart
from nanopace.views.report import CAUSES
from nanopace.wording.catalog import words


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
    together = ("restart", "compile", "stall", "periodic", "checkpoint", "evaluation")
    assert len({charts.CAUSE_MARKS[cause] for cause in together}) == len(together)
    assert {*charts.CAUSE_MARKS} == {*CAUSES}  # whatever a row is drawn as has a mark


def test_times_that_are_alike_have_a_linear_axis(run: Diagnosis) -> None:
    curves = dataclasses.replace(run.curves, row_cause=(None,) * len(run.curves.row_ms))
    curves = dataclasses.replace(curves, row_ms=tuple(100.0 + n % 3 for n in range(len(curves.row_ms))))
    chart = charts.times_chart([dataclasses.replace(run, slow_rows=(), curves=curves)], words("en"))
    assert chart is not None
    assert not chart.log


def test_loss_is_against_tokens_only_where_they_are_known(run: Diagnosis, known: Diagnosis) -> None:
    assert [chart.name for chart in loss_charts([run], words("en"))] == ["loss-iteration", "loss-seconds"]
    by_tokens, by_time = loss_charts([known], words("en"))
    assert by_tokens.name == "loss-tokens"
    per_iteration = known.throughput.tokens_per_iteration
    assert per_iteration is not None
    assert by_tokens.series[0].x[-1] == known.curves.row_iteration[-1] * per_iteration
    assert by_time.series[0].x == known.curves.row_seconds
    assert loss_charts([run, known], words("en"))[0].name == "loss-iteration"


def test_the_best_evaluation_is_marked(run: Diagnosis) -> None:
    (best,) = (series for series in loss_charts([run], words("en"))[0].series if series.mark == "ring")
    assert (best.x, best.y) == ((run.loss.best_val_iteration,), (run.loss.best_val,))


@pytest.mark.parametrize(
    ("saved", "known", "label"),
    [(True, True, "best, saved"), (False, False, "best, not saved"), (False, None, "best validation")],
)
def test_whether_the_best_was_saved_is_said_where_it_is_known(
    run: Diagnosis, saved: bool, known: bool | None, label: str
) -> None:
    curves = dataclasses.replace(run.curves, eval_saved=(saved,) * len(run.curves.eval_iteration))
    told = dataclasses.replace(run, curves=curves, loss=dataclasses.replace(run.loss, saved_best=known))
    (best,) = (series for series in loss_charts([told], words("en"))[0].series if series.mark == "ring")
    assert best.label == label


def test_only_a_loss_has_a_perplexity_and_shares_an_axis_with_the_printed_loss(run: Diagnosis) -> None:
    bits = dataclasses.replace(run, loss=dataclasses.replace(run.loss, metric="bpb"))
    chart = loss_charts([bits], words("en"))[0]
    assert not chart.perplexity
    assert "printed" not in {series.label for series in chart.series}
    assert loss_charts([run], words("en"))[0].perplexity


def test_a_printed_loss_beside_bits_per_byte_gets_a_chart_of_its_own(run: Diagnosis) -> None:
    bits = dataclasses.replace(run, loss=dataclasses.replace(run.loss, metric="bpb"))
    own = loss_charts([bits], words("en"))[-1]
    assert (own.title, own.y_label) == ("Training loss as printed", "loss")
    assert own.series[0].y == run.curves.row_loss
    assert not any(chart.name == "printed-loss" for chart in loss_charts([run], words("en")))


def test_losses_of_different_metrics_share_no_axis(run: Diagnosis) -> None:
    bits = dataclasses.replace(run, loss=dataclasses.replace(run.loss, metric="bpb"))
    made = loss_charts([run, bits], words("en"))
    named = [(chart.name, chart.y_label, {series.label[0] for series in chart.series}) for chart in made]
    assert named == [
        ("loss-iteration", "loss", {"A"}),
        ("loss-seconds", "loss", {"A"}),
        ("loss-iteration-bpb", "bits per byte", {"B"}),
        ("loss-seconds-bpb", "bits per byte", {"B"}),
        ("printed-loss", "loss", {"B"}),
    ]


def test_the_forecast_is_drawn_with_its_interval_and_not_on_the_clock(run: Diagnosis) -> None:
    by_iteration, by_time = loss_charts([run], words("en"))
    forecast = by_iteration.series[-1]
    assert (forecast.label, forecast.mark) == ("forecast, 80% interval", "interval")
    assert forecast.x == tuple(at.iteration for at in run.loss.forecast)
    assert max(forecast.x) > run.source.last_iteration
    assert (forecast.low, forecast.high) == (
        tuple(at.low for at in run.loss.forecast),
        tuple(at.high for at in run.loss.forecast),
    )
    assert "interval" not in {series.mark for series in by_time.series}


def test_where_two_runs_cross_is_marked(known: Diagnosis) -> None:
    pair = dataclasses.replace(compare(known, known), crossover_s=7.8 * 3600, crossover_tokens=1.5e9)
    by_tokens, by_time = loss_charts([known, known], words("en"), [pair])
    for chart, at, said in ((by_tokens, 1.5e9, "1.50B"), (by_time, 7.8 * 3600, "7.8 h")):
        (crossed,) = (series for series in chart.series if series.mark == "upright")
        assert crossed.x == (at,)
        assert crossed.label.replace("\u00a0", " ") == f"A and B cross: {said}"


def test_mfu_of_the_card_is_the_printed_one_on_another_scale(run: Diagnosis, known: Diagnosis) -> None:
    chart = mfu_chart([known], words("en"))
    assert chart is not None
    printed, cleansed, of_card, limit = chart.series
    assert (limit.label, limit.y) == ("RTX 4070 at 100% of its peak", (1.0, 1.0))
    assert known.mfu.card is not None
    middle = sorted(y for y in of_card.y if y is not None)[len(of_card.y) // 2]
    assert math.isclose(middle, known.mfu.card, rel_tol=0.02)
    unknown = mfu_chart([run], words("en"))
    assert unknown is not None
    assert [series.label for series in unknown.series] == [printed.label, cleansed.label]


def test_overlaid_runs_differ_by_dash_or_mark_and_say_their_names(run: Diagnosis, known: Diagnosis) -> None:
    both = [run, known]
    lines = [series for chart in loss_charts(both, words("en")) for series in chart.series]
    mfu, times = mfu_chart(both, words("en")), charts.times_chart(both, words("en"))
    assert mfu is not None
    assert times is not None
    for one in (*lines, *mfu.series):
        assert one.dash == charts.run_dash("AB".index(one.label[0]))
        assert one.label.startswith(("A slow-rows.log: ", "B wide-header.log: "))
    assert len({series.mark for series in times.series}) == 2
    assert len(set(charts.RUN_DASHES)) == len(charts.RUN_DASHES) > RUN_COLOURS


def test_a_long_name_is_cut_in_its_middle(run: Diagnosis) -> None:
    long = dataclasses.replace(run, source=dataclasses.replace(run.source, name="x" * 40 + "-seed7.log"))
    name = charts.run_name(2, long)
    assert name.startswith("C xxxx")
    assert name.endswith("-seed7.log")
    assert len(name) == 2 + charts.LONGEST_NAME


def test_overlaid_runs_go_by_letters_and_never_share_a_colour(run: Diagnosis, known: Diagnosis) -> None:
    both = [run, known]
    made = (charts.times_chart(both, words("en")), mfu_chart(both, words("en")))
    for chart in (*made, *loss_charts(both, words("en"))):
        assert chart is not None
        letters = {(series.label[0], series.colour) for series in chart.series}
        assert letters == {("A", "run-1"), ("B", "run-2")}


def test_nothing_known_draws_nothing(run: Diagnosis) -> None:
    empty = dataclasses.replace(run, curves=type(run.curves)(), slow_rows=())
    assert charts.times_chart([empty], words("en")) is None
    assert loss_charts([empty], words("en")) == ()
    assert mfu_chart([empty], words("en")) is None
    assert wall_timeline.timeline(empty) == ()


def test_a_million_slow_rows_are_thinned(run: Diagnosis) -> None:
    many = tuple(SlowRow(n, 900.0 + 100 * (n == 77_778), 800.0, ("stall",), {}) for n in range(0, 200_000, 2))
    chart = charts.times_chart([dataclasses.replace(run, slow_rows=many)], words("en"))
    assert chart is not None
    assert all(len(series.x) <= charts.MOST_MARKS for series in chart.series)
    assert any(1000.0 in series.y for series in chart.series), "the longest of all is drawn"


def test_the_strip_has_every_second(run: Diagnosis) -> None:
    parts = strip(run, words("en"))
    assert sum(float(str(part["share"])) for part in parts) == pytest.approx(1.0, rel=1e-5)
    assert parts[0]["phase"] == "training"


@contextmanager
def begun_ledger(path: Path) -> Iterator[LedgerWriter]:
    """A ledger with two seconds of start-up."""
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
    moments = wall_timeline.timeline(diagnose(open_runs(tmp_path / "ledger.jsonl")[0]))
    assert [moment.cause for moment in moments] == ["compile", *["evaluation"] * 3, "stall", *["evaluation"] * 2]
    assert moments[0].start == 0
    assert moments[0].seconds == 2.0
    assert moments[1].start == pytest.approx(2.0 / 14.8, abs=0.01)


def test_the_timeline_of_a_ledger_ends_with_the_wait_for_the_last_checkpoint(tmp_path: Path) -> None:
    """Written in the background and waited for at the end: copying its weights just before counts separately."""
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
    start, first_step, copied, waited = wall_timeline.timeline(run)
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
        moments = wall_timeline.timeline(each)
        assert all(moment.start >= 0 and moment.start + moment.width <= 1 + 1e-9 for moment in moments)
    assert known.evaluations.hidden
    evaluations = [moment for moment in wall_timeline.timeline(known) if moment.cause in ("evaluation", "checkpoint")]
    assert len(evaluations) >= known.evaluations.count


def test_the_timeline_is_as_blue_as_the_evaluations_were_long(run: Diagnosis) -> None:
    """Two thousand evaluations, each a twentieth of a pixel wide, are 5% of the run, not all of it."""
    many = tuple(SlowRow(n, 200.0, 100.0, ("evaluation",), {"evaluation": 100.0}) for n in range(2000))
    wall = dataclasses.replace(run.wall, total_s=4000.0)
    curves = dataclasses.replace(
        type(run.curves)(),
        row_iteration=tuple(range(0, 2000, 5)),
        row_seconds=tuple(2.0 * n for n in range(0, 2000, 5)),
    )
    nothing = dataclasses.replace(run.evaluations, each_ms=None)
    moments = wall_timeline.timeline(
        dataclasses.replace(run, slow_rows=many, wall=wall, curves=curves, evaluations=nothing)
    )
    assert sum(moment.width for moment in moments) == pytest.approx(0.05, rel=0.01)
    assert sum(moment.count for moment in moments) == 2000
    assert len(moments) <= 1 / wall_timeline.NARROWEST


def test_a_row_that_stands_for_many_takes_their_time_in_the_timeline(run: Diagnosis) -> None:
    folded = (SlowRow(10_000, 5_000.0, 4_000.0, ("evaluation",), {"evaluation": 4_000.0}, count=50),)
    (moment,) = (
        moment
        for moment in wall_timeline.timeline(
            dataclasses.replace(run, slow_rows=folded, evaluations=dataclasses.replace(run.evaluations, each_ms=None))
        )
        if moment.cause == "evaluation"
    )
    assert moment.seconds == pytest.approx(200.0)
    assert moment.width == pytest.approx(200.0 / run.wall.total_s)
