from __future__ import annotations

import math
import random
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.train.loop.loss_watch import SCALE_STREAK, SPIKE_Z, STREAK, Verdict, Watch


def power_law(steps: int, noise: float, exponent: float, seed: int) -> list[float]:
    """Falls like a training loss: fast at first, then more and more slowly."""
    rng = random.Random(seed)
    return [3 + 8 * (1 + step / 5) ** -exponent + rng.gauss(0, noise) for step in range(steps)]


def verdicts(losses: list[float], watch: Watch | None = None) -> list[Verdict]:
    watch = watch or Watch()
    return [watch.judge(step, loss, 1.0) for step, loss in enumerate(losses)]


@pytest.mark.parametrize(("noise", "exponent"), [(0.003, 0.5), (0.03, 0.1), (0.03, 1.5), (0.2, 0.5)])
def test_a_normal_run_raises_no_alarm(noise: float, exponent: float) -> None:
    assert not any(verdict.spike for verdict in verdicts(power_law(10_000, noise, exponent, seed=1)))


@pytest.mark.parametrize("at", [40, 150, 3000])
def test_a_spike_is_seen_with_about_its_size(at: int) -> None:
    losses = power_law(4000, 0.02, 0.5, seed=2)
    losses[at] += 12 * 0.02 + (3.0 if at == 40 else 0)  # at the beginning the fall is part of what is around
    told = verdicts(losses)
    assert [step for step, verdict in enumerate(told) if verdict.spike] == [at]
    if at > 1000:
        assert told[at].spike == pytest.approx(12, rel=0.35)


def test_a_spike_does_not_hide_the_next_and_a_new_level_is_no_spike_for_ever() -> None:
    losses = power_law(2000, 0.02, 0.5, seed=3)
    for at in (1000, 1001, 1010, 1020):
        losses[at] += 0.5
    for at in range(1500, 2000):
        losses[at] += 0.5
    flagged = [step for step, verdict in enumerate(verdicts(losses)) if verdict.spike]
    assert {1000, 1001, 1010, 1020, 1500, 1501} <= set(flagged)
    assert max(flagged) < 1510


def test_a_text_learned_by_heart_is_no_noise() -> None:
    """Then there is hardly any deviation left, and rounding is not a spike."""
    assert not any(verdict.spike for verdict in verdicts([0.5 + 1e-5 * (step % 7 == 0) for step in range(500)]))


@given(st.lists(st.floats(0, 20), min_size=31, max_size=300), st.floats(0.1, 10), st.floats(-5, 5))
def test_it_says_the_same_in_every_unit_and_only_of_what_lies_above(
    losses: list[float], scale: float, shift: float
) -> None:
    """A spike is above the usual level: above the median of the last losses by at least SPIKE_Z deviations."""
    for step, verdict in enumerate(verdicts(losses)):
        if verdict.spike is not None:
            assert verdict.spike >= SPIKE_Z
            assert losses[step] > statistics.median(losses[max(0, step - 11) : step])
    scaled = verdicts([loss * 2.0 ** round(scale) for loss in losses])
    assert [each.spike for each in scaled] == pytest.approx([each.spike for each in verdicts(losses)])
    falling = sorted((loss + shift for loss in losses), reverse=True)
    assert not any(verdict.spike for verdict in verdicts(falling))


@pytest.mark.parametrize(("loss", "norm"), [(math.nan, math.nan), (math.inf, 1.0), (2.0, math.nan), (2.0, math.inf)])
def test_what_is_not_finite_is_counted(loss: float, norm: float) -> None:
    watch = Watch()
    told = [watch.judge(step, *(2.0, 1.0) if step < 4 else (loss, norm)) for step in range(4 + STREAK)]
    assert [verdict.skipped for verdict in told] == [False] * 4 + [True] * STREAK
    assert [verdict.first for verdict in told] == [False] * 4 + [True] + [False] * (STREAK - 1)
    assert (watch.skipped, watch.streak, watch.failed_at) == (STREAK, STREAK, 3 + STREAK)
    assert [each.iteration for each in watch.last] == list(range(4 + STREAK))


def test_a_finite_step_ends_a_streak() -> None:
    watch = Watch()
    for step, loss in enumerate([math.nan] * (STREAK - 1) + [2.0] + [math.nan] * (STREAK - 1)):
        watch.judge(step, loss, 1.0)
    assert watch.failed_at is None
    assert watch.skipped == 2 * STREAK - 2


def test_a_scale_that_is_too_high_is_no_fault_but_not_for_ever() -> None:
    watch = Watch(scaled=True)
    told = [watch.judge(step, 2.0, math.inf).skipped for step in range(SCALE_STREAK + 2)]
    assert told == [False] * SCALE_STREAK + [True] * 2
    assert Watch(scaled=True).judge(0, math.nan, 1.0).skipped


def test_the_simulated_losses_are_like_a_run() -> None:
    """Otherwise the tests above would prove nothing."""
    losses = power_law(1000, 0.03, 0.5, seed=1)
    assert statistics.mean(losses[:10]) > statistics.mean(losses[-10:]) + 4
    assert 0.02 < statistics.pstdev(after - before for before, after in pairwise(losses[500:])) / math.sqrt(2) < 0.04
