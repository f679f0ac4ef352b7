from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace import open_runs
from nanopace.diagnosis.loss.loss_spikes import FEWEST, STANDS_OUT, deviation, loss_spikes
from nanopace.run import Row, Rows, Run

LOGS = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.log"))


def run_of(losses: Sequence[float]) -> Run:
    return Run("log", "nanogpt", Rows([Row(10 * n, 100.0, loss) for n, loss in enumerate(losses)]))


def curve(count: int, noise: float = 0.05, seed: int = 1) -> list[float]:
    """A loss as it falls from the start of a run."""
    rng = random.Random(seed)
    return [2.8 + 8 * (step + 5) ** -0.4 + rng.gauss(0, noise) for step in range(count)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1])
def test_a_run_that_only_falls_and_scatters_has_none(seed: int, noise: float) -> None:
    assert loss_spikes(run_of(curve(5000, noise, seed))) == ()


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.name)
def test_the_example_logs_have_none(log: Path) -> None:
    assert [loss_spikes(run) for run in open_runs(log)] == [()]


def test_one_that_rises_and_comes_back_is_one() -> None:
    losses = curve(400)
    for row, more in ((300, 1.0), (301, 0.9), (302, 0.5)):
        losses[row] += more
    (spike,) = loss_spikes(run_of(losses))
    assert (spike.iteration, spike.loss) == (3000, losses[300])
    assert 15 < spike.z < 25  # 1.0 is twenty times the noise


def test_two_are_two_although_the_first_is_among_the_rows_before_the_second() -> None:
    losses = curve(400)
    losses[300] += 1.0
    losses[340] += 0.6
    assert [spike.iteration for spike in loss_spikes(run_of(losses))] == [3000, 3400]


def test_at_the_very_start_nothing_can_be_told() -> None:
    losses = curve(400)
    losses[FEWEST - 1] += 5.0
    assert loss_spikes(run_of(losses)) == ()


def test_losses_that_are_none_are_passed_over() -> None:
    losses = curve(400)
    losses[100:110] = [float("inf")] * 5 + [float("nan")] * 5
    assert loss_spikes(run_of(losses)) == ()


def test_losses_around_zero_are_those_of_reinforcement_learning() -> None:
    """Most are 0 to three places, so any other stands out."""
    rng = random.Random(1)
    losses = [rng.choice((-0.0001, 0.0, 0.0001)) + 0.02 * (row % 60 == 59) for row in range(400)]
    assert loss_spikes(run_of([1 + loss for loss in losses]))  # as a cross-entropy, these would be spikes
    assert loss_spikes(run_of(losses)) == ()


def test_rows_that_stand_for_many_tell_nothing() -> None:
    losses = curve(200)
    losses[150] += 5.0
    rows = Rows([Row(10 * n, 100.0, loss, count=2, last_iteration=10 * n + 1) for n, loss in enumerate(losses)])
    assert loss_spikes(Run("log", "nanogpt", rows)) == ()


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=120), st.floats(-1e6, 1e6))
@settings(max_examples=200, deadline=None)
def test_a_loss_among_those_before_it_never_stands_out(before: list[float], loss: float) -> None:
    z = deviation(before, loss)
    assert z == z
    later = sorted(before[len(before) // 2 :])
    if loss <= later[len(later) // 2]:
        assert z < STANDS_OUT
