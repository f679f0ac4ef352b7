from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nanopace.diagnosis.compare.align import Aligned, Curve, align


def curve(function: Callable[[float], float], start: int, stop: int, step: int, noise: float = 0.0) -> Curve:
    rng = random.Random(step)
    return Curve.through((x, function(x) + rng.gauss(0, noise)) for x in range(start, stop + 1, step))


def slow_start(x: float) -> float:
    return 2.0 + 60 * x**-0.5  # crosses the next one at x = 3600


def quick_start(x: float) -> float:
    return 2.5 + 30 * x**-0.5


def test_a_curve_keeps_what_is_known_and_rises() -> None:
    points = [(0.0, 11.0), (1.0, 5.0), (2.0, None), (None, 4.0), (1.0, 4.5), (3.0, math.nan), (4.0, 4.0)]
    assert Curve.through(points) == Curve((1.0, 4.0), (5.0, 4.0))


def test_between_two_evaluations() -> None:
    halves = Curve((1.0, 4.0, 16.0), (8.0, 6.0, 4.0))
    assert [halves.at(x) for x in (1, 2, 4, 8, 16)] == pytest.approx([8, 7, 6, 5, 4])


@pytest.mark.parametrize("before", [5e-324, 1e-300, 1.0, 1e6])
@pytest.mark.parametrize("after", [math.nextafter(1e6, math.inf), 1e6 + 2e-9, 2e6, 1e300])
def test_between_points_as_close_and_as_far_apart_as_floats_are(before: float, after: float) -> None:
    found = Curve.through([(before, 4.0), (after, 3.0)])
    if len(found.xs) == 2:
        for x in (math.nextafter(before, math.inf), (before + after) / 2):
            assert 3 <= found.at(x) <= 4
    else:
        assert found == Curve((before,), (4.0,))


def test_shared_points_are_not_interpolated() -> None:
    a, b = curve(slow_start, 500, 10_000, 500), curve(quick_start, 1000, 4500, 250)
    points = align(a, b).points
    assert [x for x, _, _ in points] == list(range(1000, 4501, 500))
    assert all(value == a.ys[a.xs.index(x)] for x, value, _ in points)


def test_without_shared_points_the_sparser_curve_is_exact() -> None:
    a, b = curve(slow_start, 500, 10_000, 500), curve(quick_start, 777, 9000, 1234)
    points = align(a, b).points
    assert [x for x, _, _ in points] == list(b.xs)
    assert [value for _, _, value in points] == list(b.ys)


def test_a_table_is_short_and_has_both_ends() -> None:
    points = align(curve(slow_start, 10, 10_000, 10), curve(quick_start, 10, 9000, 10)).points
    assert len(points) == 12
    assert (points[0][0], points[-1][0]) == (10, 9000)


@pytest.mark.parametrize("noise", [0.0, 0.005, 0.01])
def test_when_one_overtakes_the_other(noise: float) -> None:
    a, b = curve(quick_start, 250, 12_000, 250, noise), curve(slow_start, 300, 12_000, 300, noise)
    aligned = align(a, b)
    assert aligned.leader == "b"
    assert aligned.crossover == pytest.approx(3600, rel=0.02 if not noise else 0.2)


def test_a_lead_within_the_noise_is_none() -> None:
    a, b = curve(quick_start, 250, 12_000, 250, 0.01), curve(lambda x: quick_start(x) - 0.005, 300, 12_000, 300, 0.01)
    assert (align(a, b).leader, align(a, b).crossover) == ("tie", None)


def test_one_odd_evaluation_is_no_change_of_lead() -> None:
    better, worse = curve(slow_start, 500, 12_000, 500, 0.01), curve(lambda x: slow_start(x) + 0.2, 500, 12_000, 500)
    dipped = list(worse.ys)
    dipped[10] = better.ys[10] - 0.005  # barely ahead, once
    aligned = align(better, Curve(worse.xs, tuple(dipped)))
    assert (aligned.leader, aligned.crossover) == ("a", None)


def test_a_dip_within_the_noise_does_not_delay_the_change() -> None:
    a, b = curve(quick_start, 300, 12_000, 300, 0.01), curve(slow_start, 300, 12_000, 300, 0.01)
    late = list(b.ys)
    late[20] = a.ys[20] + 0.004  # at 6300, long after the crossing, behind by less than the noise
    assert align(a, Curve(b.xs, tuple(late))).crossover == align(a, b).crossover


@pytest.mark.parametrize("other", [Curve((), ()), Curve((20.0, 30.0), (3.0, 2.0))])
def test_nothing_in_common(other: Curve) -> None:
    assert align(Curve((1.0, 10.0), (5.0, 4.0)), other) == Aligned()


def test_a_single_evaluation_in_common() -> None:
    assert align(Curve((5.0,), (3.0,)), Curve((1.0, 5.0), (9.0, 4.0))) == Aligned(((5.0, 3.0, 4.0),), "a", None)


points = st.lists(st.tuples(st.floats(0.1, 1e9), st.floats(0, 12)), max_size=30).map(sorted)


@settings(max_examples=150, deadline=None)
@given(points, points)
@example(  # 1% of which loss?
    [(1.0, 4.0), (616397132.0, 3.375), (616417613.0, 0.0)], [(1.0, 3.875), (595359278.0, 4.0), (672783405.0, 2.0)]
)
def test_either_way_round(first: list[tuple[float, float]], second: list[tuple[float, float]]) -> None:
    a, b = Curve.through(first), Curve.through(second)
    there, back = align(a, b), align(b, a)
    assert back.leader == {"a": "b", "b": "a"}.get(there.leader or "", there.leader)
    assert back.crossover == (None if there.crossover is None else pytest.approx(there.crossover))
    assert len(there.points) <= 12
    assert align(a, a).leader in ("tie", None)


def test_a_bend_is_no_noise() -> None:
    """Eight evaluations of a smooth curve, as modded-nanogpt's have: what line misses is bend, not scatter."""
    xs = tuple(250.0 * k for k in range(1, 9))
    smooth = Curve(xs, tuple(3.0 + 60 * x**-0.6 for x in xs))
    assert smooth.noise is not None
    assert smooth.noise < 0.002, "lines between neighbours say 0.006"
    assert Curve(xs[:7], smooth.ys[:7]).noise is None, "too few to tell"
    scattered = Curve(xs, tuple(y + 0.03 * (-1) ** k for k, y in enumerate(smooth.ys)))
    assert scattered.noise is not None
    assert scattered.noise > 0.02
    ahead = Curve(xs, tuple(y - 0.02 for y in smooth.ys))
    assert align(smooth, ahead).leader == "b"
