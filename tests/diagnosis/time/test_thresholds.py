"""The threshold of each statement about time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Faults, Level
from nanopace.diagnosis.time.experiment import Sample, by_speed, compare_rows, cost_of, step_exponent, without_stalled
from nanopace.diagnosis.time.faults import straggler_findings
from nanopace.diagnosis.time.gpu_use import gpu_findings
from nanopace.diagnosis.time.levels import drift, level_starts
from nanopace.diagnosis.time.pace_findings import step_findings
from nanopace.diagnosis.time.rows import NORMAL, SLOW, find_pace, steady
from nanopace.incidents import RankLag
from nanopace.record import replace
from nanopace.run import Evaluation, Fact, GpuUse, Row, Rows, Run

from ..conftest import make
from ..synthetic import rows_run
from ..thresholds import Holds, codes, threshold


def one_row(times: float) -> int:
    """The kind of a row that took this many times as long as the others."""
    return find_pace(rows_run([500.0, *[100.0] * 30, 100.0 * times, *[100.0] * 30])).kind[31]


def levels(*parts: tuple[int, float], **more: Any) -> set[str]:
    """Findings about levels with these numbers of rows and these multiples of 100 ms."""
    run = rows_run([500.0, *(100.0 * times for count, times in parts for _ in range(count))])
    run = replace(run, **more)
    return codes(step_findings(run, find_pace(run)))


def is_steady(**step: Any) -> bool:
    return steady(replace(make().step, levels=(Level(0, 9, 100.0),), first_fifth_ms=100.0, last_fifth_ms=100.0, **step))


def ranks(share: float, lag: float = 0.1, world_size: int = 2, steps: int = 100_000) -> bool:
    run = Run("log", "ledger", Rows(), facts={"world_size": Fact(world_size, "log")})
    slowest = round(share * steps)
    lags = (RankLag(1, slowest, lag), RankLag(0, steps - slowest, None))
    return bool(straggler_findings(run, Faults(ranks=lags)))


def sensors(**use: Any) -> set[str]:
    return codes(gpu_findings(Run("log", "ledger", Rows(), gpu_use=GpuUse(100, **use))))


AT_LIMIT = {"gpu_use": GpuUse(training_samples=100, at_power_limit=60)}


@pytest.mark.parametrize(
    ("holds", "low", "high", "expected"),
    [
        (lambda x: one_row(x) == SLOW, 1.1, 2.0, 1.25),
        (lambda x: one_row(x) == NORMAL, 1.0, 1.2, math.exp(3.5 * 0.005 / 0.6745)),
        (lambda x: is_steady(spread=x), 0.0, 0.1, 0.01 / (1.25 * math.sqrt(10 / 100))),
        (lambda x: is_steady(spread=0.0) and steady(replace(
            make().step, levels=(Level(0, 9, 100.0),), first_fifth_ms=100.0, last_fifth_ms=x)), 100.0, 110.0, 102.0),
        (lambda x: "level_shift" in levels((50, 1.0), (50, x)), 1.0, 1.2, 1.03),
        (lambda x: "memory_spill" in levels((50, 1.0), (50, x)), 1.5, 2.5, 1.8),
        (lambda x: "memory_spill" in levels((50, 1.0), (30, 2.0), (30, x)), 1.5, 2.5, 1.8),
        # what was that slow before, and recovered, is no spill
        (lambda x: "memory_spill" not in levels((50, 1.0), (30, x), (30, 1.0), (30, 2.2)), 1.5, 2.5, 1.8),
        (lambda x: "slow_beginning" in levels((10, x), (90, 1.0)), 1.1, 1.6, 1.25),
        (lambda x: "slow_beginning" in levels((round(x), 1.5), (100 - round(x), 1.0)), 10, 40, 19.5),
        (lambda x: "level_shift_at_power_limit" in levels((50, 1.0), (50, x), **AT_LIMIT), 1.05, 1.3, 1.1),
        (lambda x: ranks(x), 0.55, 0.9, 0.6),
        (lambda x: ranks(0.9, lag=x), 0.0, 0.1, 0.03),
        (lambda x: ranks(x, steps=40), 0.6, 1.0, 0.8125),  # 4 standard deviations above a half: 33 of 40
        (lambda x: "throttled_heat" in sensors(throttled={"thermal": x}), 0.0, 1.0, 0.02),
        (lambda x: "throttled_hardware" in sensors(throttled={"power_brake": x}), 0.0, 1.0, 0.02),
        (lambda x: "throttled_power" in sensors(throttled={"power_cap": x}), 0.0, 1.0, 0.5),
    ],
)  # fmt: skip
def test_of_the_time(holds: Holds, low: float, high: float, expected: float) -> None:
    assert threshold(holds, low, high) == pytest.approx(expected, rel=1e-4)


def line(change: float, rows: int = 64, bump: float = 0.0, scatter: float = 0.0) -> list[float]:
    """Logarithms along a straight line, with a bump in the fourth of its eight parts, or scatter to both sides."""
    part = rows // 8
    return [
        change * row / rows + bump * (row // part == 3) + scatter * (-1) ** row * (1 if row % 4 < 2 else 0.999)
        for row in range(rows)
    ]


@pytest.mark.parametrize(
    ("holds", "low", "high", "expected"),
    [
        (lambda x: drift(line(x)) is not None, 0.0, 0.1, math.log(1.02)),
        (lambda x: drift(line(-x)) is not None, 0.0, 0.1, -math.log(0.98)),
        (lambda x: drift(line(0.1, bump=x)) is not None, 0.0, 0.1, 0.12 * 0.1 * 7 / 8),
        (lambda x: drift(line(0.4, 640, scatter=x)) is not None, 0.02, 0.4,
         0.4 * 7 / 8 / (24 * 1.25 / 0.6745 * math.sqrt(8 / 640))),
        (lambda x: level_starts([0.0] * 50 + [x] * 50) == [0, 50], 0.0, 0.1, math.log(1.03)),
        (lambda x: level_starts([0.0] * 50 + [-x] * 50) == [0, 50], 0.0, 0.1, math.log(1.03)),
        (lambda x: level_starts([0.0] * 6 + [x] * 6) == [0, 6], 0.0, 0.1, 0.3 / 6),
        (lambda x: level_starts([0.0] * round(x) + [0.5] * 4) == [0], 10, 40, 20.5),  # four of 25 rows are not a level
        (lambda x: level_starts([0.0] * 40 + [0.5] * round(x)) == [0], 1, 20, 4.5),
        (lambda x: bool(find_pace(rows_run([500.0] + [100.0] * round(x))).step.first_fifth_ms), 5, 30, 14.5),
        (lambda x: find_pace(rows_run([500.0] + [100.0] * 40 + [100.0 * x] * 40)).step.change_share is None,
         1.0, 1.2, 1.05),
    ],
)  # fmt: skip
def test_of_levels_and_drifts(holds: Holds, low: float, high: float, expected: float) -> None:
    assert threshold(holds, low, high) == pytest.approx(expected, rel=5e-3)


def stall_of(each_ms: float, step_ms: float = 1000.0) -> float:
    """The stall in a ledger in which one of five evaluations took this long, and the others 5 s."""
    rows = Rows([Row(at, step_ms) for at in range(60)])
    evaluations = [Evaluation(10 * k, None, 3.0, ms=each_ms if k == 3 else 5000.0) for k in range(1, 6)]
    run = Run("log", "ledger", rows, tuple(evaluations), row_contains_evaluation=False, wall_ms=1e6)
    return diagnose(run).wall.stall_s


def gap(ms: float, step_ms: float = 1100.0) -> bool:
    """Whether a gap shows between two of many rows whose timestamps are exact to a tenth of a second."""
    at_s = [1e9 + step_ms * k / 1000 + (ms / 1000 if k > 30 else 0.0) for k in range(60)]
    rows = Rows([Row(k, step_ms, at_s=round(at, 1)) for k, at in enumerate(at_s)])
    return "gap_between_rows" in codes(diagnose(Run("log", "nanogpt", rows)).findings)


def start(evaluation_ms: float) -> set[str]:
    """How a first row of 10 s beyond its step is explained, if a later evaluation takes this long."""
    times = [10_100.0, *([100.0] * 9 + [100.0 + evaluation_ms]) * 6]
    return codes(diagnose(rows_run(times, evaluated=[0, *range(10, 61, 10)])).findings)


def uneven(count: float, ms: float = 104.0, rows: int = 1000) -> bool:
    """Whether this many rows that took 4% longer are reported."""
    times = [500.0, *(ms if row % 7 == 3 and row // 7 < round(count) else 100.0 for row in range(rows))]
    run = rows_run(times)
    return "uneven_rows" in codes(step_findings(run, find_pace(run)))


def periodic(kept: float, off: int = 0, period: int = 10) -> bool:
    """Whether stalls count as periodic if this many come every ten rows, and others at random."""
    times = [9000.0, *[100.0] * 200]
    for number in range(round(kept)):
        times[period * (number + 1)] = 900.0
    for number in range(off):
        times[period * (number + 1) + 3 + number % 4] = 900.0
    return "periodic_stalls" in codes(diagnose(rows_run(times, log_interval=1)).findings)


@pytest.mark.parametrize(
    ("holds", "low", "high", "expected"),
    [
        (lambda x: stall_of(x) > 0, 5000, 20_000, 10_000),  # twice as long as the others
        (lambda x: stall_of(x, 8000.0) > 0, 5000, 20_000, 13_000),  # and by more than a step
        (lambda x: "startup" in start(x), 5000, 11_000, 9800),  # 98% of it leave nothing for a start
        (uneven, 1, 60, 19.5),  # 2% of the rows
        (lambda x: uneven(x, 110.0), 1, 60, 10.5),  # or 0.1% of the time, with the first row's
        (lambda x: uneven(x, 110.0, 100), 1, 14, 2.5),  # and three at least
        (lambda x: periodic(x), 1, 20, 13.5),  # 70% of the rows that are due
        (lambda x: periodic(20, round(x)), 1, 16, 8.5),  # and of the stalls
        (gap, 0, 2000, 350),  # three tenths of a second, as the stamps are rounded
        (lambda x: gap(x, 4100.0), 0, 4000, 1050),  # and a quarter of what the steps between take
    ],
)
def test_of_the_clock(holds: Holds, low: float, high: float, expected: float) -> None:
    assert threshold(holds, low, high) == pytest.approx(expected, rel=1e-4)


def samples(excess_ms: Sequence[float], step_ms: float = 100.0, saves: bool = False) -> list[Sample]:
    return [Sample(ms, 1, step_ms, saves) for ms in excess_ms]


def kept(ms: float, spread: float, step_ms: float = 100.0) -> bool:
    return len(without_stalled([*samples([1000.0] * 9), Sample(ms, 1, step_ms, False)], spread)) == 10


@pytest.mark.parametrize(
    ("holds", "low", "high", "expected"),
    [
        (lambda x: len(by_speed([*samples([1.0], 100.0), *samples([1.0], x)], 0.1)) == 1, 100, 120, 107.5),
        (lambda x: len(by_speed([*samples([1.0], 100.0), *samples([1.0], x)])) == 1, 100, 120, 103),
        (lambda x: kept(x, 0.0), 1000, 9000, 2000),  # twice the lower quartile
        (lambda x: kept(x, 0.0, step_ms=50.0), 1000, 9000, 2000),
        (lambda x: kept(x, 0.0, step_ms=150.0), 1000, 9000, 3000),  # where steps are slower, evaluations may be, too
        (lambda x: kept(x, 3.0), 2000, 9000, 1000 + 6 * 3.0 * 100),  # or six times the scatter of steps
        (lambda x: kept(x, 0.5), 0.0, 1000, 6 * 0.5 * 100),  # below that an evaluation does not show
        (lambda x: step_exponent(samples([1000.0] * 2) + samples([1000.0 * 2**x] * 2, 200.0)) == 0.0, 0.0, 0.5, 0.3),
        (lambda x: step_exponent(samples([1000.0] * 2) + samples([1000.0 * 2**x] * 2, 200.0)) == 1.0, 0.5, 1.0, 0.7),
        (lambda x: step_exponent(samples([1000.0] * 2) + samples([1000.0 * 2**x] * 2, 200.0)) == 1.0, 1.0, 2.0, 1.3),
    ],
)  # fmt: skip
def test_of_rows_that_evaluate(holds: Holds, low: float, high: float, expected: float) -> None:
    assert threshold(holds, low, high) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("step_ms", "checkpoint_ms"), [(100.0, 300.0), (100.4, 300.0), (100.6, 300 - 5000 * 0.003)])
def test_a_speed_that_differs_a_little_is_split_between_evaluation_and_save(
    step_ms: float, checkpoint_ms: float
) -> None:
    """Evaluations may cost a number of steps or of seconds: half of the difference goes to either."""
    found = compare_rows([*samples([5000.0] * 5), *samples([5300.0] * 5, step_ms, saves=True)], 0.001)
    assert found is not None
    assert found.checkpoint is not None
    assert found.checkpoint.ms == pytest.approx(checkpoint_ms)


@pytest.mark.parametrize(
    ("times", "half_ms"),
    [
        ([1000.0, 1010.0], 3.08 * math.sqrt(2 * 5.0**2) / math.sqrt(2)),  # Student's t of one degree, no median yet
        ([990.0, 1000.0, 1010.0], 1.89 * 1.2533 * 10.0 / math.sqrt(3)),
        ([990.0, 1000.0, 1000.0, 1010.0], 1.64 * 1.2533 * math.sqrt(200 / 3) / 2),
        ([1000.0] * 3 + [990.0, 1010.0] * 3 + [980.0, 1020.0], 1.3666 * 1.2533 * 10 / 0.6745 / math.sqrt(11)),
    ],
)  # fmt: skip
def test_the_interval_of_a_cost_follows_student(times: list[float], half_ms: float) -> None:
    cost = cost_of(samples(times), 0.0)
    assert cost.high_ms - cost.ms == pytest.approx(half_ms, rel=1e-3)
    assert (cost.least_ms, cost.most_ms) == pytest.approx((cost.ms - 3 * half_ms, cost.ms + 3 * half_ms), rel=1e-3)
