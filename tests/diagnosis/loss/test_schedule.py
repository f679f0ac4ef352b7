from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.diagnosis.loss.schedule import Cosine, Trapezoid, cools_down, rate_left, schedule_of

from .evaluated import run_of

FAST = {"recipe": "fast", "max_iters": 2000, "cooldown": 0.5, "warmup_iters": 100}


def test_the_rate_rises_stays_and_falls() -> None:
    schedule = Trapezoid(1000, 100, 0.4)
    rates = [schedule.rate(t) for t in (0, 50, 100, 600, 700, 800, 1000, 1100)]
    assert rates == pytest.approx([0, 0.5, 1, 1, 0.75, 0.5, 0, 0])


@given(st.integers(10, 3000), st.integers(0, 300), st.floats(0.05, 0.8), st.floats(0, 1))
def test_the_sum_of_the_rates(end: int, rise: int, share: float, at: float) -> None:
    """Against the plain sum, from the end of the warm-up on."""
    rise = min(rise, int(end * (1 - share)))
    schedule = Trapezoid(end, rise, share)
    until = rise + round(at * (end - rise))
    plain = sum(schedule.rate(t + 0.5) for t in range(until))
    assert schedule.rates_until(until) == pytest.approx(plain, abs=0.5)


@pytest.mark.parametrize(
    ("facts", "known"),
    [
        (FAST, Trapezoid(2000, 100, 0.5)),
        (FAST | {"warmup_iters": 1500}, None),
        (FAST | {"without": "rope, trapezoid"}, None),
        (FAST | {"without": "rope"}, Trapezoid(2000, 100, 0.5)),
        (FAST | {"decay_lr": False}, None),
        (FAST | {"cooldown": 0}, None),
        (FAST | {"recipe": "gpt2"}, None),  # its rate follows a cosine, whatever the knob says
        (FAST | {"cooldown": 100}, None),  # a fork's knob of this name, in iterations
        ({"max_iters": 2000, "cooldown": 0.5}, None),
        ({"recipe": "fast", "cooldown": 0.5}, None),
        ({"recipe": "fast", "max_iters": 2000}, None),
    ],
)
def test_what_our_trainer_does(facts: dict[str, Any], known: Trapezoid | None) -> None:
    assert schedule_of(run_of([3.0], facts=facts)) == known


def test_what_another_trainer_does() -> None:
    facts = {"max_iters": 2000, "cooldown": 0.4}
    run = run_of([3.0], facts=facts, cools_down=True)
    assert cools_down(run)
    assert schedule_of(run) == Trapezoid(2000, 0, 0.4)
    assert cools_down(run_of([3.0], cools_down=True))
    assert schedule_of(run_of([3.0], facts={"max_iters": 2000}, cools_down=True)) is None
    assert not cools_down(run_of([3.0], facts=facts))
    assert not cools_down(run_of([3.0], facts={"recipe": "gpt2"}, cools_down=True))


def test_a_rate_that_never_falls_leaves_the_trend_as_it_is() -> None:
    assert cools_down(run_of([3.0], facts=FAST))
    assert not cools_down(run_of([3.0], facts=FAST | {"cooldown": 0}))
    assert not cools_down(run_of([3.0], facts=FAST | {"decay_lr": False}))


# --- cosines, and rates that are printed -----------------------------------------------------------------------------

COSINE = {"max_iters": 6000, "lr_decay_iters": 6000, "warmup_iters": 300, "learning_rate": 6e-4, "min_lr": 6e-5}


def printed(schedule: Any, until: int, every: int = 10, peak: float = 6e-4) -> tuple[tuple[int, float], ...]:
    return tuple((t, peak * schedule.rate(t)) for t in range(0, until + 1, every))


@given(st.integers(10, 3000), st.integers(0, 300), st.floats(0, 1), st.floats(0, 1))
def test_the_sum_of_the_rates_along_a_cosine(end: int, rise: int, low: float, at: float) -> None:
    rise = min(rise, end - 1)
    schedule = Cosine(end, rise, low)
    until = rise + round(at * (end - rise))
    plain = sum(schedule.rate(t + 0.5) for t in range(until))
    assert schedule.rates_until(until) == pytest.approx(plain, abs=0.5)


@pytest.mark.parametrize(
    ("facts", "known"),
    [
        (COSINE, Cosine(6000, 300, 0.1)),
        (COSINE | {"max_iters": 9000}, Cosine(6000, 300, 0.1)),
        (COSINE | {"recipe": "gpt2"}, Cosine(6000, 300, 0.1)),
        (COSINE | {"decay_lr": False}, None),
        (COSINE | {"warmup_iters": 6000}, None),
        (COSINE | {"min_lr": 6e-3}, None),
        ({name: value for name, value in COSINE.items() if name != "min_lr"}, None),
    ],
)
def test_nanogpts_settings(facts: dict[str, Any], known: Cosine | None) -> None:
    assert schedule_of(run_of([3.0], facts=facts)) == known


@pytest.mark.parametrize("low", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("until", [1200, 3000, 6000])
def test_a_cosine_is_recognised_by_the_rates(low: float, until: int) -> None:
    rates = printed(Cosine(6000, 300, low), until)
    found = schedule_of(run_of([3.0], facts={"max_iters": 6000}, rates=rates))
    assert isinstance(found, Cosine)
    assert found == pytest.approx((6000, 300, low), abs=1e-6)
    assert schedule_of(run_of([3.0], rates=rates)) is None, "where it ends is unknown"


@pytest.mark.parametrize(
    "schedule",
    [Trapezoid(6000, 300, 0.95), Trapezoid(6000, 300, 0.4), Cosine(5000, 300, 0.1), Cosine(9000, 300, 0.0)],
)
def test_no_other_schedule_is_taken_for_a_cosine(schedule: Any) -> None:
    """Not even a line, early on, or a cosine to another end."""
    for until in (1500, 4000, 5900):
        run = run_of([3.0], facts={"max_iters": 6000}, rates=printed(schedule, until))
        found = schedule_of(run)
        assert found is None or found.rate(until) == pytest.approx(schedule.rate(until), abs=0.01)
        if schedule.rate(until) < 0.9:
            assert found is None


def test_rates_in_a_warm_up_tell_nothing_and_none_raise() -> None:
    for rates in [((0, 1e-4), (10, 2e-4)), ((0, 0.0), (10, 0.0)), ((5, 1e-3),), ((0, 1.0), (10**12, 1.0))]:
        run = run_of([3.0], facts={"max_iters": 10**12}, rates=rates)
        schedule = schedule_of(run)
        assert schedule is None or isinstance(schedule, Cosine)
        assert 0 <= rate_left(run, 500, 1000) <= 1


def test_what_is_left_of_the_rate() -> None:
    assert rate_left(run_of([3.0]), 500, 5000) == 1.0, "nothing is known"
    run = run_of([3.0], facts=COSINE)
    assert rate_left(run, 1000, 1500) == pytest.approx(0.93, abs=0.01)
    assert rate_left(run, 3000, 6000) == pytest.approx(0.18, abs=0.01)
    constant = run_of([3.0], rates=((0, 1e-5), (100, 1e-3), (5000, 1e-3)))
    assert rate_left(constant, 5000, 10_000) == 1.0
    falling = run_of([3.0], rates=printed(Trapezoid(10_000, 0, 1.0), 1000))  # Hugging Face's line, without its end
    assert rate_left(falling, 1000, 1500) == pytest.approx(0.86, abs=0.01), "at least this much"
    assert rate_left(falling, 1000, 2000) == pytest.approx(0.67, abs=0.01)
    over = run_of([3.0], rates=printed(Trapezoid(1000, 0, 1.0), 1000))
    assert rate_left(over, 1000, 1500) == 0.0
