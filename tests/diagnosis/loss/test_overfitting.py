from __future__ import annotations

import random

import pytest

from nanopace.diagnosis.loss.losses import describe_loss

from .evaluated import codes, falling, run_of


def test_over_fitting() -> None:
    fall = falling(12)
    vals = fall + [fall[-1] + 0.03 * k for k in range(1, 9)]
    trains = [val - 0.01 for val in fall] + [fall[-1] - 0.03 * k for k in range(1, 9)]
    loss, findings = describe_loss(run_of(vals, trains=trains))
    (finding,) = [f for f in findings if f.code == "overfitting"]
    assert finding.numbers["best_val_iteration"] == loss.best_val_iteration
    assert finding.numbers["gap"] == pytest.approx(vals[-1] - trains[-1])
    assert loss.gap_trend is not None
    assert loss.gap_trend > 0.3
    assert loss.forecast == ()  # a trend that has turned is not extrapolated


def test_over_fitting_says_what_shows_it() -> None:
    vals = [3.0, 2.5, 2.2, 2.1, 2.15, 2.2, 2.3, 2.45, 2.6, 2.75]
    trains = [3.0, 2.5, 2.1, 1.9, 1.7, 1.5, 1.3, 1.1, 0.9, 0.7]
    for metric in ("loss", "bpc"):
        _, findings = describe_loss(run_of(vals, trains=trains, metric=metric))
        (finding,) = [f for f in findings if f.code == "overfitting"]
        assert (finding.numbers["best_val"], finding.numbers["best_val_iteration"]) == (2.1, 2000)
        assert finding.numbers["last_val"] == 2.75


@pytest.mark.parametrize("offset", [0.0, -10.0])
def test_a_model_that_has_overfitted_varies_more_than_at_its_best(offset: float) -> None:
    """Below zero, where a loss has no logarithm, such noise still hides the rise."""
    vals = [3.0, 2.4, 2.0, 1.6, 1.5, 2.4, 3.4, 3.1, 2.7, 3.8, 4.1]
    trains = [2.9, 2.2, 1.7, 1.2, 0.8, 0.3, 0.1, 0.2, 0.1, 0.05, 0.05]
    _, findings = describe_loss(run_of([val + offset for val in vals], trains=[train + offset for train in trains]))
    assert ("overfitting" in codes(findings)) == (offset == 0)


def test_over_fitting_long_ago_is_over_fitting() -> None:
    """Both losses are flat over the second half: the gap has stopped growing, and validation is far above its best."""
    vals = [3.0, 2.5, 2.2, 2.6, 3.0, 3.4, 3.5, 3.5, 3.5, 3.5, 3.5, 3.5]
    trains = [3.0, 2.4, 2.0, 1.5, 1.0, 0.5, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2]
    assert "overfitting" in codes(describe_loss(run_of(vals, trains=trains))[1])


def test_a_growing_gap_while_validation_falls_is_no_over_fitting() -> None:
    vals = falling(20)
    trains = [val - max(0, k - 5) * 0.02 for k, val in enumerate(vals)]
    loss, findings = describe_loss(run_of(vals, trains=trains))
    assert "overfitting" not in codes(findings)
    (finding,) = [f for f in findings if f.code == "gap_grows"]
    assert finding.numbers == {"gap": loss.gap, "gap_trend": loss.gap_trend, "train_steps": None}


def test_a_restart_that_raises_both_losses_is_no_over_fitting() -> None:
    rng = random.Random(4)
    fall = falling(20, 0.002)
    after = [fall[-1] + 0.1 - 0.002 * k for k in range(8)]
    vals = [val + rng.gauss(0, 0.005) for val in fall + after]
    trains = [val - 0.005 + rng.gauss(0, 0.005) for val in fall + after]
    loss, findings = describe_loss(run_of(vals, trains=trains))
    assert not {"overfitting", "gap_grows"} & set(codes(findings))
    assert loss.forecast == (), "a trend that was broken is not drawn on"


def test_two_evaluations_above_the_best_show_nothing_yet() -> None:
    vals = [*falling(10), falling(10)[-1] + 0.1, falling(10)[-1] + 0.2]
    trains = [val - 0.05 * k for k, val in enumerate(vals)]
    assert not {"overfitting", "gap_grows"} & set(codes(describe_loss(run_of(vals, trains=trains))[1]))


@pytest.mark.parametrize(("rise", "said"), [(0.005, False), (0.05, True)])
def test_with_few_evaluations_only_a_large_rise_counts(rise: float, said: bool) -> None:
    vals = [2.5, 2.0, 2.0 + rise, 2.0 + 2 * rise, 2.0 + 3 * rise]
    trains = [2.4, 1.9, 1.8, 1.7, 1.6]
    assert ("overfitting" in codes(describe_loss(run_of(vals, trains=trains))[1])) is said


@pytest.mark.parametrize("seed", range(12))
def test_noise_is_no_over_fitting(seed: int) -> None:
    """A harder or easier validation split, a flat end, noise: none of this is overfitting."""
    rng = random.Random(seed)
    truth = [max(loss, 3.0) for loss in falling(24, 0.0)]
    harder = rng.choice([-0.1, 0.0, 0.1])
    vals = [loss + harder + rng.gauss(0, 0.01) for loss in truth]
    trains = [loss + rng.gauss(0, 0.02) for loss in truth]
    assert "overfitting" not in codes(describe_loss(run_of(vals, trains=trains))[1])


def test_a_run_that_comes_apart_is_not_over_fitting() -> None:
    fall = falling(12)
    rise = [fall[-1] + 0.1 * k for k in range(1, 9)]
    trains = [val + 0.02 for val in fall + rise]
    assert "overfitting" not in codes(describe_loss(run_of(fall + rise, trains=trains))[1])


def test_few_evaluations_that_only_rise() -> None:
    """The last three are not all far above the best, but each is above the one before."""
    vals = [1.807, 1.573, 1.505, 1.483, 1.4832, 1.492, 1.516, 1.529, 1.557]
    trains = [1.636, 1.347, 1.237, 1.163, 1.095, 1.039, 0.983, 0.929, 0.872]
    loss, findings = describe_loss(run_of(vals, trains=trains))
    assert "overfitting" in codes(findings)
    assert loss.forecast == ()
    vals[-2] = 1.51
    assert "overfitting" not in codes(describe_loss(run_of(vals, trains=trains))[1])
