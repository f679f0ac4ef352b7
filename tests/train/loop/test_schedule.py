from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.config import TrainConfig
from nanopace.train.loop.schedule import learning_rate

CONFIG = TrainConfig(learning_rate=1.0, min_lr=0.1, warmup_iters=9, lr_decay_iters=109)


@pytest.mark.parametrize(
    ("step", "rate"), [(0, 0.1), (8, 0.9), (9, 1.0), (59, 0.55), (109, 0.1), (110, 0.1), (10_000, 0.1)]
)
def test_up_in_a_line_down_along_a_cosine(step: int, rate: float) -> None:
    assert learning_rate(CONFIG, step) == pytest.approx(rate)


def test_no_decay_no_change() -> None:
    assert learning_rate(TrainConfig(decay_lr=False, learning_rate=0.5), 0) == 0.5


def test_a_warm_up_as_long_as_the_decay() -> None:
    config = TrainConfig(learning_rate=1.0, min_lr=0.1, warmup_iters=10, lr_decay_iters=10)
    assert learning_rate(config, 10) == 0.1


# --- recipe=fast -----------------------------------------------------------------------------------------------------

TRAPEZOID = TrainConfig(recipe="fast", learning_rate=1.0, min_lr=0.1, warmup_iters=4, max_iters=99, cooldown=0.4)


@pytest.mark.parametrize(
    ("step", "rate"), [(0, 0.28), (3, 0.82), (4, 1.0), (60, 1.0), (80, 0.55), (99, 0.1225), (100, 0.1), (10_000, 0.1)]
)
def test_up_in_a_line_and_down_in_a_line_at_the_end(step: int, rate: float) -> None:
    assert learning_rate(TRAPEZOID, step) == pytest.approx(rate)


def test_without_the_trapezoid_it_is_the_cosine() -> None:
    cosine = TrainConfig(
        recipe="fast", without="trapezoid", learning_rate=1.0, min_lr=0.1, warmup_iters=9, lr_decay_iters=109
    )
    assert [learning_rate(cosine, step) for step in range(120)] == [learning_rate(CONFIG, step) for step in range(120)]


@given(
    warmup=st.integers(0, 300),
    steps=st.integers(0, 1000),
    cooldown=st.floats(0, 0.99),
    lowest=st.floats(0, 1),
)
def test_a_trapezoid_stays_between_its_bounds(warmup: int, steps: int, cooldown: float, lowest: float) -> None:
    """Never above the peak or below the end, never falling before the rise is over; and the last step still learns."""
    config = TrainConfig(
        recipe="fast", learning_rate=1.0, min_lr=lowest, warmup_iters=warmup, max_iters=steps, cooldown=cooldown
    )
    rates = [learning_rate(config, step) for step in range(steps + 1)]
    assert all(lowest <= each <= 1.0 for each in rates)
    assert rates[-1] > lowest or lowest > 0.99  # where rounding hides it
    turned = rates.index(max(rates))
    assert rates[: turned + 1] == sorted(rates[: turned + 1])
    assert rates[turned:] == sorted(rates[turned:], reverse=True)
