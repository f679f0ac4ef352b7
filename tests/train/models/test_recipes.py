"""Real runs of recipe `fast` on the CPU: it learns more than GPT-2 in as many steps, and behaves like any other run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from nanopace.config import TrainConfig
from nanopace.errors import ConfigError
from nanopace.knob_values import INGREDIENTS
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import checkpoint_directories, verified
from nanopace.train.models.fast import FastGPT
from nanopace.train.models.recipes import HEAD_RATE, TABLE_RATE, new_model
from nanopace.train.optim.optimizer import make_optimizer, optimizer_tensors, set_learning_rate, state_shapes

from ..runs import Stopping, resume
from .recipe_runs import SHAPE, run


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
    assert "max_iters" not in " ".join(after.all("note"))  # it is as long as before
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
    said = "max_iters is now 80 instead of 30; the learning rate is at its maximum until step 32, then it falls"
    assert said in " ".join(after.all("note"))
    rates = {event.iteration: event.lr for event in (*before.all("step"), *after.all("step"))}
    assert rates[30] < 0.1 * 2e-3
    assert rates[31] == rates[32] == 2e-3 > rates[33]
    assert rates[80] < 0.05 * 2e-3
    last = min(before.losses.values())
    assert max(after.losses.values()) - last < last - min(after.losses.values())
    _, later = resume(tmp_path / "out", max_iters=82)  # they have long begun to fall
    assert "learning rate" not in " ".join(later.all("note"))


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
