from __future__ import annotations

import math
import random
import time
from array import array
from dataclasses import replace

import pytest

from nanopace.diagnosis.time.levels import baseline
from nanopace.diagnosis.time.pace_findings import step_findings
from nanopace.diagnosis.time.rows import (
    MARKED,
    NORMAL,
    SLOW,
    UNEVEN,
    Marks,
    Pace,
    _follow_rows_at_changes,
    find_pace,
    steady,
)
from nanopace.run import Caveat, GpuUse, Restart, Row, Rows, Run

from ..synthetic import nanogpt_run, rows_run


def slow_iterations(run: Run) -> list[int]:
    pace = find_pace(run)
    return [run.rows.iteration[index] for index, kind in enumerate(pace.kind) if kind == SLOW]


def codes(run: Run) -> list[str]:
    return [finding.code for finding in step_findings(run, find_pace(run))]


def test_evaluation_rows_and_the_first_are_slow() -> None:
    run = nanogpt_run()
    pace = find_pace(run)
    assert slow_iterations(run) == list(range(0, 20_001, 500))
    assert pace.step.normal_rows == 160
    assert pace.step.uneven_rows == 0
    assert pace.step.median_ms == pytest.approx(169.2, abs=0.2)
    assert pace.step.spread < 0.005
    assert codes(run) == []


def test_ten_rows_are_enough() -> None:
    run = nanogpt_run(900)
    assert slow_iterations(run) == [0, 500]
    assert find_pace(run).step.normal_rows == 8


def test_rows_outside_the_noise_are_uneven_before_they_are_slow() -> None:
    uneven = dict.fromkeys(range(1100, 15000, 700), 15.0)
    run = nanogpt_run(stalls={**uneven, 300: 50.0})
    pace = find_pace(run)
    plain_uneven = [iteration for iteration in uneven if iteration % 500]
    assert [run.rows.iteration[index] for index, kind in enumerate(pace.kind) if kind == UNEVEN] == plain_uneven
    assert 300 in slow_iterations(run)
    assert pace.step.normal_rows == 159  # the uneven ones are steps like the others
    (finding,) = step_findings(run, pace)
    assert finding.code == "uneven_rows"
    assert finding.numbers["excess_share"] == pytest.approx(15 / 169, rel=0.1)
    assert finding.numbers["total_s"] == pytest.approx(len(plain_uneven) * 0.015, rel=0.1)


@pytest.mark.parametrize("noise", [0.01, 0.1, 0.3])
def test_a_noisy_run_has_no_slow_rows_of_its_own(noise: float) -> None:
    run = nanogpt_run(noise=noise, eval_interval=0, compile_ms=0)
    assert slow_iterations(run) == []


@pytest.mark.parametrize("whole", [0.05, 0.6, -0.3])
def test_a_drifting_baseline_makes_no_row_slow(whole: float) -> None:
    run = nanogpt_run(pace=lambda iteration: 1 + whole * iteration / 20_000)
    pace = find_pace(run)
    assert slow_iterations(run) == list(range(0, 20_001, 500))
    assert len(pace.step.levels) == 1
    assert pace.step.drift_share == pytest.approx(whole, rel=0.15)
    assert codes(run) == ["drift"]


@pytest.mark.parametrize(("change", "code"), [(1.06, "level_shift"), (0.8, "level_shift"), (2.3, "memory_spill")])
def test_a_level_shift_makes_no_row_slow(change: float, code: str) -> None:
    run = nanogpt_run(pace=lambda iteration: change if iteration > 13_000 else 1.0)
    pace = find_pace(run)
    assert slow_iterations(run) == list(range(0, 20_001, 500))
    before, after = pace.step.levels
    assert (before.first_iteration, before.last_iteration) == (0, 13_000)
    assert (after.first_iteration, after.last_iteration) == (13_100, 20_000)
    assert after.median_ms / before.median_ms == pytest.approx(change, rel=0.01)
    (finding,) = step_findings(run, pace)
    assert finding.code == code
    assert finding.numbers["iteration"] == 13_100


@pytest.mark.parametrize(
    ("change", "at_limit", "code"),
    [
        (1.06, 90, "level_shift_at_power_limit"),
        (0.95, 90, "level_shift_at_power_limit"),
        (1.06, 40, "level_shift"),
        (1.2, 90, "level_shift"),  # more than warmth explains
        (2.3, 90, "memory_spill"),
    ],
)
def test_at_the_power_limit_the_clock_moves_with_the_temperature(change: float, at_limit: int, code: str) -> None:
    run = nanogpt_run(pace=lambda iteration: change if iteration > 13_000 else 1.0)
    run = replace(run, gpu_use=GpuUse(100, training_samples=100, at_power_limit=at_limit))
    (finding,) = step_findings(run, find_pace(run))
    assert finding.code == code
    assert finding.numbers.get("at_limit") == (at_limit if code == "level_shift_at_power_limit" else None)


def test_every_row_evaluates_but_a_few() -> None:
    """These few are the baseline, although most rows take 30 times as long."""
    run = rows_run([900.0, 300, 300, 10, 300, 300, 300, 11, 300], evaluated=[0, 1, 2, 4, 5, 6, 8])
    pace = find_pace(run)
    assert pace.step.median_ms == 10.5
    assert pace.basis == "rows"
    assert [kind for kind in pace.kind if kind == NORMAL] == [NORMAL, NORMAL]


@pytest.mark.parametrize("facts", [{}, {"eval_iters": 60, "gradient_accumulation_steps": 4}])
def test_every_row_evaluates_and_nothing_tells_the_step(facts: dict[str, int]) -> None:
    """Nor does the config: a forward pass takes 30 to 40% of a micro-step, and each row may contain a checkpoint."""
    run = rows_run([9000.0] + [1100.0] * 6, evaluated=range(7), facts=facts)
    pace = find_pace(run)
    assert pace.basis == "none"
    assert pace.step.normal_rows == 0
    assert list(pace.kind) == [SLOW] + [MARKED] * 6
    assert codes(run) == ["no_plain_row"]


def test_every_second_row_is_slow_and_no_line_says_why() -> None:
    run = nanogpt_run(log_interval=250, tells_evaluations=False)
    assert slow_iterations(run) == list(range(0, 20_001, 500))
    assert find_pace(run).step.median_ms == pytest.approx(169.2, abs=0.3)


def test_an_evaluation_row_that_is_not_slow_is_not_called_slow() -> None:
    run = rows_run([100.0] * 30, evaluated=[10, 20])
    pace = find_pace(run)
    assert pace.kind[10] == pace.kind[20] == MARKED
    assert pace.step.normal_rows == 27


@pytest.mark.parametrize("times", [[], [5000.0], [5000.0, 100.0], [0.0, 0.0, 0.0], [100.0, 100.0, 100.0]])
def test_very_short_logs(times: list[float]) -> None:
    pace = find_pace(rows_run(times))
    assert len(pace.kind) == len(pace.baseline_ms) == len(times)
    assert [index for index, kind in enumerate(pace.kind) if kind == SLOW] == ([0] if times == [5000.0, 100.0] else [])


@pytest.mark.parametrize("absurd_ms", [2.6e83, 1e120, 1e300])
def test_times_beyond_all_measure_are_harmless(absurd_ms: float) -> None:
    for times in ([100.0, absurd_ms, 100.0], [absurd_ms, 100.0, absurd_ms, 100.0], [100.0] * 9 + [absurd_ms]):
        assert find_pace(rows_run(times)).kind[0] in (MARKED, SLOW)


def test_first_rows_of_later_processes_are_no_baseline() -> None:
    rows = Rows([Row(index * 10, 100.0) for index in range(20)])
    run = Run("train.log", "nanogpt", rows, restarts=(Restart(7, 70, 69), Restart(14, 140, 139)))
    assert find_pace(run).step.normal_rows == 17


def test_a_folded_row_weighs_what_it_stands_for() -> None:
    rows = Rows([Row(0, 100.0), Row(1, 10.0, count=1000, last_iteration=1000, sum_ms=10_000.0)])
    for iteration in range(1001, 1006):
        rows.append(Row(iteration, 11.0))
    pace = find_pace(Run("train.log", "nanogpt", rows))
    assert pace.step.median_ms == 10.0
    assert pace.step.normal_rows == 1005


@pytest.mark.usefixtures("untraced")
def test_a_hundred_thousand_rows_are_quick() -> None:
    run = rows_run([100.0 + index % 7 for index in range(100_000)], log_interval=1)
    start = time.perf_counter()
    pace: Pace = find_pace(run)
    assert time.perf_counter() - start < 5  # a busy machine; about 0.4 s otherwise
    assert pace.step.normal_rows == 99_999


def test_steady_is_one_level_and_both_ends_alike() -> None:
    assert steady(find_pace(nanogpt_run()).step)
    assert steady(find_pace(nanogpt_run(pace=lambda iteration: 1 + 0.01 * iteration / 20_000)).step)
    assert not steady(find_pace(nanogpt_run(pace=lambda iteration: 1 + 0.05 * iteration / 20_000)).step)  # a drift
    assert not steady(find_pace(nanogpt_run(pace=lambda iteration: 1 + 0.04 * (5000 < iteration < 9000))).step)
    assert not steady(find_pace(nanogpt_run(pace=lambda iteration: 1 + 0.025 * (iteration > 10_000))).step)  # the ends
    assert not steady(find_pace(nanogpt_run(900)).step)  # eight rows
    few = [100.0, 105.0, 98.0, 103.0] * 5
    assert not steady(find_pace(rows_run([500.0, *few])).step)  # too few for their scatter
    assert steady(find_pace(rows_run([500.0, *few * 20])).step)


def test_rows_that_are_slow_only_at_the_end_count_among_the_last_fifth() -> None:
    """They are not stalls there: nothing else shows what a step took."""
    step = find_pace(rows_run([500.0, *[100.0] * 12, 130.0, 100.0, 130.0, 130.0])).step
    assert (step.first_fifth_ms, step.last_fifth_ms) == (100.0, 130.0)


def test_the_range_of_normal_rows_is_of_eight_in_ten() -> None:
    step = find_pace(rows_run([900.0, *(100.0 + index for index in range(100))])).step
    assert (step.low_ms, step.high_ms) == (109.0, 189.0)


def test_a_time_that_covers_many_iterations_counts_as_often() -> None:
    """Steps of 100 ms, and 5 s of evaluation in a row of 100 steps: 150 ms each."""
    run = replace(rows_run([5100.0, *[100.0, 100.0, 150.0] * 5], log_interval=100), rows_cover=100)
    pace = find_pace(run)
    assert pace.excess_ms(run.rows, 3) == pytest.approx(5000)
    assert pace.typical_excess_ms(run.rows, 3) == (pytest.approx(5000), 1)
    assert pace.excess_ms(run.rows, 0) == pytest.approx(5000)  # the first row is of one iteration


def test_what_a_row_took_beyond_its_steps_counts_for_all_that_it_is_the_mean_of() -> None:
    nothing = frozenset[int]()
    marks = Marks(nothing, nothing, frozenset([0]))
    pace = Pace(
        find_pace(rows_run([50.0] * 9)).step, array("d", [50.0] * 3), bytearray(3), marks, "rows", covered=(1, 10, 10)
    )
    rows = Rows([Row(0, 80.0), Row(10, 55.0), Row(20, 52.0, count=4, last_iteration=50, sum_ms=212.0)])
    assert [pace.excess_ms(rows, index) for index in range(3)] == [30.0, 50.0, 120.0]
    assert [pace.typical_excess_ms(rows, index) for index in range(3)] == [(30.0, 1), (50.0, 1), (20.0, 4)]


def test_rows_that_take_as_long_as_those_on_one_side_are_no_stalls() -> None:
    """Three stalls hide where this level of twelve rows starts."""
    level = [0.22, 2.0, 2.5, *[0.22, 0.23] * 4, 1.5]
    found = baseline([*[0.0, 0.01] * 18, *level, *[0.0, 0.01] * 18])
    assert found[36] == pytest.approx(0.22, abs=0.01)
    assert max(found[37:39]) < 0.24
    few = [4.0, 4.02, 3.98] * 12 + [5.04] * 4 + [3.98, 4.0, 4.02] * 12
    assert slow_iterations(rows_run(few)) == [360, 370, 380, 390]


def test_a_row_that_takes_twice_as_long_is_slow_whatever_the_noise() -> None:
    noisy = random.Random(5)
    times = [(100 if index % 4 or not index else 250) * noisy.lognormvariate(0, 0.15) for index in range(33)]
    assert slow_iterations(rows_run(times, log_interval=1)) == list(range(4, 33, 4))


def test_the_last_rows_of_a_slower_level_belong_to_it_where_its_end_is_placed_too_early() -> None:
    smooth = [math.log(2000.0)] * 6 + [math.log(1000.0)] * 6
    _follow_rows_at_changes([*smooth[:6], math.log(1900.0), *smooth[7:]], smooth, [0, 6])
    assert [round(math.exp(each)) for each in smooth] == [2000] * 7 + [1000] * 5
    _follow_rows_at_changes([*smooth[:7], math.log(1300.0), math.log(5000.0), *smooth[9:]], smooth, [0, 7])
    assert [round(math.exp(each)) for each in smooth] == [2000] * 7 + [1000] * 5  # noise, and a stall


@pytest.mark.parametrize(("steps_s", "known"), [((2.2, 2.2), True), ((1.2, 3.2), False)])
def test_the_scatter_of_a_clock_of_whole_seconds_is_not_that_of_the_steps(
    steps_s: tuple[float, float], known: bool
) -> None:
    """A range of steps is told only if the clock does not explain it."""
    drawn = random.Random(3)
    run = rows_run([1000 * drawn.choice(steps_s) + drawn.uniform(-500, 500) for _ in range(400)])
    assert find_pace(run).step.low_ms is not None
    step = find_pace(replace(run, caveats=(Caveat("whole_seconds"),))).step
    assert (step.low_ms, step.high_ms) == (None, None) if known else step.low_ms is not None
