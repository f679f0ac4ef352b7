"""What to measure, and the results. The runs themselves are in test_trial.py and cli/test_ablate.py."""

from __future__ import annotations

import math

import pytest

from nanopace.config import KNOBS
from nanopace.errors import ConfigError, UsageError
from nanopace.literals import Value
from nanopace.train.models.recipes import recipe_defaults, shape_defaults
from nanopace.tune.ablate.ablate import OF_RECIPE, Ablation, Plan, Player, conclude, make_plan
from nanopace.tune.ablate.ablate_view import page, write
from nanopace.tune.ablate.trials import Tried
from nanopace.tune.shapley import Share
from nanopace.tune.trial import Outcome
from nanopace.wording.catalog import words

from ..printing import printed

A: dict[str, Value] = {"batch_size": 16, "gradient_accumulation_steps": 32, "n_embd": 384, "learning_rate": 1e-3}
B: dict[str, Value] = {"batch_size": 8, "gradient_accumulation_steps": 64, "learning_rate": 3e-4}


def plan_of(a: dict[str, Value], b: dict[str, Value], together: tuple[tuple[str, ...], ...] = ()) -> Plan:
    return make_plan(a, b, steps=5, repeats=2, evaluates=False, orders=4, together=together)


def names(plan: Plan) -> list[str]:
    return [player.name for player in plan.players]


def test_every_knob_that_differs_is_a_player_and_every_combination_a_run() -> None:
    plan = plan_of({**A, "out_dir": "a", "max_iters": 7, "seed": 1}, {**B, "out_dir": "b"})
    assert names(plan) == ["gradient_accumulation_steps,batch_size", "n_embd", "learning_rate"]  # 512 sequences each
    assert len(plan.combinations) == 8
    assert len(plan.trials) == 16
    settings = plan.settings(frozenset(["n_embd"]))
    assert (settings["n_embd"], settings["batch_size"], settings["learning_rate"]) == (768, 16, 1e-3)
    assert (settings["max_iters"], settings["save_interval"]) == (5, -1)
    assert "device" not in settings  # not given, so the machine decides


def test_knobs_go_together_where_a_run_cannot_have_one_alone_or_somebody_says_so() -> None:
    plan = plan_of({"n_head": 3, "n_embd": 60, "bias": True}, {"n_head": 4, "n_embd": 128, "bias": False})
    assert names(plan) == ["n_head,n_embd", "bias"]
    assert plan.players[0].before == (3, 60)
    other = {**B, "gradient_accumulation_steps": 50}
    assert len(plan_of(A, other).players) == 4
    told = plan_of(A, other, (("batch_size", "n_embd"),))
    assert names(told) == ["gradient_accumulation_steps", "batch_size,n_embd", "learning_rate"]


def test_rates_belong_to_the_recipe_of_their_config() -> None:
    """A's rates are tuned for A's recipe. What B leaves open is its recipe's own, not nanoGPT's default."""
    a: dict[str, Value] = {"n_embd": 384, "learning_rate": 1e-3, "warmup_iters": 5, "n_head": 6, "bias": False}
    plan = plan_of(a, {"n_embd": 768, "recipe": "fast", "beta2": 0.99, "bias": False})
    assert names(plan) == ["n_head,learning_rate,beta2,warmup_iters,recipe", "n_embd"]
    recipes = plan.players[0]
    fast = plan.settings(frozenset(each.name for each in plan.players))
    assert (fast["recipe"], fast["beta2"]) == ("fast", 0.99)
    assert not {"learning_rate", "warmup_iters", "n_head"} & fast.keys()
    own = plan.settings(frozenset())
    assert (own["recipe"], own["learning_rate"], own["warmup_iters"], own["n_head"]) == ("gpt2", 1e-3, 5, 6)
    assert "beta2" not in own
    assert dict(zip(recipes.knobs, recipes.after, strict=True))["learning_rate"] is None
    assert set(OF_RECIPE) == recipe_defaults("fast", 100).keys() | shape_defaults("fast", 768).keys()


def test_what_one_config_leaves_to_the_recipe_differs_from_any_value() -> None:
    """Even from nanoGPT's default, which the other config does not have."""
    fast: dict[str, Value] = {"recipe": "fast", "learning_rate": 2e-3}
    plan = plan_of(fast, {**fast, "cooldown": KNOBS["cooldown"].default, "n_layer": 6})
    assert names(plan) == ["n_layer", "cooldown"]
    assert (plan.players[1].before, plan.players[1].after) == ((None,), (KNOBS["cooldown"].default,))
    assert "cooldown" not in plan.settings(frozenset(["n_layer"]))
    with pytest.raises(UsageError, match="both configs train the same way"):
        plan_of(fast, fast)


def test_five_knobs_and_more_are_measured_along_some_orders() -> None:
    plan = plan_of({**A, "n_layer": 6, "bias": True}, B)
    assert len(plan.players) == 5
    assert len(plan.orders) == 4
    assert len(plan.combinations) < 2**5


def test_configs_that_train_the_same_are_refused() -> None:
    with pytest.raises(UsageError, match="no setting that affects a run differs"):
        plan_of({"out_dir": "a", "batch_size": 12}, {"max_iters": 3})
    with pytest.raises(ConfigError, match="n_embd must be a multiple"):
        plan_of({"n_head": 7}, {})


def outcome(rate: float, flops: float | None = 100.0, loss: float | None = None) -> Outcome:
    return Outcome(failure=None, seconds=1.0, tokens_per_second=rate, flops_per_token=flops, loss=loss)


def test_speed_is_divided_into_what_a_token_costs_and_how_well_the_machine_is_used() -> None:
    """Twice the FLOPs with 10% better utilisation; half the micro-batch, and nothing else."""
    plan = plan_of({"n_embd": 384, "batch_size": 16}, {"n_embd": 768, "batch_size": 8})
    tried = []
    for trial in plan.trials:
        wide = "n_embd" in trial.changed
        rate = 1000 * (0.55 if wide else 1.0) * math.exp(0.001 if trial.repeat else -0.001)
        tried.append(Tried(trial.changed, trial.repeat, outcome(rate, 200.0 if wide else 100.0)))
    found = conclude(plan, tried)
    assert found.tokens_per_second == pytest.approx((1000, 550))
    batch, width = range(2)
    assert found.speed[width].value == pytest.approx(math.log(0.55))
    assert found.flops[width].value == pytest.approx(math.log(2))
    assert found.utilisation[width].value == pytest.approx(math.log(1.1))
    assert found.speed[width].shows
    assert found.speed[batch].value == pytest.approx(0, abs=1e-9)
    assert not found.speed[batch].shows
    assert found.loss is None
    unknown = [Tried(each.changed, each.repeat, outcome(1.0, None)) for each in tried]
    assert conclude(plan, unknown).utilisation is None


def test_the_loss_is_divided_too() -> None:
    """Seeds differ by far more than the change makes; between equal seeds, it differs by 0.01."""
    plan = make_plan({"learning_rate": 1e-3}, {}, steps=5, repeats=3, evaluates=True, orders=4)
    tried = [
        Tried(
            each.changed,
            each.repeat,
            outcome(1.0, loss=4.0 + each.repeat - len(each.changed) * (1 + each.repeat / 100)),
        )
        for each in plan.trials
    ]
    found = conclude(plan, tried)
    assert found.losses == pytest.approx((5.0, 3.99))
    assert found.loss[0].value == pytest.approx(-1.01)
    # A t interval of the three differences, -1, -1.01 and -1.02, with two degrees of freedom.
    assert found.loss[0].error == pytest.approx(4.303 * 0.01 / math.sqrt(3), rel=1e-3)


def test_each_repeat_has_a_seed_of_its_own_and_each_combination_the_same_ones() -> None:
    plan = plan_of({"batch_size": 16, "seed": 5}, {"seed": 9})
    seeds = {(each.changed, each.repeat): each.settings["seed"] for each in plan.trials}
    assert seeds == {(some, repeat): 5 + repeat for some in plan.combinations for repeat in (0, 1)}


def test_of_arithmetic_that_stays_the_same_nothing_is_said_and_long_names_break_at_an_underscore() -> None:
    pytest.importorskip("jinja2")
    players = (Player(("gradient_accumulation_steps",), (1,), (2,)), Player(("n_embd",), (64,), (128,)))
    speed, flops = ((Share("a", x, 0.01), Share("b", y, 0.01)) for x, y in ((0.4, -0.5), (0.0, 1.0)))
    found = Ablation(players, speed, flops, speed, None, (1000.0, 900.0), None, 8, False)
    text = page(found, "A → B", words("en"))
    assert "gradient_accumulation_steps changed the speed by a factor of 1.492.<" in text
    assert "n_embd changed the speed by a factor of 0.607: a token costs 2.718x" in text
    assert "gradient_<wbr>accumulation_<wbr>steps: 1 → 2" in text


def test_micro_batches_of_the_same_step_are_written_as_people_do() -> None:
    players = (Player(("gradient_accumulation_steps", "batch_size"), (32, 16), (64, 8)),)
    shares = (Share("a", -0.032, 0.002),)
    found = Ablation(players, shares, None, None, None, (1000.0, 968.5), None, 8, False)
    text = printed(write, found)
    assert "batch_size changed the speed by a factor of 0.969." in text
    assert "batch_size  16 x 32 → 8 x 64" in text
