"""The time left, and its 80% interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest

from nanopace import diagnose
from nanopace.diagnosis.result import Ahead
from nanopace.diagnosis.time.time_left import FLOOR, eta_interval, stretch_paces
from nanopace.record import replace
from nanopace.run import Run, Span

from ..odd_runs import ledger_run
from ..synthetic import known, nanogpt_run


def ahead(run: Run, max_iters: int) -> Ahead:
    return diagnose(replace(run, facts=known({"max_iters": max_iters}))).ahead


def some_run(
    iterations: int = 5000,
    pace: Callable[[int], float] = lambda _: 1.0,
    stalls: Mapping[int, float] | None = None,
    noise: float = 0.0,
) -> Run:
    return nanogpt_run(iterations, log_interval=10, eval_interval=250, pace=pace, stalls=stalls, noise=noise)


def test_evaluations_to_come_are_counted() -> None:
    """From 4,900 to 5,100 there is one; from 5,010 to 5,200 there is none. A mean cost would count part of one."""
    assert ahead(some_run(4900), 5100).eta_s == pytest.approx(200 * 0.169 + 5.14 + 0.47 * 4 / 19, rel=0.01)
    assert ahead(some_run(5010), 5200).eta_s == pytest.approx(190 * 0.169)


def test_a_steady_run_has_the_floor() -> None:
    found = ahead(some_run(), 10_000)
    assert found.eta_s is not None
    assert found.eta_low_s == pytest.approx(found.eta_s * math.exp(-FLOOR / 2), rel=0.01)
    assert found.eta_high_s == pytest.approx(found.eta_s * math.exp(FLOOR), rel=0.01)


def test_it_grows_with_what_is_left_and_shrinks_with_what_was_seen() -> None:
    def width(seen: int, left: int) -> float:
        found = ahead(some_run(seen), seen + left)
        return (found.eta_high_s - found.eta_low_s) / found.eta_s  # type: ignore[operator]

    assert width(5000, 20_000) > 1.3 * width(5000, 5000) > 1.3 * 1.3 * width(20_000, 5000)


def test_a_run_of_uneven_pace_is_less_sure() -> None:
    """It is slow now, and may stay so or return to its mean."""
    found = ahead(some_run(pace=lambda at: 1.3 if at // 1000 % 2 else 1.0), 10_000)
    assert found.eta_s is not None
    assert found.eta_low_s is not None
    assert found.eta_high_s is not None
    assert found.eta_low_s < 5000 * (1.13 * 0.169 + 5.14 / 250) < found.eta_high_s
    assert found.eta_low_s < found.eta_s < found.eta_high_s
    stalled = ahead(some_run(stalls={1110: 60_000, 3330: 40_000}), 10_000)
    assert stalled.eta_high_s > 1.1 * stalled.eta_s  # type: ignore[operator]


@pytest.mark.parametrize(("iterations", "known_"), [(500, False), (760, True), (5000, True)])
def test_too_little_was_seen_before_three_evaluation_intervals(iterations: int, known_: bool) -> None:
    found = ahead(some_run(iterations), 10_000)
    assert found.eta_s is not None
    assert (found.eta_low_s is not None) == (found.eta_high_s is not None) == known_


def test_some_trainers_count_to_one_less() -> None:
    """The last row of 20 is step 19: nothing is left, even if the log ends in an error."""
    run = replace(some_run(1000), stops_before_max_iters=True)
    last = run.rows.last_iteration[-1]
    assert ahead(run, last + 1).remaining_iterations == 0
    assert ahead(run, last + 11).remaining_iterations == 10
    assert ahead(replace(run, stops_before_max_iters=False), last + 1).remaining_iterations == 1


def test_nothing_is_left_or_no_end_is_known() -> None:
    assert ahead(some_run(), 5000).eta_low_s is None
    assert diagnose(some_run()).ahead.eta_high_s is None


@pytest.mark.parametrize("eta_s", [40.0, 100.0])
def test_the_interval_is_of_the_pace_now_and_of_the_mean(eta_s: float) -> None:
    """Stretches of 1, 1, 2 and 2 s per iteration: 40 more take 60 s at their mean."""
    low, high = eta_interval(eta_s, 40, [0, 10, 20, 30, 40], [9.0, 19.0, 29.0, 49.0, 69.0], 10)
    error = math.log(2) / math.sqrt(3) / 2 + FLOOR
    assert low == pytest.approx(min(eta_s, 60) * math.exp(-error / 2))
    assert high == pytest.approx(max(eta_s, 60) * math.exp(error))


def test_sleep_is_no_pace() -> None:
    run = replace(ledger_run(2), spans=(), restarts=(), rollbacks=())
    asleep = replace(run, spans=(Span("stall", 30, 9e6, reason="suspend"),))
    assert ahead(asleep, 400).eta_high_s == pytest.approx(ahead(run, 400).eta_high_s)


def test_stretches_are_whole_intervals_and_leave_out_the_start() -> None:
    iterations = list(range(0, 1001, 10))
    ends = [50 + 0.1 * at + 3 * (at // 300) for at in iterations]
    assert stretch_paces(iterations, ends, 300) == pytest.approx([0.11] * 3)
    assert len(stretch_paces(iterations, ends, None)) == 20
    assert stretch_paces(iterations[:2], ends[:2], None) == []
    assert eta_interval(9.0, 5, [0, 10, 20, 30], [1.0, 1.0, 1.0, 1.0], None) == (None, None)  # a clock that stood still
