"""How much slower a run is, and how certain that is: on simulated runs with a known truth, and as properties."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.diagnosis.compare.gate import Limits, judge
from nanopace.diagnosis.compare.slowdown import (
    BETWEEN_RUNS,
    LEAST_ROWS,
    STRETCHES,
    T99,
    Sample,
    Slowdown,
    _standard_error,
    rows_enough,
    sample,
    slowdown,
)
from nanopace.diagnosis.time.rows import find_pace
from nanopace.run import Row, Rows, Run

from ..synthetic import rows_run

Shape = Callable[[float], float]


def flat(_: float) -> float:
    return 0.0


def times(
    rng: random.Random, rows: int = 100, *, noise: float = 0.005, alike: float = 0.0, shape: Shape = flat
) -> list[float]:
    """Steps of 100 ms after a start-up. `alike`: correlation of neighbouring rows; `shape`: a function of progress."""
    made, state = [500.0], rng.gauss(0, 1)
    for row in range(rows):
        made.append(round(100 * math.exp(noise * state + shape(row / rows)), 2))
        state = alike * state + math.sqrt(1 - alike**2) * rng.gauss(0, 1)
    return made


def of(run: Run) -> Sample:
    return sample(run, find_pace(run))


def against(new: Sequence[float], base: Sequence[float]) -> Slowdown:
    found = slowdown(of(rows_run(new)), of(rows_run(base)))
    assert found is not None
    return found


def answers(pairs: int, slower: float, *, seed: int = 1, **how: object) -> Counter[str]:
    """What `--slower 1%` answers for many pairs in which the new run is slower by a given amount."""
    rng = random.Random(seed)
    counted: Counter[str] = Counter()
    for _ in range(pairs):
        base, new = (rows_run(times(rng, **how)) for _ in range(2))  # type: ignore[arg-type]
        of_new = of(new)
        of_new = of_new._replace(log_ms=[each + math.log1p(slower) for each in of_new.log_ms])
        counted[judge((new, of_new), (base, of(base)), Limits(slower=0.01), None).answer] += 1
    return counted


# --- operating characteristics ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("untraced")
@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        {"rows": 50},
        {"rows": 200, "alike": 0.5},
        {"rows": 100, "shape": lambda at: 0.03 * at},
        {"rows": 100, "shape": lambda at: 0.3 * (at > 0.4)},
    ],
    ids=["50 rows", "neighbours alike", "both drift", "both jump"],
)
def test_one_per_cent_is_found_and_none_is_invented(how: dict[str, object]) -> None:
    """The bar: at 0.5% noise, 95 of 100 are found, and at most one of 100 equally fast runs is called slower."""
    found, same = answers(100, 0.01, **how), answers(100, 0.0, seed=2, **how)
    assert found["failed"] >= 95
    assert found["passed"] == 0
    assert same["failed"] <= 1
    assert same["passed"] >= 95


@pytest.mark.usefixtures("untraced")
@pytest.mark.slow
@pytest.mark.parametrize(("noise", "alike"), [(0.005, 0.9), (0.02, 0.95), (0.03, 0.0)])
def test_what_is_too_noisy_cannot_be_told(noise: float, alike: float) -> None:
    """Neither a false alarm nor a false pass, whatever the kind of noise."""
    found, same = (answers(100, slower, rows=150, noise=noise, alike=alike) for slower in (0.01, 0.0))
    assert found["passed"] <= 2
    assert same["failed"] <= 2
    assert min(found["unknown"], same["unknown"]) >= 30


@pytest.mark.usefixtures("untraced")
@pytest.mark.slow
def test_as_many_rows_as_are_asked_for_are_enough() -> None:
    rng = random.Random(4)
    told = []
    for _ in range(20):
        base, new = (times(rng, 60, noise=0.015) for _ in range(2))
        enough = rows_enough(against(new, base), math.log1p(0.01) / 2)
        assert enough is not None
        base, new = (times(rng, enough, noise=0.015) for _ in range(2))
        found = against(new, base)
        told.append(found.high_share < 0.01 or found.low_share > 0)
    assert sum(told) >= 18


@pytest.mark.usefixtures("untraced")
def test_the_interval_is_students() -> None:
    """For white noise, in addition to run-to-run noise: t with 19 degrees of freedom times the error of a mean."""
    rng = random.Random(5)
    errors = []
    for _ in range(40):
        found = against(times(rng, 400), times(rng, 400))
        errors.append(found.error_share)
        half = math.log1p(found.high_share) - math.log1p(found.change_share)
        freedom = int(found.effective_stretches) - 1
        assert half == pytest.approx(
            math.hypot(T99[freedom - 2] * found.error_share, BETWEEN_RUNS) + found.rounding_share
        )
    assert sum(errors) / len(errors) == pytest.approx(0.005 * math.sqrt(2 / 400), rel=0.15)


@pytest.mark.parametrize("freedom", range(2, STRETCHES))
def test_half_of_an_interval_of_99_per_cent(freedom: int) -> None:
    """Sums the density over many small steps, from 0 to the table's value."""
    assert len(T99) == STRETCHES - 2
    scale = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)
    width = T99[freedom - 2] / 1000
    within = sum((1 + ((step + 0.5) * width) ** 2 / freedom) ** (-(freedom + 1) / 2) for step in range(1000))
    assert 2 * scale * within * width == pytest.approx(0.99, abs=1e-4)


def test_the_error_of_a_mean() -> None:
    """Alternating values all count; constant ones count as only three."""
    assert _standard_error([1.0, -1.0] * 10) == (pytest.approx(math.sqrt(20 / 19 / 20)), 20.0)
    assert _standard_error([1.0] * 10 + [-1.0] * 10) == (pytest.approx(math.sqrt(20 / 19 / 3)), 3.0)
    pairs = [1.0, 1.0, -1.0, -1.0] * 5  # 10 of 19 neighbours are equal, 9 are not
    alike = 1 / 20 + (1 + 3 / 20) / 20
    assert _standard_error(pairs)[1] == pytest.approx(20 * (1 - alike) / (1 + alike))


# --- what is held against what ---------------------------------------------------------------------------------------


def test_iterations_that_both_have_are_compared() -> None:
    """The base continues and gets slower; the new run is like its beginning."""
    rng = random.Random(6)
    base = times(rng, 400, noise=0.001, shape=lambda at: 0.1 * at)
    new = times(rng, 100, noise=0.001, shape=lambda at: 0.025 * at)
    found = against(new, base)
    assert found.change_share == pytest.approx(0, abs=0.001)
    assert (found.new_rows, found.base_rows) == (100, 100)


def test_rows_at_other_intervals() -> None:
    """Each row of the run with fewer rows is compared with all of the other's rows around it."""
    rng = random.Random(7)
    new = rows_run(times(rng, 100, shape=lambda at: 0.05 * at), log_interval=50)
    base = rows_run(times(rng, 500, shape=lambda at: 0.05 * at), log_interval=10)
    for found in (slowdown(of(new), of(base)), slowdown(of(base), of(new))):
        assert found is not None
        assert sorted((found.new_rows, found.base_rows)) == [100, 500]
        assert found.change_share == pytest.approx(0, abs=0.002)
        assert found.error_share < 0.9 * 0.005 * math.sqrt(2 / 100)  # all the rows count


def test_runs_of_very_different_length_are_compared_by_their_shares() -> None:
    rng = random.Random(8)
    new = rows_run(times(rng, 100, shape=lambda at: 0.05 * at), log_interval=1)
    base = rows_run(times(rng, 100, shape=lambda at: 0.05 * at), log_interval=100)
    found = slowdown(of(new), of(base))
    assert found is not None
    assert (found.new_rows, found.base_rows) == (100, 100)
    assert found.change_share == pytest.approx(0, abs=0.002)


def test_a_log_that_begins_later_counts_from_its_own_beginning() -> None:
    rng = random.Random(9)
    base = rows_run(times(rng))
    later = replace(
        base, rows=Rows([replace(row, iteration=row.iteration + 7003, last_iteration=-1) for row in base.rows])
    )
    found = slowdown(of(later), of(base))
    assert found is not None
    assert (found.change_share, found.new_rows) == (pytest.approx(0, abs=1e-12), 100)


def test_per_token() -> None:
    rng = random.Random(10)
    base, new = of(rows_run(times(rng))), of(rows_run([2.02 * ms for ms in times(rng)]))
    found = slowdown(new, base, tokens_ratio=2.0)
    assert found is not None
    assert found.change_share == pytest.approx(0.01, abs=0.003)
    assert found.new_ms == pytest.approx(202, rel=0.003)  # per step
    assert found.lowest_share < found.change_share < found.highest_share < 0.02


def test_folded_rows_count_as_many() -> None:
    rng = random.Random(11)
    rows = [Row(10 * i, ms, count=50, last_iteration=10 * i + 9, sum_ms=50 * ms) for i, ms in enumerate(times(rng))]
    run = Run("x", "nanogpt", Rows(rows))
    found = slowdown(of(run), of(run))
    assert found is not None
    assert (found.new_rows, found.base_rows) == (5000, 5000)
    one = Sample([float(i) for i in range(100)], [4.6] * 100, [1] * 50 + [10**6] + [1] * 49, 0.0)
    assert slowdown(one, one) is None  # one row stands for nearly all: it has no noise


@pytest.mark.parametrize("rows", [0, 1, LEAST_ROWS - 1])
def test_few_rows_tell_nothing(rows: int) -> None:
    few, many = of(rows_run(times(random.Random(1), rows))), of(rows_run(times(random.Random(2), 100)))
    assert slowdown(few, many) is None
    assert slowdown(many, few) is None
    assert slowdown(of(rows_run(times(random.Random(3), LEAST_ROWS))), many) is not None


def test_no_plain_row_is_no_sample() -> None:
    run = rows_run([500.0, *[100.0] * 50], evaluated=range(51))
    assert of(run).place == []


def test_times_of_nought_have_no_digits() -> None:
    assert of(rows_run([0.0] * 50)).rounding == 0.0


# --- noise, levels, drift and digits ---------------------------------------------------------------------------------


def test_slow_rows_and_outliers_do_not_count() -> None:
    rng = random.Random(12)
    base, new = times(rng, 200), times(rng, 200)
    held_up = [ms * (5 if i % 20 == 7 else 1.2 if i % 25 == 3 else 1) for i, ms in enumerate(new)]
    plain, disturbed = against(new, base), against(held_up, base)
    assert disturbed.new_rows == 190
    assert disturbed.change_share == pytest.approx(
        plain.change_share, abs=0.0012
    )  # 4% of the rows, 1.75% each and not 20%
    assert disturbed.change_share > plain.change_share


def test_outliers_come_in_clusters() -> None:
    """Three in a row, at different places in both runs: they would distort a median of few neighbours."""
    rng = random.Random(19)
    base, new = times(rng, 200, noise=0.001), times(rng, 200, noise=0.001)
    base = [ms * (1.1 if i % 20 in (7, 8, 9) else 1) for i, ms in enumerate(base)]
    new = [ms * (1.1 if i % 25 in (3, 4, 5) else 1) for i, ms in enumerate(new)]
    found = against(new, base)
    assert found.steady
    assert found.change_share == pytest.approx(0, abs=0.002)
    assert found.high_share < 0.008


def test_a_change_with_levels_spans_them() -> None:
    rng = random.Random(13)
    base = times(rng, 200)
    for low, high, slower in ((0.0, 0.05, False), (0.10, 0.15, True)):
        new = times(rng, 200, shape=lambda at, low=low, high=high: high if at > 0.5 else low)  # type: ignore[misc]
        found = against(new, base)
        assert not found.steady
        assert math.log1p(found.low_share) == pytest.approx(low - 0.004, abs=0.002)
        assert math.log1p(found.high_share) == pytest.approx(high + 0.004, abs=0.002)
        assert (found.low_share > 0) == slower
        assert rows_enough(found, 1.0) is None


def test_a_change_that_drifts_spans_its_drift() -> None:
    rng = random.Random(14)
    found = against(times(rng, 400, noise=0.001, shape=lambda at: 0.05 * at), times(rng, 400, noise=0.001))
    assert not found.steady
    assert found.low_share == pytest.approx(-0.003, abs=0.002)
    assert found.high_share == pytest.approx(0.053, abs=0.003)
    assert found.lowest_share < 0.004 < 0.045 < found.highest_share


def test_neighbours_that_are_alike_count_as_fewer() -> None:
    rng = random.Random(15)
    white, alike = [], []
    for _ in range(10):
        white.append(against(times(rng, 200), times(rng, 200)))
        alike.append(against(times(rng, 200, alike=0.98), times(rng, 200, alike=0.98)))
    assert sum(each.effective_stretches for each in white) / 10 > 15
    assert sum(each.effective_stretches for each in alike) / 10 < 5
    assert not any(each.wanders for each in white)
    assert sum(each.wanders for each in alike) >= 5


@pytest.mark.parametrize(
    ("base_ms", "noise_ms", "digit", "rounding"),
    [
        (100.2, 0.0, 1.0, 0.005),  # all are printed as 100
        (100.27, 0.0, 0.1, 0.0005),  # 100.3
        (100.0, 0.1, 1.0, 0.005),
        (100.45, 0.5, 1.0, 0.0),  # scatters over several
        (100.0, 0.5, 0.01, 0.0),
    ],
)
def test_too_few_digits(base_ms: float, noise_ms: float, digit: float, rounding: float) -> None:
    rng = random.Random(16)
    printed = [500.0, *(round(rng.gauss(base_ms, noise_ms) / digit) * digit for _ in range(200))]
    assert of(rows_run(printed)).rounding == pytest.approx(rounding, rel=0.01, abs=0.0003)
    found = against(printed, printed)
    assert found.high_share == pytest.approx(2 * rounding + BETWEEN_RUNS, abs=0.0007)
    assert (rows_enough(found, math.log1p(0.005)) is None) == (rounding > 0.001)


def test_rows_enough() -> None:
    found = against(times(random.Random(17)), times(random.Random(18)))
    quarter = replace(found, error_share=0.004, rounding_share=0.0, new_rows=100, base_rows=300)
    assert rows_enough(quarter, BETWEEN_RUNS) is None
    room = math.sqrt(0.005**2 - BETWEEN_RUNS**2)
    assert rows_enough(quarter, 0.005) == pytest.approx(1.6 * 100 * (2.86 * 0.004 / room) ** 2, rel=0.02)
    assert rows_enough(quarter, 1.0) == 150  # advising fewer than there are would be useless


# --- properties ------------------------------------------------------------------------------------------------------

ms = st.floats(90, 120).map(lambda each: round(each, 2))
logs = st.lists(ms, min_size=LEAST_ROWS + 1, max_size=80)


@given(logs, logs, st.floats(0.5, 2.0))
def test_the_other_way_round_and_at_another_speed(a: list[float], b: list[float], factor: float) -> None:
    """Swapping the runs reverses the change; a faster card does not alter it; a slower new run shifts it."""
    new, base = of(rows_run(a)), of(rows_run(b))
    found = slowdown(new, base)
    if found is None:
        return
    assert found.low_share <= found.change_share <= found.high_share
    turned = slowdown(base, new)
    assert turned is not None
    assert (1 + turned.change_share) * (1 + found.change_share) == pytest.approx(1)
    assert (1 + turned.low_share) * (1 + found.high_share) == pytest.approx(1)
    shifted = slowdown(new._replace(log_ms=[each + math.log(factor) for each in new.log_ms]), base)
    assert shifted is not None
    for name in ("change_share", "low_share", "high_share"):
        assert 1 + getattr(shifted, name) == pytest.approx(factor * (1 + getattr(found, name)), rel=1e-6)


odd = st.one_of(st.floats(0, 1e12), st.sampled_from([0.0, 5e-324, 1e-9, 100.0, 100.00000001]))


@given(st.lists(odd, max_size=60), st.lists(odd, max_size=60))
def test_no_time_is_too_odd(a: list[float], b: list[float]) -> None:
    new, base = rows_run(a), rows_run(b)
    gate = judge((new, of(new)), (base, of(base)), Limits(slower=0.01, max_step_ratio=1.05), None)
    assert gate.answer in ("passed", "failed", "unknown")


@given(
    st.lists(st.floats(-20, 709), min_size=LEAST_ROWS, max_size=60),
    st.lists(st.integers(0, 5), min_size=60, max_size=60),
    st.lists(st.integers(1, 10**9), min_size=60, max_size=60),
)
def test_no_sample_is_too_odd(logs: list[float], distances: list[int], weights: list[int]) -> None:
    """Times as far apart as floats can be, repeated iterations, rows that stand for a billion."""
    places = [float(each) for each in accumulate(distances[: len(logs)])]
    odd, even = Sample(places, logs, weights[: len(logs)], 0.0), Sample(places, [0.0] * len(logs), [1] * len(logs), 0.5)
    for found in (slowdown(odd, even), slowdown(even, odd), slowdown(odd, odd)):
        assert found is None or -1 < found.low_share <= found.change_share <= found.high_share < math.inf
