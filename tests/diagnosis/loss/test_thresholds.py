"""The threshold of each statement about the loss."""

from __future__ import annotations

import pytest

from nanopace.diagnosis.loss.loss_spikes import loss_spikes
from nanopace.diagnosis.loss.losses import describe_loss
from nanopace.diagnosis.loss.overfitting import noise_of
from nanopace.run import Checkpoint, Evaluation, Row, Rows, Run

from ..thresholds import Holds, codes, threshold


def turned(rise: float, error: float | None, before: int = 9) -> bool:
    """Whether it is overfitting if the last three losses are this far above all earlier ones, at 2.0."""
    vals = [2.0] * before + [2.0 + rise] * 3
    evaluations = [Evaluation(100 * (k + 1), 1.9, val, val_error=error) for k, val in enumerate(vals)]
    run = Run("log", "nanogpt", Rows([Row(0, 1.0)]), tuple(evaluations))
    return "overfitting" in codes(describe_loss(run)[1])


def grows(share: float) -> bool:
    """Whether a gap is reported that grows by this share of the last loss over the second half."""
    last = 3.0 - 0.01 * 20
    evaluations = [
        Evaluation(100 * k, 3.0 - 0.01 * k - 0.5 - share * last * k / 10, 3.0 - 0.01 * k) for k in range(1, 21)
    ]
    run = Run("log", "nanogpt", Rows([Row(0, 1.0)]), tuple(evaluations))
    return "gap_grows" in codes(describe_loss(run)[1])


UNSURE = 1 + 6 / 6**1.5  # of twelve evaluations


@pytest.mark.parametrize(
    ("holds", "low", "high", "expected"),
    [
        (lambda x: turned(x, 0.0001), 0.0, 1.0, 0.003 * 2),
        (lambda x: turned(x, 0.005), 0.0, 1.0, 4 * UNSURE * 0.005),
        (lambda x: turned(x, 0.015), 0.0, 1.0, 0.03 * 2),
        (lambda x: turned(x, 0.03), 0.0, 1.0, 3 * 0.03),
        (lambda x: turned(x, None, before=2), 0.0, 1.0, 0.01 * 2),  # too few to know their noise
        (grows, 0.0, 0.2, 0.03),
    ],
)
def test_of_the_loss(holds: Holds, low: float, high: float, expected: float) -> None:
    assert threshold(holds, low, high) == pytest.approx(expected, rel=1e-4)


def spiked(jump: float) -> bool:
    """Whether a loss this far above the others is a spike: they alternate between 3.00 and 3.02."""
    losses = [3.0 + 0.02 * (k % 2) for k in range(120)]
    losses[100] = 3.01 + jump
    run = Run("log", "nanogpt", Rows([Row(k, 100.0, loss) for k, loss in enumerate(losses)]))
    return bool(loss_spikes(run))


def lost_best(better: float) -> tuple[bool, float]:
    """Whether the best model is reported as lost if all others were saved; and the noise of evaluations."""
    vals = [3.0 + 0.01 * (-1) ** k for k in range(20)]
    vals[7] = 2.99 - better
    evaluations = [Evaluation(100 * (k + 1), None, val) for k, val in enumerate(vals)]
    saves = tuple(Checkpoint(each.iteration) for k, each in enumerate(evaluations) if k != 7)
    findings = describe_loss(Run("log", "nanogpt", Rows([Row(3000, 1.0)]), tuple(evaluations), saves))[1]
    return "best_not_saved" in codes(findings), noise_of(
        [(each.iteration, each.val or 0.0) for each in evaluations]
    ) or 0.0


def quiet(jump: float) -> bool:
    losses = [3.0] * 60 + [3.0 + jump]
    return bool(loss_spikes(Run("log", "nanogpt", Rows([Row(k, 100.0, loss) for k, loss in enumerate(losses)]))))


def perplexed(loss: float) -> bool:
    evaluations = (Evaluation(100, None, loss),)
    return describe_loss(Run("log", "nanogpt", Rows(), evaluations))[0].best_val_perplexity is not None


def test_of_single_losses() -> None:
    assert threshold(quiet, 0.0, 1.0) == pytest.approx(6 * 0.002 * 3)
    assert threshold(perplexed, 10.0, 1000.0) == pytest.approx(700)
    assert threshold(spiked, 0.0, 1.0) == pytest.approx(6 * 1.4826 * 0.01, rel=0.05)
    missed = threshold(lambda x: lost_best(x)[0], 1e-6, 1.0)
    assert missed == pytest.approx(2 * lost_best(missed)[1], rel=1e-4)
