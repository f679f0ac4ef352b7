from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.diagnosis.loss.losses import describe_loss
from nanopace.diagnosis.result import Finding
from nanopace.run import Checkpoint, Evaluation, Fact, Row, Rows, Run


def run_of(
    vals: Sequence[float | None],
    *,
    trains: Sequence[float | None] | None = None,
    saves: Iterable[int] = (),
    row_losses: Sequence[float] = (3.0, 3.0),
    facts: dict[str, Any] | None = None,
    metric: Any = "loss",
    **more: Any,
) -> Run:
    """Evaluations at 500, 1000, ...; rows spread over the same iterations and one evaluation more."""
    end = 500 * (len(vals) + 1)
    step = max(1, end // max(1, len(row_losses)))
    return Run(
        name="train.log",
        format=more.pop("format", "nanogpt"),
        rows=Rows([Row(step * (k + 1), 100.0, loss) for k, loss in enumerate(row_losses)]),
        evaluations=tuple(
            Evaluation(500 * (k + 1), trains[k] if trains else None, val, metric) for k, val in enumerate(vals)
        ),
        checkpoints=tuple(Checkpoint(iteration) for iteration in saves),
        facts={name: Fact(value, "config file") for name, value in (facts or {}).items()},
        **more,
    )


def falling(count: int, noise: float = 0.005, seed: int = 1) -> list[float]:
    rng = random.Random(seed)
    return [2.5 + 30 * (500 * k) ** -0.45 + rng.gauss(0, noise) for k in range(1, count + 1)]


def codes(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings]


def test_best_and_last() -> None:
    loss, _ = describe_loss(run_of([4.0, 3.2, 3.4], trains=[4.1, 3.1, 3.0]))
    assert (loss.best_val, loss.best_val_iteration) == (3.2, 1000)
    assert (loss.last_val, loss.last_val_iteration) == (3.4, 1500)
    assert loss.best_val_perplexity == pytest.approx(math.exp(3.2))
    assert loss.last_train == 3.0
    assert loss.gap == pytest.approx(0.4)


def test_bits_per_byte_have_no_perplexity_and_scores_are_no_loss() -> None:
    run = run_of([1.2, 1.0], metric="bpb", format="nanochat")
    scores = tuple(Evaluation(500 * k, None, 0.1 * k, "core") for k in (1, 2, 3, 4))
    loss, _ = describe_loss(Run("n", "nanochat", run.rows, run.evaluations + scores))
    assert (loss.metric, loss.best_val, loss.best_val_perplexity) == ("bpb", 1.0, None)


def test_nothing_known() -> None:
    loss, findings = describe_loss(Run("train.log", "nanogpt", Rows()))
    assert loss.best_val is None
    assert loss.noise is None
    assert loss.forecast == ()
    assert findings == []


# --- the best model --------------------------------------------------------------------------------------------------


def test_best_that_was_not_saved() -> None:
    vals = [*falling(10), 2.0, 3.3, 3.3]
    loss, findings = describe_loss(run_of(vals, saves=[500, 1000, 6000]))
    assert loss.saved_best is False
    assert {"best_val": 2.0, "best_val_iteration": 5500} in [f.numbers for f in findings if f.code == "best_not_saved"]


def test_best_that_was_saved() -> None:
    loss, findings = describe_loss(run_of([4.0, 3.0, 3.1], saves=[500, 1000]))
    assert loss.saved_best is True
    assert "best_not_saved" not in codes(findings)


def test_a_best_by_less_than_the_noise_is_no_loss() -> None:
    vals = falling(12, noise=0.01)
    vals[-1] = min(vals[:-1]) - 0.0001
    loss, findings = describe_loss(run_of(vals, saves=[500 * (vals.index(min(vals[:-1])) + 1)]))
    assert loss.saved_best is False
    assert "best_not_saved" not in codes(findings)


def test_a_log_that_ends_before_the_save_or_has_none_says_nothing() -> None:
    cut = run_of([4.0, 3.0], saves=[500])
    ends_with_the_evaluation = Run("t", "nanogpt", Rows([Row(900, 1.0, 3.0)]), cut.evaluations, cut.checkpoints)
    assert describe_loss(ends_with_the_evaluation)[0].saved_best is None
    assert describe_loss(run_of([4.0, 3.0]))[0].saved_best is None


# --- over-fitting ----------------------------------------------------------------------------------------------------


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
    assert loss.forecast == ()  # a trend that has turned is not drawn on


def test_over_fitting_says_what_shows_it() -> None:
    vals = [3.0, 2.5, 2.2, 2.1, 2.15, 2.2, 2.3, 2.45, 2.6, 2.75]
    trains = [3.0, 2.5, 2.1, 1.9, 1.7, 1.5, 1.3, 1.1, 0.9, 0.7]
    for metric in ("loss", "bpc"):
        _, findings = describe_loss(run_of(vals, trains=trains, metric=metric))
        (finding,) = [f for f in findings if f.code == "overfitting"]
        assert (finding.numbers["best_val"], finding.numbers["best_val_iteration"]) == (2.1, 2000)
        assert finding.numbers["last_val"] == 2.75


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
    """A validation split that is harder or easier, a flat end, noise: none of it is over-fitting."""
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


# --- divergence, noise, forecast -------------------------------------------------------------------------------------


def test_divergence_in_a_row_or_an_evaluation() -> None:
    loss, findings = describe_loss(run_of([*falling(12), math.nan]))
    (finding,) = [f for f in findings if f.code == "loss_diverged"]
    assert finding.numbers == {"iteration": 6500}
    assert loss.last_val_iteration == 6000
    assert loss.forecast == ()
    _, findings = describe_loss(run_of([*falling(12), 1e30], row_losses=[3.0, 3.0, math.inf, math.inf]))
    assert findings[0].numbers == {"iteration": 5250}


def test_noise_of_the_printed_loss() -> None:
    rng = random.Random(3)
    losses = [3 + 2 / (k + 1) + rng.gauss(0, 0.1) for k in range(1000)]
    run = run_of([3.0], row_losses=losses, facts={"gradient_accumulation_steps": 40})
    loss, findings = describe_loss(run)
    assert loss.noise == pytest.approx(0.1, rel=0.15)
    (finding,) = [f for f in findings if f.code == "loss_noise"]
    assert finding.numbers == {"noise": loss.noise, "accumulation": 40}


@pytest.mark.parametrize(
    ("row_loss", "accumulation", "said"),
    [("micro-batch", None, True), ("micro-batch", 1, False), ("smoothed", 8, False), ("step", 8, False)],
)
def test_whose_printed_loss_is_one_micro_batch(row_loss: str, accumulation: int | None, said: bool) -> None:
    facts = {"gradient_accumulation_steps": accumulation} if accumulation else {}
    _, findings = describe_loss(run_of([3.0], row_losses=[3.0, 3.1, 3.3, 3.05] * 15, facts=facts, row_loss=row_loss))
    assert ("loss_noise" in codes(findings)) is said


def test_forecast() -> None:
    loss, findings = describe_loss(run_of(falling(20)))
    assert [each.iteration for each in loss.forecast] == [15_000, 20_000]
    for each in loss.forecast:
        assert each.low <= 2.5 + 30 * each.iteration**-0.45 <= each.high
    assert findings[-1].code == "forecast"
    assert findings[-1].numbers["iteration"] == 15_000


@pytest.mark.parametrize(
    ("facts", "goals"),
    [
        ({"max_iters": 600_000}, [15_000, 20_000]),
        ({"max_iters": 17_000}, [15_000, 17_000]),
        ({"max_iters": 12_000}, [12_000]),
        ({"max_iters": 10_000}, []),
        ({"max_iters": 50_000, "lr_decay_iters": 10_000}, []),
        ({"max_iters": 50_000, "lr_decay_iters": 10_000, "decay_lr": False}, [15_000, 20_000]),
    ],
)
def test_no_forecast_beyond_the_schedule(facts: dict[str, Any], goals: list[int]) -> None:
    loss, _ = describe_loss(run_of(falling(20), facts=facts))
    assert [each.iteration for each in loss.forecast] == goals


def test_no_forecast_from_warm_up_or_few_points() -> None:
    assert describe_loss(run_of(falling(7)))[0].forecast == ()
    assert describe_loss(run_of(falling(9), facts={"warmup_iters": 2000}))[0].forecast == ()


LOSS = st.none() | st.floats() | st.floats(0.5, 12)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), LOSS, LOSS), max_size=30), st.lists(LOSS, max_size=30))
def test_no_run_makes_it_raise(evaluations: list[tuple[int, float | None, float | None]], rows: list[Any]) -> None:
    run = Run(
        "train.log",
        "nanogpt",
        Rows([Row(k, 1.0, loss) for k, loss in enumerate(rows)]),
        tuple(Evaluation(iteration, train, val) for iteration, train, val in evaluations),
    )
    loss, _ = describe_loss(run)
    numbers = (loss.best_val, loss.last_val, loss.gap, loss.gap_trend, loss.noise, loss.best_val_perplexity)
    assert all(number is None or math.isfinite(number) for number in numbers)
    vals = [val for _, _, val in evaluations if val is not None and math.isfinite(val)]
    assert loss.best_val is None or loss.best_val in vals


def test_the_lowest_of_many_noisy_evaluations_is_no_turn() -> None:
    """A run that has stopped learning, many times: its best is low by luck, and what follows is not over-fitting."""
    rng = random.Random(77)
    said = 0
    for _ in range(400):
        truth = [max(3.0, 5 - k / 4) for k in range(rng.choice([10, 20, 40]))]
        vals = [loss + rng.gauss(0, 0.02) for loss in truth]
        trains = [loss + rng.gauss(0, 0.02) for loss in truth]
        said += "overfitting" in codes(describe_loss(run_of(vals, trains=trains))[1])
    assert said == 0
