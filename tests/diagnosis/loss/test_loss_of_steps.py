"""Training losses that are means of past steps: they lag behind, and include dropout."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from nanopace.diagnosis.loss.losses import describe_loss
from nanopace.record import replace
from nanopace.run import Evaluation, Row, Rows, Run

from .test_losses import codes, run_of


def lagging(train_steps: int | None, last: int = 4000) -> Run:
    """A run whose loss falls quickly, without fitting its training data better, as our trainer reports it."""

    def at(iteration: int) -> float:
        return 2.5 + 300 * iteration**-0.7

    evaluations = [
        Evaluation(
            end,
            sum(at(iteration) for iteration in range(end - 499, end + 1)) / 500 - 0.1,
            at(end),
            val_error=0.001 * end,
            train_steps=train_steps,
        )
        for end in range(500, last + 1, 500)
    ]
    return Run("log", "ledger", Rows([Row(5000, 1.0)]), tuple(evaluations), row_contains_evaluation=False)


def test_a_training_loss_that_lags_is_no_overfitting() -> None:
    for last in (4000, 8000):
        loss, findings = describe_loss(lagging(500, last))
        assert loss.gap is not None
        assert loss.gap > 0
        assert not {"overfitting", "gap_grows"} & set(codes(findings))
    measured_alike = describe_loss(lagging(None, 8000))[0]  # what the same figures mean without the lag
    assert measured_alike.gap_trend is not None
    assert measured_alike.gap_trend > 3 * abs(loss.gap_trend or 0.0)


def test_a_training_loss_that_lags_does_not_hide_overfitting() -> None:
    vals = [4.0, 3.5, 3.3, 3.35, 3.45, 3.6, 3.8]
    trains = [4.5, 3.6, 3.2, 3.0, 2.8, 2.6, 2.4]
    run = run_of(vals, trains=trains)
    lags = replace(run, evaluations=tuple(replace(each, train_steps=500) for each in run.evaluations))
    assert "overfitting" in codes(describe_loss(lags)[1])


def of_steps(train: Callable[[float], float], val: Callable[[float], float], count: int = 16, seed: int = 0) -> Run:
    """As our own trainer reports a model with these losses after each evaluation: the training loss is the
    mean of the steps since the evaluation before, and both scatter a little."""
    rng = random.Random(seed)
    evaluations = [Evaluation(0, None, val(0), val_error=0.004)]
    for k in range(1, count + 1):
        mean = sum(train(k - 1 + (i + 0.5) / 50) for i in range(50)) / 50
        told = mean + rng.gauss(0, 0.004), val(k) + rng.gauss(0, 0.004)
        evaluations.append(Evaluation(500 * k, *told, val_error=0.004, train_steps=500))
    end = Rows([Row(500 * count, 1.0)])
    return Run("log", "ledger", end, tuple(evaluations), row_contains_evaluation=False)


def fall(k: float) -> float:
    return 2 + 2 / (1 + k)


def apart(k: float) -> float:
    return fall(min(k, 8)) + 0.2 * max(0.0, k - 8)


def turned(k: float) -> float:
    return fall(k) + 0.05 * max(0.0, k - 8)


@pytest.mark.parametrize("seed", range(20))
def test_the_mean_of_the_steps_does_not_make_a_run_that_comes_apart_over_fit(seed: int) -> None:
    """It follows half an interval later, so validation seems to rise on its own."""
    run = of_steps(apart, lambda k: apart(k) + 0.02, count=12, seed=seed)
    assert not {"overfitting", "gap_grows"} & set(codes(describe_loss(run)[1]))


@pytest.mark.parametrize("dropout", [0.0, 0.8])
def test_over_fitting_is_seen_although_dropout_holds_the_mean_of_the_steps_above_validation(dropout: float) -> None:
    run = of_steps(lambda k: fall(k) - 0.02 * k + dropout, turned)
    loss, findings = describe_loss(run)
    assert loss.gap is not None
    assert (loss.gap < 0) is (dropout > 0)
    (finding,) = [f for f in findings if f.code == "overfitting"]
    assert finding.numbers["train_steps"] == loss.last_train_steps == 500


def test_a_gap_that_grows_says_of_which_losses() -> None:
    run = of_steps(lambda k: fall(k) - 0.02 * k, lambda k: fall(k) + 0.05)
    (finding,) = [f for f in describe_loss(run)[1] if f.code == "gap_grows"]
    assert finding.numbers["train_steps"] == 500
    assert finding.numbers["gap_trend"] == pytest.approx(0.16, abs=0.03)


def test_losses_that_come_closer_have_no_gap_that_grows() -> None:
    """Dropout keeps the mean of the steps above validation, and it falls faster."""
    run = of_steps(lambda k: fall(k) - 0.02 * k + 0.8, fall)
    assert not {"overfitting", "gap_grows"} & set(codes(describe_loss(run)[1]))


def test_a_second_pass_and_the_mean_of_the_steps_are_not_held_against_each_other() -> None:
    """A run resumed with the other of the two: the gap jumps because of dropout and lag, but nothing grew."""
    steps = of_steps(lambda k: fall(k) + 0.5, fall).evaluations
    second = [Evaluation(each.iteration, fall(each.iteration / 500) - 0.01, each.val) for each in steps]
    for before, after in ((steps, second), (second, steps)):
        run = replace(of_steps(fall, fall), evaluations=(*before[:12], *after[12:]))
        loss, findings = describe_loss(run)
        assert not {"overfitting", "gap_grows"} & set(codes(findings))
        assert abs(loss.gap_trend or 0.0) < 0.1
        assert loss.last_train_steps == after[-1].train_steps


def test_a_training_loss_that_follows_later_has_followed() -> None:
    """It fell steeply until the best validation loss, so the mean of the steps before that is far above it."""

    def loss(k: float, rises: float) -> float:
        return 4 - 0.3 * min(k, 8) + rises * max(0.0, k - 8)

    run = of_steps(lambda k: loss(k, 0.13), lambda k: loss(k, 0.195))
    assert "overfitting" not in codes(describe_loss(run)[1])


def not_over_fitting(rng: random.Random) -> Run:
    """Falling, flat, raised by a restart or diverging, both losses alike; any dropout, any validation split."""
    turn, rise, jump = rng.randint(3, 14), rng.choice([-0.02, 0.0, 0.1, 0.5]), rng.choice([0.0, 0.0, 0.2])
    dropout, harder = rng.random(), rng.uniform(-0.5, 0.5)

    def loss(k: float) -> float:
        return max(0.5, fall(min(k, turn)) + rise * max(0.0, k - turn) + jump * (k > turn))

    return of_steps(lambda k: loss(k) + dropout, lambda k: loss(k) + harder, seed=rng.randrange(1 << 30))


def test_losses_that_rise_together_are_no_over_fitting_however_far_one_lags() -> None:
    rng = random.Random(5)
    runs = [not_over_fitting(rng) for _ in range(300)]
    assert [number for number, run in enumerate(runs) if "overfitting" in codes(describe_loss(run)[1])] == []


def test_an_evaluation_without_a_loss_is_passed_over() -> None:
    run = lagging(500)
    odd = (Evaluation(100, 3.0, None, train_steps=100), Evaluation(200, 3.0, math.inf, train_steps=100))
    assert describe_loss(replace(run, evaluations=(*odd, *run.evaluations)))[0].gap_trend == pytest.approx(
        describe_loss(run)[0].gap_trend
    )


def test_the_errors_are_those_of_the_best_and_the_last() -> None:
    run = lagging(500)
    worse = replace(run.evaluations[-1], iteration=9000, val=9.0, val_error=0.5)
    loss, _ = describe_loss(replace(run, evaluations=(*run.evaluations, worse)))
    assert (loss.best_val_iteration, loss.best_val_error) == (4000, 4.0)
    assert (loss.last_val, loss.last_val_error) == (9.0, 0.5)
    assert describe_loss(run_of([4.0, 3.0]))[0].best_val_error is None
    assert describe_loss(run_of([]))[0].last_val_error is None
