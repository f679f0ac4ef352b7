from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.diagnosis.loss.trapezoid import Trapezoid, cools_down, trapezoid_of

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
    assert trapezoid_of(run_of([3.0], facts=facts)) == known


def test_what_another_trainer_does() -> None:
    facts = {"max_iters": 2000, "cooldown": 0.4}
    run = run_of([3.0], facts=facts, cools_down=True)
    assert cools_down(run)
    assert trapezoid_of(run) == Trapezoid(2000, 0, 0.4)
    assert cools_down(run_of([3.0], cools_down=True))
    assert trapezoid_of(run_of([3.0], facts={"max_iters": 2000}, cools_down=True)) is None
    assert not cools_down(run_of([3.0], facts=facts))
    assert not cools_down(run_of([3.0], facts={"recipe": "gpt2"}, cools_down=True))


def test_a_rate_that_never_falls_leaves_the_trend_as_it_is() -> None:
    assert cools_down(run_of([3.0], facts=FAST))
    assert not cools_down(run_of([3.0], facts=FAST | {"cooldown": 0}))
    assert not cools_down(run_of([3.0], facts=FAST | {"decay_lr": False}))
