"""The micro-batch search, on machines simulated by formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nanopace.tune.divisors import divisors
from nanopace.tune.search.micro_batch_search import (
    WITHIN,
    Probe,
    candidates,
    cost,
    next_probe,
    pick,
    predicted_knee,
)

from ..h200 import PLAIN

Machine = Callable[[int], float]  # a micro-batch's sequences to the ms of a sequence


def searched(
    sequences: int,
    given: int,
    machine: Machine,
    *,
    predicted: float = math.inf,
    wall: float = math.inf,
    noise: float = 0,
) -> tuple[int | None, dict[int, Probe], list[int]]:
    allowed = candidates(sequences, lambda each: each <= predicted)
    tried: dict[int, Probe] = {}
    draw = Random(1)
    while (count := next_probe(allowed, given, tried)) is not None:
        assert count not in tried, "nothing is tried twice"
        full = min((each.sequences for each in tried.values() if not each.fits), default=math.inf)
        assert count < full, "nothing is tried beyond what did not fit"
        assert count == given or count <= predicted, "nor beyond the predicted wall"
        ms = machine(count) * sequences
        steps = tuple(ms * (1 + noise * draw.gauss()) for _ in range(8))
        tried[count] = Probe(count, steps if count <= wall else ())
    return pick(tried), tried, allowed


def best_of(machine: Machine, allowed: list[int], wall: float = math.inf) -> float:
    return min(machine(each) for each in allowed if each <= wall)


STEPS = st.sampled_from([8, 12, 64, 96, 480, 512, 720, 1024])


@given(STEPS, st.floats(0.0, 50.0), st.floats(0.1, 10.0), st.data())
def test_on_a_machine_with_fixed_costs_it_finds_the_knee_exactly(
    sequences: int, fixed: float, each: float, data: st.DataObject
) -> None:
    """t = a + b B: the smallest within 2% of the best, which is the largest; in a few probes."""
    start = data.draw(st.sampled_from(divisors(sequences)))

    def machine(count: int) -> float:
        return each + fixed / count

    found, tried, allowed = searched(sequences, start, machine)
    best = best_of(machine, allowed)
    assert found == next(count for count in allowed if best >= machine(count) * (1 - WITHIN))
    assert len(tried) <= 4 + math.ceil(math.log2(len(allowed)))
    line = cost(tried, sequences)
    if line is not None:
        assert line.fixed_ms == pytest.approx(fixed, rel=1e-4, abs=1e-4)
        assert line.marginal_ms == pytest.approx(each, rel=1e-4)


@given(STEPS, st.floats(0.0, 50.0), st.floats(0.1, 10.0), st.floats(0.0, 0.5), st.data())
def test_where_large_ones_are_slow_again_it_finds_the_maximum(
    sequences: int, fixed: float, each: float, spill: float, data: st.DataObject
) -> None:
    start = data.draw(st.sampled_from(divisors(sequences)))

    def machine(count: int) -> float:
        return each + fixed / count + spill * each * count

    found, tried, allowed = searched(sequences, start, machine)
    assert found is not None
    assert machine(found) <= best_of(machine, allowed) / (1 - WITHIN) ** 2
    assert len(tried) <= 3 + 2 * math.ceil(math.log2(len(allowed)))


def test_the_maximum_between_two_fast_ones_is_not_passed_over() -> None:
    """60 lies between 48 and 72, and 45 is as fast as they are: it was never tried."""
    found, tried, _ = searched(720, 1, lambda count: 0.1 + 35 / count + 0.01 * count)
    assert (found, 60 in tried) == (60, True)


def test_where_the_line_ends_it_is_not_gone_back_along_step_by_step() -> None:
    """720 is slow; the line through 12, 24 and 48 keeps predicting one large size after another."""
    found, tried, _ = searched(720, 12, lambda count: 0.8 + 20 / count + 0.003 * count)
    assert found in (60, 72)
    assert not {360, 240} <= tried.keys()
    assert len(tried) < 13


@given(STEPS, st.floats(0.0, 50.0), st.integers(1, 1024), st.integers(1, 1024), st.data())
def test_a_wall_is_never_touched_twice(
    sequences: int, fixed: float, predicted: int, wall: int, data: st.DataObject
) -> None:
    """Whether the prediction is too high or too low; only the given size may be beyond it."""
    start = data.draw(st.sampled_from(divisors(sequences)))

    def machine(count: int) -> float:
        return 1 + fixed / count

    found, tried, allowed = searched(sequences, start, machine, predicted=predicted, wall=wall)
    assume(allowed)
    assert found is not None
    reachable = [count for count in {*allowed, *tried} if count <= wall]
    assert found in reachable
    if start <= predicted:
        assert machine(found) <= best_of(machine, allowed, wall) / (1 - WITHIN) * (1 + 1e-9)


@given(STEPS, st.floats(0.1, 20.0), st.data())
def test_steps_that_waver_cost_no_more_than_they_waver(sequences: int, fixed: float, data: st.DataObject) -> None:
    start = data.draw(st.sampled_from(divisors(sequences)))

    def machine(count: int) -> float:
        return 1 + fixed / count

    found, tried, allowed = searched(sequences, start, machine, noise=0.01)
    assert found is not None
    assert machine(found) <= best_of(machine, allowed) * 1.06
    assert len(tried) <= 3 + 2 * math.ceil(math.log2(len(allowed)))


def probes(machine: Machine, *counts: int) -> dict[int, Probe]:
    return {each: Probe(each, (machine(each),)) for each in counts}


def test_the_line_through_three_predicts_the_knee_and_one_trial_confirms_it() -> None:
    def machine(count: int) -> float:
        return 0.9 + 0.4 / count

    tried = probes(machine, 12, 480, 48)
    knee = next(each for each in divisors(480) if machine(480) >= machine(each) * (1 - WITHIN))
    assert next_probe(divisors(480), 12, tried) == predicted_knee(divisors(480), tried) == knee == 30
    assert next_probe(divisors(480), 12, {**tried, **probes(machine, 30)}) is None
    assert pick({**tried, **probes(machine, 30)}) == 30


def test_a_knee_that_is_slower_than_predicted_is_not_taken() -> None:
    rates = {**PLAIN, 48: 600.9, 480: 625.9}  # as tune had measured them
    found, tried, _ = searched(480, 12, lambda count: 1 / rates[count])
    assert predicted_knee(divisors(480), {each: tried[each] for each in (12, 48, 480)}) == 60
    assert found == 120
    assert len(tried) <= 6


def test_a_lucky_trial_is_not_on_the_line() -> None:
    tried = probes(lambda count: (0.9 + 4 / count) * (0.9 if count == 48 else 1.0), 12, 24, 48, 120, 480)
    assert predicted_knee(divisors(480), tried) is None
    assert next_probe(divisors(480), 12, tried) is not None


def test_the_largest_may_be_slower_than_the_line_and_are_left_out() -> None:
    """As when layers are recomputed from some size on."""

    def machine(count: int) -> float:
        return (0.9 + 2 / count) * (1.15 if count > 120 else 1.0)

    tried = probes(machine, 12, 24, 48, 480)
    knee = predicted_knee(divisors(480), tried)
    assert knee is not None
    assert machine(knee) <= best_of(machine, divisors(480)) / (1 - WITHIN)
    assert (
        pick(probes(lambda count: 0.5 + 8 / count + 0.25 * count, 2, 3, 4, 6, 12)) == 6
    )  # slower, and yet the fastest


def test_the_answer_follows_from_what_was_tried() -> None:
    """So an interrupted search continues where it stopped."""
    assert divisors(12) == [1, 2, 3, 4, 6, 12]
    assert candidates(12, lambda each: each <= 5) == [1, 2, 3, 4]
    assert next_probe([1, 2, 4], 8, {}) == 8  # the given one, whatever is predicted
    full = {8: Probe(8, ())}
    assert next_probe([1, 2, 4], 8, full) is not None
    assert pick(full) is None
    assert cost(full, 8) is None
    assert pick({8: Probe(8, (1.0,))}) == 8
    even = {each: Probe(each, (100.0, 101.0)) for each in (1, 2, 4)}
    assert next_probe([1, 2, 4], 2, even) is None
    assert pick(even) == 1
    assert Probe(1, (100.0,)).error == 0
    assert Probe(1, (99.0, 100.0, 101.0)).error == pytest.approx(0.0107, abs=1e-3)
