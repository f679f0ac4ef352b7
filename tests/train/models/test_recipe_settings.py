"""Recipe `fast` among other settings: its ingredients, its defaults, and configs written for another recipe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.config import KNOBS, TrainConfig
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.errors import ConfigError
from nanopace.knob_values import INGREDIENTS, ingredients
from nanopace.literals import Value
from nanopace.train.models.gpt2 import GPT
from nanopace.train.models.recipes import matrix_rate, new_model, recipe_defaults, step_tokens
from nanopace.train.plan.origin import find_saved
from nanopace.train.plan.run_plan import RunPlan
from nanopace.train.plan.settings import choose_settings

from ..conftest import Recorder, write_corpus
from ..planning import asked_by, plan_of
from .recipe_runs import MACHINE, SHAPE


def test_gpt2_is_what_it_was() -> None:
    shape = replace(SHAPE, recipe="gpt2")
    assert type(new_model(shape)) is GPT
    assert recipe_defaults("gpt2", 100) == {}
    assert ingredients("gpt2", "") == frozenset()
    assert (KNOBS["recipe"].default, KNOBS["without"].default) == ("gpt2", "")


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"recipe": "slow"}, "recipe must be one of gpt2, fast, not 'slow'"),
        ({"without": "rope"}, "without='rope': recipe=gpt2 has nothing to leave out"),
        (
            {"recipe": "fast", "without": "rope,salt"},
            "without must name ingredients of recipe=fast (muon, ",
        ),
        ({"recipe": "fast", "parallel": "fsdp"}, "recipe=fast and parallel=fsdp cannot be combined"),
        ({"recipe": "fast", "bias": True}, "recipe=fast has no biases"),
        ({"recipe": "fast", "n_head": 3, "n_embd": 15}, "n_embd / n_head must be even with recipe=fast"),
        ({"cooldown": 1.5}, "cooldown must be float >= 0, < 1"),
        ({"matrix_lr": -1.0}, "matrix_lr must be float >= 0"),
    ],
)
def test_a_recipe_that_cannot_be_names_its_knob(knobs: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TrainConfig(**knobs)  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_of_ingredients_have_one_order() -> None:
    config = TrainConfig(recipe="fast", without=" rope,,muon , rope")
    assert config.without == "muon,rope"
    assert TrainConfig(recipe="fast", without="rope", n_head=3, n_embd=15).without == "rope"
    assert ingredients("fast", config.without) == set(INGREDIENTS["fast"]) - {"muon", "rope"}


@pytest.mark.parametrize("decides", [True, False])
def test_knobs_that_nobody_named_are_the_recipes(shared_corpus: Path, decides: bool) -> None:
    asked: dict[str, Value] = {"recipe": "fast", "beta2": 0.9, "max_iters": 70, "n_layer": 1}
    plan = choose_settings(asked, open_corpus(shared_corpus), MACHINE, machine_decides=decides)
    expected = {**recipe_defaults("fast", 70), "beta2": 0.9}
    assert {name: plan.config.as_dict()[name] for name in expected} == expected
    assert (plan.config.warmup_iters, plan.config.lr_decay_iters) == (2, 70)
    assert plan.reasons["learning_rate"] == "0.002: recipe fast"
    assert "beta2" not in plan.reasons
    gpt2 = choose_settings({"max_iters": 70}, open_corpus(shared_corpus), MACHINE, machine_decides=False)
    assert not any("recipe" in each for each in gpt2.reasons.values())
    assert gpt2.config.learning_rate == 6e-4


@pytest.mark.parametrize(
    ("steps", "rate"),
    [(0, 0.03), (100, 0.03), (222, 0.03), (250, 0.028), (480, 0.02), (500, 0.02), (816, 0.016), (1630, 0.011)],
)
def test_matrices_learn_more_slowly_in_a_longer_run(steps: int, rate: float) -> None:
    assert recipe_defaults("fast", steps)["matrix_lr"] == matrix_rate(steps) == rate


def test_rates_stay_within_what_was_tried() -> None:
    assert {matrix_rate(steps) for steps in (2_000, 19_000, 600_000)} == {0.01}


@pytest.mark.parametrize(
    ("millions", "thousands"),
    [(0, 1 / 128), (16, 32), (31, 32), (33, 64), (107, 64), (240, 128), (1_000, 256), (1e6, 512)],
)
def test_a_step_grows_with_the_root_of_the_tokens(millions: float, thousands: float) -> None:
    assert step_tokens(millions * 1e6) == thousands * 1024


@pytest.mark.parametrize(
    ("asked", "heads"),
    [
        ({"n_embd": 768}, 6),
        ({"n_embd": 1024, "n_layer": 1}, 8),
        ({"n_embd": 768, "n_head": 12}, 12),
        ({"n_embd": 384}, 12),  # only measured from 768 on
        ({"n_embd": 1600, "n_head": 25, "n_layer": 1}, 25),
        ({"n_embd": 768, "recipe": "gpt2"}, 12),
    ],
)
def test_heads_are_wide_unless_told_otherwise(shared_corpus: Path, asked: dict[str, Value], heads: int) -> None:
    given: dict[str, Value] = {"recipe": "fast", "n_layer": 1, "block_size": 16, "batch_size": 1, **asked}
    plan = choose_settings(given, open_corpus(shared_corpus), MACHINE, machine_decides=False)
    assert plan.config.n_head == heads
    assert ("n_head" in plan.reasons) == (heads in (6, 8))


# --- a config that was written for another recipe --------------------------------------------------------------------

RATES = "learning_rate = 1e-3\nmin_lr = 1e-4\nbeta2 = 0.99\ngrad_clip = 0.5\nwarmup_iters = 7\nlr_decay_iters = 60\n"
SMALL = "n_layer = 1\nn_head = 2\nn_embd = 16\nmax_iters = 60\ndataset = 'corpus'\ndecay_lr = False\n"
NOT_USED = (
    "not the config's, which belong to another recipe; pass them as flags to use them: decay_lr=False, "
    "learning_rate=0.001, min_lr=0.0001, beta2=0.99, grad_clip=0.5, warmup_iters=7, lr_decay_iters=60"
)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "corpus", val=2000)
    (tmp_path / "config.py").write_text(SMALL + RATES)
    (tmp_path / "ours.py").write_text(SMALL + RATES + "recipe = 'gpt2'\n")
    (tmp_path / "fast.py").write_text(SMALL + RATES + "recipe = 'fast'\n")
    return tmp_path


def rates_of(plan: RunPlan) -> dict[str, Value]:
    return {name: plan.config.as_dict()[name] for name in recipe_defaults("fast", 1)}


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("config", ["config.py", "ours.py"])
def test_rates_of_another_recipe_are_noted_and_not_used(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(asked_by(monkeypatch, config, "--recipe=fast"))
    shape = ["--n_layer=1", "--n_head=2", "--n_embd=16", "--max_iters=60", "--dataset=corpus"]
    alone = plan_of(asked_by(monkeypatch, *shape, "--recipe=fast"))
    assert rates_of(plan) == rates_of(alone) == recipe_defaults("fast", 60)
    assert plan.config == alone.config
    assert plan.reasons["rates"] == NOT_USED
    assert plan.reasons["recipe"] == alone.reasons["recipe"] == "fast: nanoGPT cannot load this model"
    assert "rates" not in alone.reasons


def test_heads_of_another_recipe_are_not_used_either(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 768 channels on, where the recipe has its own; and only for a new model."""
    (room / "wide.py").write_text("n_layer = 1\nn_head = 12\nn_embd = 768\nblock_size = 16\ndataset = 'corpus'\n")
    wide = ["wide.py", "--device=cpu", "--batch_size=1", "--gradient_accumulation_steps=1"]
    plan = plan_of(asked_by(monkeypatch, *wide, "--recipe=fast"))
    assert plan.config.n_head == 6
    assert plan.reasons["rates"].endswith("pass them as flags to use them: n_head=12")
    assert plan_of(asked_by(monkeypatch, *wide)).config.n_head == 12
    assert plan_of(asked_by(monkeypatch, *wide, "--recipe=fast", "--n_head=12")).config.n_head == 12
    narrow = plan_of(asked_by(monkeypatch, "config.py", "--recipe=fast"))
    assert narrow.config.n_head == 2
    begun = [*wide, "--recipe=fast", "--n_head=12", "--max_iters=1", "--eval_iters=1", "--no-report"]
    assert main(["train", *begun]) == 0
    for init_from in ("resume", "out"):
        more = [
            *wide,
            "--recipe=fast",
            f"--init_from={init_from}",
            "--max_iters=3",
            f"--out_dir={'out' if init_from == 'resume' else 'b'}",
        ]
        assert plan_of(asked_by(monkeypatch, *more)).config.n_head == 12


@pytest.mark.usefixtures("room")
def test_rates_as_flags_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(asked_by(monkeypatch, "config.py", "--recipe=fast", "--learning_rate=1e-3", "--beta2=0.9"))
    assert rates_of(plan) == {**recipe_defaults("fast", 60), "learning_rate": 1e-3, "beta2": 0.9}
    assert "learning_rate" not in plan.reasons["rates"]


@pytest.mark.usefixtures("room")
def test_what_only_fast_reads_was_written_for_it(room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a config that does not name the recipe."""
    (room / "config.py").write_text(SMALL + RATES + "matrix_lr = 0.004\ncooldown = 0.3\n")
    plan = plan_of(asked_by(monkeypatch, "config.py", "--recipe=fast"))
    assert (plan.config.matrix_lr, plan.config.cooldown) == (0.004, 0.3)
    assert plan.reasons["rates"] == NOT_USED


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("arguments", [["fast.py"], ["fast.py", "--recipe=fast"], ["config.py"], ["ours.py"]])
def test_rates_of_the_same_recipe_are_used(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(asked_by(monkeypatch, *arguments))
    assert (plan.config.learning_rate, plan.config.warmup_iters, plan.config.decay_lr) == (1e-3, 7, False)
    assert "rates" not in plan.reasons
    assert ("recipe" in plan.reasons) == (arguments[0] == "fast.py")


@pytest.mark.usefixtures("room")
def test_nor_are_those_of_fast_for_gpt2(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(asked_by(monkeypatch, "fast.py", "--recipe=gpt2"))
    assert rates_of(plan) == {name: KNOBS[name].default for name in rates_of(plan)}
    assert plan.reasons["rates"] == NOT_USED


def test_a_run_goes_on_with_the_rates_that_it_began_with(room: Path) -> None:
    begun = ["config.py", "--recipe=fast", "--eval_iters=1", "--block_size=16", "--batch_size=2", "--no-report"]
    begun += ["--device=cpu", "--gradient_accumulation_steps=1"]
    assert main(["train", *begun, "--max_iters=2", "--matrix_lr=0.01"]) == 0
    assert main(["train", "config.py", "--init_from=resume", "--max_iters=3", "--device=cpu", "--no-report"]) == 0
    saved = find_saved(room / "out", Recorder())
    began = {**recipe_defaults("fast", 2), "matrix_lr": 0.01}
    assert (saved.step, {name: saved.config[name] for name in began}) == (4, began)
