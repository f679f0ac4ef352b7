"""Real runs of recipe `fast` on the CPU: it learns more than GPT-2 in as many steps, and behaves like any other run."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from nanopace.cli.main import main
from nanopace.config import KNOBS, Asked, TrainConfig
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.errors import ConfigError, InputError
from nanopace.knob_values import INGREDIENTS, ingredients
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import CHECKPOINTS, checkpoint_directories, checksum_of, read_state, verified
from nanopace.train.formats.convert import convert, open_pretrained
from nanopace.train.listener import Outcome
from nanopace.train.models.fast import FastGPT
from nanopace.train.models.generate import generate
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.models.recipes import HEAD_RATE, TABLE_RATE, new_model, recipe_defaults
from nanopace.train.optim.optimizer import make_optimizer, optimizer_tensors, set_learning_rate, state_shapes
from nanopace.train.plan.device import Machine
from nanopace.train.plan.origin import find_saved
from nanopace.train.plan.run_plan import RunPlan
from nanopace.train.plan.settings import choose_settings
from nanopace.train.run import train

from ..conftest import TINY, Recorder, write_corpus
from ..planning import asked_by, plan_of
from ..test_run import Stopping, resume

SHAPE = ModelShape(n_layer=2, n_head=2, n_embd=16, vocab_size=300, block_size=12, recipe="fast")
MACHINE = Machine(torch.device("cpu"), "asked for")
OWN = ("learning_rate", "min_lr", "warmup_iters", "lr_decay_iters")  # what the recipe chooses itself
FAST: dict[str, Value] = {**{name: each for name, each in TINY.items() if name not in OWN}, "recipe": "fast"}


def run(corpus: Path, out: Path, listener: Recorder | None = None, **knobs: Value) -> tuple[Outcome, Recorder]:
    listener = listener or Recorder()
    given = {**FAST, "dataset": str(corpus), "out_dir": str(out), **knobs}
    return train(Asked(given=given, files=("config.py",)), listener=listener, started=time.monotonic()), listener


@pytest.fixture(scope="module")
def shared_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("data") / "corpus")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, shared_corpus: Path) -> Path:
    """A run of ten steps; the newest checkpoint is of step 11."""
    out = tmp_path_factory.mktemp("trained") / "out"
    run(shared_corpus, out, max_iters=10, always_save_checkpoint=False)
    return out


# --- it trains -------------------------------------------------------------------------------------------------------


def test_as_many_steps_teach_it_more_than_gpt2(shared_corpus: Path, tmp_path: Path) -> None:
    """Compared with GPT-2 at its best rate here."""
    knobs: dict[str, Value] = {"max_iters": 60, "eval_interval": 30, "n_embd": 32, "dropout": 0.0, "eval_iters": 10}
    losses = {}
    for rate in (3e-3, 1e-2, 3e-2):
        gpt2: dict[str, Value] = {"learning_rate": rate, "min_lr": rate / 10, "warmup_iters": 6, "lr_decay_iters": 60}
        _, told = run(shared_corpus, tmp_path / f"gpt2-{rate}", recipe="gpt2", **gpt2, **knobs)
        losses[rate] = [each.val for each in told.all("eval")]
    _, told = run(shared_corpus, tmp_path / "fast", **knobs)
    fast = [each.val for each in told.all("eval")]
    assert fast[0] == pytest.approx(losses[1e-2][0], abs=0.1)
    assert fast[1] < min(each[1] for each in losses.values()) - 0.05
    assert fast[2] < min(each[2] for each in losses.values()) - 0.02


@pytest.mark.parametrize("without", INGREDIENTS["fast"])
def test_every_ingredient_can_be_left_out(shared_corpus: Path, tmp_path: Path, without: str) -> None:
    outcome, told = run(shared_corpus, tmp_path / "out", without=without, max_iters=2, eval_interval=2)
    assert outcome.reason == "finished"
    first, last = (each.val for each in told.all("eval"))
    assert last < first
    saved = verified(checkpoint_directories(tmp_path / "out")[0])
    assert (saved.shape.without, saved.config["without"]) == (without, without)
    assert saved.optimizer().keys() == state_shapes(saved.shape).keys()  # type: ignore[union-attr]


def test_a_resumed_run_is_the_same_run(shared_corpus: Path, tmp_path: Path) -> None:
    """Bit by bit: losses, weights, momentum, second moments and counts, during the momentum's warm-up."""
    _, whole = run(shared_corpus, tmp_path / "whole")
    stopped, before = run(shared_corpus, tmp_path / "cut", Stopping(7))
    assert (stopped.reason, stopped.iteration) == ("interrupted", 8)
    ended, after = resume(tmp_path / "cut")
    assert (ended.reason, ended.iteration) == ("finished", 21)
    assert {**before.losses, **after.losses} == whole.losses
    for name in ("model.safetensors", "optimizer.safetensors"):
        a, b = (load_file(tmp_path / out / "checkpoints" / "step-00000021" / name) for out in ("whole", "cut"))
        assert a.keys() == b.keys()
        assert all(torch.equal(a[each], b[each]) for each in a)
    assert {"momentum", "neuron_sq", "step", "exp_avg", "exp_avg_sq"} == {each.split(".")[0] for each in b}


def test_a_run_that_is_extended_learns_on_at_full_rates(shared_corpus: Path, tmp_path: Path) -> None:
    """And does not forget: its loss rises by less than it falls afterwards."""
    _, before = run(shared_corpus, tmp_path / "out", max_iters=30)
    outcome, after = resume(tmp_path / "out", max_iters=80, always_save_checkpoint=False)
    assert outcome.iteration == 81
    said = "with max_iters 80 instead of 30, the rates fall from step 40 on; until then they are at their maximum"
    assert said in " ".join(after.all("note"))
    rates = {event.iteration: event.lr for event in (*before.all("step"), *after.all("step"))}
    assert rates[30] < 0.1 * 2e-3
    assert rates[31] == rates[39] == 2e-3
    assert rates[80] < 0.05 * 2e-3
    last = min(before.losses.values())
    assert max(after.losses.values()) - last < last - min(after.losses.values())
    _, later = resume(tmp_path / "out", max_iters=82)  # they have long begun to fall
    assert "the rates fall" not in " ".join(later.all("note"))


def test_a_run_keeps_its_recipe(trained: Path, shared_corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="recipe cannot change when a run is resumed: it is fast, not gpt2"):
        resume(trained, recipe="gpt2", max_iters=12)
    with pytest.raises(ConfigError, match="without cannot change when a run is resumed"):
        resume(trained, without="rope", max_iters=12)
    run(shared_corpus, tmp_path / "out", without="rope,muon", max_iters=3, always_save_checkpoint=False)
    outcome, _ = resume(tmp_path / "out", without=" rope, muon", max_iters=5)
    assert outcome.iteration == 6


def test_a_step_that_is_not_finite_changes_nothing() -> None:
    """As the stepper requests it, for a complete model."""
    torch.manual_seed(0)
    model = FastGPT(SHAPE)
    optimizer = make_optimizer(model, TrainConfig(recipe="fast"), torch.device("cpu"))
    tokens = torch.randint(300, (2, 12))
    for broken in (False, True):
        model(tokens, tokens).backward()
        if broken:
            for each in model.parameters():
                each.grad = each.grad * torch.nan if each.grad is not None else None
        kept = [each.clone() for each in (*model.parameters(), *optimizer_tensors(model, optimizer).values())]
        optimizer.found_inf = torch.tensor(float(broken))  # type: ignore[attr-defined]
        optimizer.step()
        optimizer.zero_grad()
        now = [*model.parameters(), *optimizer_tensors(model, optimizer).values()]
        assert all(torch.equal(a, b) for a, b in zip(kept, now, strict=True)) == broken


# --- its checkpoints -------------------------------------------------------------------------------------------------


def test_weights_come_back_as_they_were_and_the_head_is_the_table(trained: Path) -> None:
    file, model = (
        load_file(checkpoint_directories(trained)[0] / "model.safetensors"),
        open_pretrained(trained, "last").model(),
    )
    assert model.lm_head.weight is model.transformer["wte"].weight
    assert {name for name, _ in model.named_parameters()} == file.keys()
    assert all(torch.equal(each, file[name]) for name, each in model.named_parameters())


def test_it_is_sampled_from_with_and_without_a_cache(trained: Path) -> None:
    model = open_pretrained(trained).model()
    assert isinstance(model, FastGPT)
    for count in (9, 40):  # within the block of 16, and beyond
        kept, anew = (list(generate(model, [3, 4, 5], count, seed=count, cache=cache)) for cache in (True, False))
        assert kept == anew
        assert len(kept) == count


@pytest.mark.parametrize("without", ["", "rope"])
def test_its_weights_travel_but_not_to_gpt2(trained: Path, shared_corpus: Path, tmp_path: Path, without: str) -> None:
    if without:
        trained = tmp_path / "out"
        run(shared_corpus, trained, without=without, max_iters=3, always_save_checkpoint=False)
    convert(trained, tmp_path / "copy", to="nanopace")
    tokens = torch.arange(12)[None]
    first, second = (open_pretrained(each).model().logits(tokens) for each in (trained, tmp_path / "copy"))
    assert torch.equal(first, second)
    with pytest.raises(InputError, match=r"recipe=fast model, and a ckpt\.pt can only hold a GPT-2") as error:
        convert(trained, tmp_path / "ckpt.pt")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "ckpt.pt").exists()


def test_a_new_run_begins_with_its_weights(trained: Path, shared_corpus: Path, tmp_path: Path) -> None:
    given: dict[str, Value] = {**TINY, "dataset": str(shared_corpus), "init_from": str(trained), "max_iters": 2}
    listener = Recorder()
    train(
        Asked(given={**given, "out_dir": str(tmp_path / "out")}, files=("config.py",)),
        listener=listener,
        started=time.monotonic(),
    )
    assert verified(checkpoint_directories(tmp_path / "out")[0]).shape.recipe == "fast"
    assert listener.losses[0] < 4.0  # a fresh model has 5.6
    with pytest.raises(ConfigError, match=r"recipe is fast in .* and cannot be gpt2"):
        train(
            Asked(given={**given, "recipe": "gpt2", "out_dir": str(tmp_path / "b")}, files=("config.py",)),
            listener=listener,
        )


def test_files_of_two_recipes_are_no_checkpoint(trained: Path) -> None:
    from nanopace.train.checkpoint.headers import check_averages, check_weights, header_of
    from nanopace.train.checkpoint.state_checks import wrong_field

    here = checkpoint_directories(trained)[0]
    shape = verified(here).shape
    weights, averages = header_of(here / "model.safetensors"), header_of(here / "optimizer.safetensors")
    check_weights(here, weights, shape)
    check_averages(here, averages, shape)
    for other in (
        replace(shape, without="value_embeddings"),
        replace(shape, without="rope"),
        replace(shape, n_layer=3),
    ):
        with pytest.raises(InputError, match=r"recipe=fast|says n_layer"):
            check_weights(here, weights, other)
    with pytest.raises(InputError, match="does not belong to the weights next to it"):
        check_averages(here, averages, replace(shape, without="muon"))
    state = read_state(here)
    assert wrong_field(state) is None
    for bad in ({"recipe": "slow"}, {"without": "salt"}, {"without": ["rope"]}, {"n_layer": 10**12}, {"recipe": None}):
        assert wrong_field({**state, "shape": {**state["shape"], **bad}}) == "shape"
    with pytest.raises(InputError):
        check_weights(here, {}, shape)
    with pytest.raises(InputError, match=r"lm_head\.weight does not belong to a model of recipe=fast"):
        check_weights(here, {**weights, "lm_head.weight": weights["transformer.wte.weight"].clone()}, shape)


def test_a_checkpoint_lists_what_its_model_has(trained: Path, tmp_path: Path) -> None:
    """So what is added to the recipe later does not change models that were trained before."""
    here = copied(checkpoint_directories(trained)[0], tmp_path)
    state = read_state(here)
    assert state["ingredients"] == list(INGREDIENTS["fast"])
    assert verified(here).shape.without == ""
    rewrite(here, {**state, "ingredients": [*INGREDIENTS["fast"], "salt"]})
    with pytest.raises(
        InputError, match=r"state\.json: the model has 'salt', which this version of nanopace does not know"
    ):
        verified(here)


def test_a_checkpoint_from_before_there_was_a_list(shared_corpus: Path, tmp_path: Path) -> None:
    """It has neither shifted keys nor xsa; it goes on without them, and says so."""
    out = tmp_path / "out"
    run(shared_corpus, out, without="soft_cap,key_shift,xsa", max_iters=3, always_save_checkpoint=False)
    here = checkpoint_directories(out)[0]
    state = read_state(here)
    del state["ingredients"]
    rewrite(here, {**state, "shape": {**state["shape"], "without": "soft_cap"}})
    assert verified(here).shape.without == "soft_cap,key_shift,xsa"
    outcome, _ = resume(out, max_iters=5)
    assert outcome.iteration == 6
    assert read_state(checkpoint_directories(out)[0])["ingredients"] == [
        name for name in INGREDIENTS["fast"] if name not in ("soft_cap", "key_shift", "xsa")
    ]


def copied(checkpoint: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoint, tmp_path / CHECKPOINTS / checkpoint.name))


def rewrite(checkpoint: Path, state: dict[str, object]) -> None:
    state.pop("checksum", None)
    (checkpoint / "state.json").write_text(json.dumps({**state, "checksum": checksum_of(state)}))


# --- what it is made of ----------------------------------------------------------------------------------------------


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
    assert (saved.step, saved.config["matrix_lr"]) == (4, 0.01)
    assert {name: saved.config[name] for name in recipe_defaults("fast", 2)} == recipe_defaults("fast", 2)


def test_groups_keep_the_ratio_of_their_rates() -> None:
    model, config = FastGPT(SHAPE), TrainConfig(recipe="fast", n_embd=192, learning_rate=1e-3, matrix_lr=0.03)
    optimizer = make_optimizer(model, config, torch.device("cpu"))
    rates = {}
    for factor in (1.0, 0.5, 0.0):
        set_learning_rate(optimizer, factor * 1e-3)
        rates[factor] = {id(each): group["lr"] for group in optimizer.param_groups for each in group["params"]}
    assert len(rates[1.0]) == len(list(model.parameters()))
    of = {name: rates[1.0][id(each)] for name, each in model.named_parameters()}
    assert of["transformer.h.0.mlp.c_fc.weight"] == 0.03
    assert of["transformer.wve.0.weight"] == pytest.approx(2 * TABLE_RATE * 1e-3)  # at a quarter of the width
    assert of["transformer.wte.weight"] == pytest.approx(2 * HEAD_RATE * 1e-3)
    assert all(rates[0.5][each] == pytest.approx(rate / 2) for each, rate in rates[1.0].items())
    assert set(rates[0.0].values()) == {0.0}


def test_queries_keys_and_values_are_orthogonalised_with_the_matrices_of_their_shape() -> None:
    model = FastGPT(SHAPE)
    optimizer = make_optimizer(model, TrainConfig(recipe="fast"), torch.device("cpu"))
    buffers = {
        name: optimizer.state[each]["momentum"].untyped_storage()
        for name, each in model.named_parameters()
        if "momentum" in optimizer.state[each]
    }
    square = {name for name in buffers if ".attn." in name}
    assert len(square) == 4
    assert len({buffers[name].data_ptr() for name in square}) == 1
    assert {buffers[name].nbytes() for name in square} == {2 * 4 * 16 * 16 * 4}  # four squares in each of two layers
    assert len({each.data_ptr() for each in buffers.values()}) == 3


def test_an_optimizer_is_known_before_it_is_made() -> None:
    for without in ("", "muon", "normuon"):
        shape = replace(SHAPE, without=without)
        model = new_model(shape)
        made = make_optimizer(model, TrainConfig(recipe="fast", without=without), torch.device("cpu"))
        found = {name: each.shape for name, each in optimizer_tensors(model, made).items()}
        assert found == state_shapes(shape)
        assert any(name.startswith("momentum.") for name in found) == (without != "muon")
        assert any(name.startswith("neuron_sq.") for name in found) == (without == "")
