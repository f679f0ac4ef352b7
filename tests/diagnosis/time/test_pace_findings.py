from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from nanopace.diagnosis.result import Finding, Level
from nanopace.diagnosis.time.pace_findings import lost_s, lost_to_levels_s, step_findings
from nanopace.diagnosis.time.rows import find_pace
from nanopace.incidents import MicroBatch
from nanopace.run import GpuUse, Restart, Row, Rows, Run

from ..synthetic import known, nanogpt_run, rows_run

Shape = Callable[[float], float]


def findings(run: Run) -> list[Finding]:
    return [finding for finding in step_findings(run, find_pace(run)) if finding.code != "uneven_rows"]


def codes(run: Run) -> list[str]:
    return [finding.code for finding in findings(run)]


def only(run: Run) -> Finding:
    (finding,) = findings(run)
    return finding


def noisy(count: int, shape: Shape, noise: float, seed: int = 0) -> Run:
    """A first row, and `count` plain ones whose time follows `shape` as a function of progress."""
    made = random.Random(seed)
    times = [100 * shape(index / count) * math.exp(made.gauss(0, noise)) for index in range(count)]
    return rows_run([500.0, *times])


def lost_at(run: Run, iteration: int) -> Run:
    """The same, with a loss of nan from an iteration on, as readers store it."""
    rows = Rows([replace(row, loss=math.inf if row.iteration >= iteration else row.loss) for row in run.rows])
    return replace(run, rows=rows)


def shifted(change: float, at: int = 10_000) -> Run:
    return nanogpt_run(pace=lambda iteration: change if iteration >= at else 1.0)


# --- over the whole run ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.05, 0.1])
@pytest.mark.parametrize("count", [45, 100, 300])
def test_a_noisy_run_that_ends_slower_is_told_so(count: int, noise: float) -> None:
    """However it got there: the sentence names both ends."""
    found = [findings(noisy(count, lambda done: 1 + 0.37 * done, noise, seed)) for seed in range(20)]
    assert sum(bool(each) for each in found) >= 18
    for finding in (finding for each in found for finding in each if finding.code in ("drift", "slower_at_the_end")):
        assert finding.numbers["change_share"] == pytest.approx(0.29, abs=0.15)
        assert finding.numbers["lost_s"] == pytest.approx(count * 10 * 0.1 * 0.15, rel=0.6)


@pytest.mark.parametrize("count", [16, 20])
def test_so_is_one_of_few_rows(count: int) -> None:
    found = [codes(noisy(count, lambda done: 1 + 0.37 * done, 0.05, seed)) for seed in range(50)]
    assert sum(bool(each) for each in found) >= 40
    assert all(code in ("slower_at_the_end", "level_shift") for each in found for code in each)


def test_a_warm_up_is_no_gradual_change() -> None:
    run = noisy(50, lambda done: 1 + 0.12 * min(1.0, done / 0.3), 0.004)
    finding = only(run)
    assert finding.code == "slower_at_the_end"
    assert finding.numbers["first_ms"] == pytest.approx(103.6, rel=0.02)
    assert finding.numbers["last_ms"] == pytest.approx(112, rel=0.01)
    assert finding.numbers["change_share"] == pytest.approx(112 / 103.6 - 1, abs=0.015)


def test_what_becomes_faster_costs_nothing() -> None:
    finding = only(noisy(50, lambda done: 1.12 - 0.12 * min(1.0, done / 0.3), 0.004))
    assert finding.code == "faster_at_the_end"
    assert lost_s(finding) == lost_s(Finding("cpu_pace")) == 0


def test_a_drift_says_both_ends() -> None:
    finding = only(nanogpt_run(pace=lambda iteration: 1 + 0.3 * iteration / 20_000))
    assert finding.code == "drift"
    assert finding.numbers["drift_share"] == pytest.approx(0.3, rel=0.1)
    assert finding.numbers["change_share"] == pytest.approx(1.27 / 1.03 - 1, rel=0.05)


def test_levels_that_tell_the_change_are_enough() -> None:
    assert codes(shifted(1.3)) == ["level_shift"]


def test_a_jump_on_the_way_up_is_no_gradual_change() -> None:
    def pace(iteration: int) -> float:
        return 1.05 + 0.3 * (iteration - 5000) / 15_000 if iteration >= 5000 else 1.0 if iteration < 4000 else 0.8

    *jumps, finding = findings(nanogpt_run(pace=pace))
    assert [jump.code for jump in jumps] == ["level_shift", "level_shift"]
    assert finding.code == "slower_at_the_end"
    assert finding.numbers["change_share"] == pytest.approx(0.31, abs=0.01)


def test_the_first_fifth_may_have_several_levels() -> None:
    """A short slow level, a long fast one, and at the end one as slow as the first: the steps did not become slower."""

    def pace(iteration: int) -> float:
        return 1.2 if iteration < 1200 or iteration >= 16_000 else 1.0 if iteration < 6000 else 1.5

    run = nanogpt_run(pace=pace)
    step = find_pace(run).step
    assert step.first_fifth_ms is not None
    assert step.last_fifth_ms == pytest.approx(1.2 * step.first_fifth_ms, rel=0.02)
    assert {*codes(run)} == {"level_shift"}


def test_levels_that_rise_like_stairs_are_levels() -> None:
    """Although a straight line explains them better than any single jump."""
    stairs = (1.0, 1.6, 1.76, 3.87)
    run = noisy(100, lambda done: stairs[min(3, int(4 * done))], noise=0.005)
    assert [round(level.median_ms / 100, 1) for level in find_pace(run).step.levels] == [1.0, 1.6, 1.8, 3.9]


def test_a_change_beyond_that_of_the_levels_is_told_too() -> None:
    """One level, and another that keeps creeping up."""
    run = nanogpt_run(pace=lambda iteration: 1.5 + 0.4 * max(0, iteration - 8000) / 12_000 if iteration > 4000 else 1.0)
    assert codes(run) == ["level_shift", "slower_at_the_end"]


def stationary(seed: int) -> Run:
    """Noise of many kinds without any change: Gaussian, one-sided, heavy-tailed, with spikes."""
    made = random.Random(seed)
    scale, kind = made.choice([0.003, 0.02, 0.05, 0.1, 0.2]), seed % 5

    def deviation() -> float:
        gauss = made.gauss(0, scale)
        if kind == 1:
            return abs(gauss)
        if kind == 2:  # Student's t with three degrees of freedom
            return gauss / math.sqrt(sum(made.gauss(0, 1) ** 2 for _ in range(3)) / 3)
        if kind == 3:
            return -scale * math.log(1 - made.random())
        spike = math.log(made.uniform(1.1, 3.0)) if kind == 4 and made.random() < 0.05 else 0.0
        return gauss / 5 + spike

    count = made.choice([12, 16, 20, 25, 30, 45, 60, 100, 200])
    return rows_run([500.0, *(100 * math.exp(deviation()) for _ in range(count))])


def test_noise_is_no_change() -> None:
    told = [seed for seed in range(3000) if codes(stationary(seed))]
    assert len(told) <= 2


# --- what a change coincides with ------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [0.92, 1.2, 2.3])
def test_a_change_where_the_loss_is_lost_is_not_the_card(change: float) -> None:
    finding = only(lost_at(shifted(change), 10_000))
    assert finding.code == "level_shift_at_nan"
    assert finding.numbers["nan_iteration"] == 10_000
    assert codes(lost_at(shifted(change), 14_000)) != ["level_shift_at_nan"]


def test_one_at_a_restart_is_told_so() -> None:
    run = nanogpt_run(pace=lambda iteration: 2.0 if iteration >= 9000 else 1.0, restarts={9450: 9000})
    finding = only(run)
    assert finding.code == "level_shift_at_restart"
    assert finding.numbers["restart_iteration"] == 9000
    elsewhere = nanogpt_run(pace=lambda iteration: 2.0 if iteration >= 9000 else 1.0, restarts={15_450: 15_000})
    assert codes(elsewhere) == ["memory_spill"]


@pytest.mark.parametrize("change", [2.0, 0.5])
def test_a_larger_batch_is_no_slower_card(change: float) -> None:
    """The printed mfu stays as it is while the time doubles: twice the work."""
    run = nanogpt_run(pace=lambda iteration: change if iteration >= 10_000 else 1.0, mfu=None, eval_interval=0)
    rows = Rows([replace(row, mfu=0.31) for row in run.rows])
    finding = only(replace(run, rows=rows))
    assert finding.code == "level_shift_at_batch"
    assert finding.numbers["work_ratio"] == pytest.approx(change, rel=0.01)


def test_the_printed_mfu_of_a_slower_card_falls() -> None:
    assert codes(shifted(1.5)) == ["level_shift"]
    assert codes(shifted(2.0)) == ["memory_spill"]


def test_what_goes_away_was_no_full_memory() -> None:
    assert codes(nanogpt_run(pace=lambda iteration: 2.3 if 8000 <= iteration < 14_000 else 1.0)) == ["level_shift"] * 2


def test_a_smaller_micro_batch_is_told_elsewhere() -> None:
    smaller = MicroBatch(10_100, 8, 16, "step")
    assert codes(replace(shifted(1.2, 10_100), micro_batches=(smaller,))) == []


def test_a_slow_beginning_is_no_shift() -> None:
    run = nanogpt_run(2000, log_interval=10, pace=lambda iteration: 8.0 if iteration < 160 else 1.0)
    finding = only(run)
    assert finding.code == "slow_beginning"
    assert finding.numbers["iterations"] == 160
    assert finding.numbers["ratio"] == pytest.approx(8, rel=0.01)
    assert finding.numbers["lost_s"] == pytest.approx(160 * 7 * 0.169, rel=0.02)


def test_half_a_run_is_no_beginning() -> None:
    assert codes(shifted(0.5)) == ["level_shift"]


# --- what it cost ----------------------------------------------------------------------------------------------------


def test_a_shift_costs_its_change_as_long_as_it_lasts() -> None:
    def pace(iteration: int) -> float:
        return 1.1 if 4000 <= iteration < 6000 else 1.5 if 6000 <= iteration < 9000 else 1.0

    small, large, back = findings(nanogpt_run(pace=pace, noise=0.0))
    assert lost_s(small) == pytest.approx(5000 * 0.1 * 0.169, rel=0.05)  # also while it is slower still
    assert lost_s(large) == pytest.approx(3000 * 0.4 * 0.169, rel=0.05)
    assert lost_s(back) == 0


def test_many_shifts_are_one_sentence_and_the_gravest() -> None:
    def pace(iteration: int) -> float:
        return (1.0, 1.2, 1.0, 1.2, 1.1, 1.6)[min(5, iteration // 3000)]

    run = nanogpt_run(pace=pace)
    changes, gravest = findings(run)
    assert changes.code == "pace_changes"
    assert changes.numbers["changes"] == 5
    assert changes.numbers["slowest_ms"] == pytest.approx(1.6 * 169, rel=0.01)
    assert lost_s(changes) == pytest.approx(lost_to_levels_s(find_pace(run).step))
    assert (gravest.code, gravest.numbers["iteration"]) == ("level_shift", 15_100)  # the row of 15,000 evaluates


def test_on_a_cpu_all_shifts_are_one_finding() -> None:
    run = replace(shifted(1.5), facts=known({"device": "cpu"}))
    assert codes(run) == ["cpu_pace"]


def test_at_its_power_limit_a_card_still_loses_its_loss() -> None:
    run = replace(lost_at(shifted(1.06), 10_000), gpu_use=GpuUse(100, training_samples=100, at_power_limit=90))
    assert codes(run) == ["level_shift_at_nan"]


def test_a_restart_of_a_long_log_is_found_to_the_block() -> None:
    made = random.Random(1)
    times = [100 * (1.3 if index >= 6000 else 1.0) * (1 + made.gauss(0, 0.01)) for index in range(12_000)]
    rows = Rows([Row(index, ms) for index, ms in enumerate(times)])
    run = Run("train.log", "nanogpt", rows, restarts=(Restart(5990, 5990, 5989),))
    assert codes(run) == ["level_shift_at_restart"]


def test_times_of_zero_break_nothing() -> None:
    for times in ([0.0] * 12 + [5.0] * 12, [5.0] * 12 + [0.0] * 12, [0.0] * 50):
        assert all(math.isfinite(lost_s(finding)) for finding in findings(rows_run(times)))


def test_what_slower_levels_cost_in_seconds() -> None:
    step = find_pace(rows_run([100.0] * 20)).step
    levels = (Level(0, 999, 150.0), Level(1000, 2999, 100.0), Level(3000, 3999, 120.0))
    assert lost_to_levels_s(replace(step, levels=levels)) == pytest.approx(50 + 20)
