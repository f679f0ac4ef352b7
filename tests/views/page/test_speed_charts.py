"""Speed, sensors and the loss band: drawn where they are known, with limits that follow from measurements."""

from __future__ import annotations

import dataclasses
import math

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.ledger import EndEvent, EvalEvent, LedgerWriter, ResumeEvent, RunEvent, SpanEvent, StepEvent
from nanopace.ledger.events import GpuEvent
from nanopace.sources.runs import open_runs
from nanopace.views.page.gpu_charts import gpu_charts
from nanopace.views.page.loss_charts import OF_80_PERCENT, loss_charts
from nanopace.views.page.places import clock_places
from nanopace.views.page.speed_charts import mfu_chart, tokens_chart
from nanopace.wording.catalog import words

EN = words("en")


@pytest.fixture(scope="module")
def sensed(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    """Two processes of ten seconds each; the card is read every second and gets hot in the second one."""
    path, now = tmp_path_factory.mktemp("sensed") / "ledger.jsonl", [0.0]
    with LedgerWriter(path, clock=lambda: now[0], began=0.0) as ledger:
        for process in range(2):
            now[0] = 0.0
            ledger.append(RunEvent("2026-01-01T00:00:00+00:00", "1", gpu="RTX 4070", gpu_memory_gb=12))
            if process:
                ledger.append(ResumeEvent(10, "ckpt", 0))
            for n in range(10):
                iteration = 10 * process + n
                if n == 5:
                    ledger.append(EvalEvent(iteration, val=3.0 - process, ms=10.0, val_error=0.5))
                ledger.append(StepEvent(iteration, 990.0, loss=3.0))
                now[0] += 1.0
                why = "power_cap,thermal" if process else "power_cap" if n == 3 else None
                memory = math.nan if n == 9 else 8.5
                ledger.append(GpuEvent(iteration, sm_mhz=2400 - n, watts=200, memory_used_gb=memory, throttle=why))
            ledger.append(SpanEvent("step", iteration, 9900.0))
            ledger.append(EndEvent("interrupted", wall_ms=10_000.0))
    return diagnose(open_runs(path)[-1])


# --- speed -----------------------------------------------------------------------------------------------------------


def test_the_limit_is_what_the_card_would_give_at_its_peak(known: Diagnosis) -> None:
    chart = tokens_chart([known], EN)
    assert chart is not None
    each, limit = chart.series
    tokens = known.throughput.tokens_per_iteration
    assert tokens is not None
    assert known.curves.row_ms[3] is not None
    assert each.y[3] == 1000 * tokens / known.curves.row_ms[3]
    # The data sheet's 58.3 TFLOP/s over the FLOPs of a token, whatever was reached.
    assert known.mfu.card_tflops is not None
    assert known.model.flops_per_token is not None
    assert limit.y[0] == pytest.approx(known.mfu.card_tflops * 1e12 / known.model.flops_per_token, rel=1e-3)
    assert limit.label == "RTX 4070 at 100% of its peak"


def test_what_was_measured_of_the_card_is_a_limit_of_its_own(known: Diagnosis) -> None:
    found = Finding("utilisation_measured", {"measured_share": 0.9, "measured_tflops": 53.0, "card_name": "RTX 4070"})
    chart = tokens_chart([dataclasses.replace(known, findings=(found,))], EN)
    assert chart is not None
    assert known.throughput.tokens_per_s is not None
    assert chart.series[-1].y[0] == pytest.approx(known.throughput.tokens_per_s / 0.9)


def test_no_limit_is_drawn_of_a_card_that_is_unknown_or_far_away(known: Diagnosis) -> None:
    for card in (None, 0.05):
        other = dataclasses.replace(known, mfu=dataclasses.replace(known.mfu, card=card))
        chart = tokens_chart([other], EN)
        assert chart is not None
        assert [series.mark for series in chart.series] == ["dots"]
    half_idle = dataclasses.replace(known, mfu=dataclasses.replace(known.mfu, card=0.3))
    mfu, speed = mfu_chart([half_idle], EN), tokens_chart([half_idle], EN)
    assert mfu is not None
    assert speed is not None
    assert "at 100%" not in "".join(series.label for series in mfu.series)  # far above what is drawn
    assert "at 100%" in speed.series[-1].label


def test_one_run_of_two_alone_is_no_comparison(known: Diagnosis) -> None:
    unknown = dataclasses.replace(known, throughput=dataclasses.replace(known.throughput, tokens_per_iteration=None))
    assert tokens_chart([known, unknown], EN) is None
    both = tokens_chart([known, known], EN)
    assert both is not None
    assert [series.label[0] for series in both.series] == ["A", "B"]


def test_a_run_without_printed_mfu_has_that_of_its_card(known: Diagnosis) -> None:
    silent = (None,) * len(known.curves.row_ms)
    curves = dataclasses.replace(known.curves, row_mfu_printed=silent, row_mfu_true=silent)
    mfu = dataclasses.replace(known.mfu, printed_peak_tflops=None)
    chart = mfu_chart([dataclasses.replace(known, curves=curves, mfu=mfu)], EN)
    assert chart is not None
    values = [y for y in chart.series[0].y if y is not None]
    assert len(values) == sum(cause is None for cause in curves.row_cause)
    assert sorted(values)[len(values) // 2] == pytest.approx(known.mfu.card, rel=0.01)


# --- sensors ---------------------------------------------------------------------------------------------------------


def test_readings_stand_on_the_clock_of_all_processes_and_say_what_held_the_card_back(sensed: Diagnosis) -> None:
    charts = {chart.name: chart for chart in gpu_charts(sensed, EN)}
    assert [*charts] == ["gpu-clock", "gpu-power", "gpu-memory"]  # it has no thermometer
    clock, hot, limited = charts["gpu-clock"].series
    assert clock.x == tuple(float(n) for n in range(1, 21))
    assert (hot.label, hot.x) == ("held back by heat", tuple(float(n) for n in range(11, 21)))
    assert (limited.label, limited.x) == ("at the power limit", (4.0,))
    used, limit = charts["gpu-memory"].series
    assert used.y[8:10] == (8.5, None)
    assert limit.y == (12, 12)
    assert all("(" in chart.y_label for chart in charts.values())  # with its unit


def test_a_card_without_sensors_draws_nothing(known: Diagnosis) -> None:
    assert gpu_charts(known, EN) == ()


# --- the loss's band, and places -------------------------------------------------------------------------------------


def test_the_band_of_the_loss_is_as_wide_as_its_errors(sensed: Diagnosis, known: Diagnosis) -> None:
    (band,) = (each for each in loss_charts([sensed], EN)[0].series if each.low)
    assert (band.label, band.mark) == ("validation, 80% interval", "line")
    assert band.low == pytest.approx([3.0 - 0.5 * OF_80_PERCENT, 2.0 - 0.5 * OF_80_PERCENT])
    assert band.high == pytest.approx([3.0 + 0.5 * OF_80_PERCENT, 2.0 + 0.5 * OF_80_PERCENT])
    assert not any(each.low for each in loss_charts([known], EN)[1].series)


def test_every_row_is_found_on_the_clock_by_few_points(known: Diagnosis) -> None:
    """Rows of uneven lengths, some of them very slow: from seconds to the iteration and back."""
    count = 3000
    ms = [1000.0 + 50 * math.sin(n) + (50_000 if n % 500 == 499 else 0) for n in range(count)]
    ends = [sum(ms[: n + 1]) / 1000 for n in range(count)]
    curves = dataclasses.replace(known.curves, row_iteration=tuple(range(count)), row_seconds=tuple(ends))
    places = clock_places([dataclasses.replace(known, curves=curves)])
    assert places is not None
    assert len(places.x) < count / 4
    for iteration, seconds in enumerate(ends):
        assert round(between(places.x, places.iteration, seconds)) == iteration
        back = between(places.iteration, places.x, iteration)
        assert (
            min(range(max(0, iteration - 2), min(count, iteration + 3)), key=lambda n: abs(ends[n] - back)) == iteration
        )
    assert clock_places([known, known]) is None


def between(xs: tuple[float, ...], ys: tuple[float, ...], x: float) -> float:
    after = next((n for n, each in enumerate(xs) if each >= x and n), len(xs) - 1)
    return ys[after - 1] + (x - xs[after - 1]) / (xs[after] - xs[after - 1]) * (ys[after] - ys[after - 1])
