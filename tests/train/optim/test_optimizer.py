from __future__ import annotations

import pytest
import torch

from nanopace.config import TrainConfig
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.models.recipes import new_model
from nanopace.train.optim.optimizer import (
    OPTIMIZERS,
    STATE_PREFIXES,
    make_optimizer,
    optimizer_name,
    optimizer_tensors,
    restore_optimizer,
    set_learning_rate,
    state_shapes,
)

SHAPE = ModelShape(n_layer=2, n_head=2, n_embd=8, vocab_size=20, block_size=8, bias=True)
CONFIG = TrainConfig(n_layer=2, n_head=2, n_embd=8, vocab_size=20, block_size=8, weight_decay=0.3, beta2=0.9)
CPU = torch.device("cpu")


def test_matrices_decay_and_the_rest_does_not() -> None:
    model = GPT(SHAPE)
    decayed, plain = make_optimizer(model, CONFIG, CPU).param_groups
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.3, 0.0)
    assert all(each.dim() == 2 for each in decayed["params"])
    assert all(each.dim() == 1 for each in plain["params"])
    assert len(decayed["params"]) + len(plain["params"]) == len(list(model.parameters()))


def test_averages_that_exist_early_change_nothing() -> None:
    """The same steps as torch's AdamW, which allocates them on first use."""
    torch.manual_seed(0)
    ours, theirs = GPT(SHAPE), GPT(SHAPE)
    theirs.load_state_dict(ours.state_dict())
    optimizer = make_optimizer(ours, CONFIG, CPU)
    groups = [
        {"params": [each for each in theirs.parameters() if each.dim() >= 2], "weight_decay": 0.3},
        {"params": [each for each in theirs.parameters() if each.dim() < 2], "weight_decay": 0.0},
    ]
    reference = torch.optim.AdamW(groups, betas=(0.9, 0.9))
    for _ in range(3):
        tokens = torch.randint(20, (2, 8))
        for model, each in ((ours, optimizer), (theirs, reference)):
            set_learning_rate(each, 1e-2)
            each.zero_grad()
            model(tokens, tokens).backward()
            each.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_its_memory_can_be_put_back() -> None:
    torch.manual_seed(0)
    model = GPT(SHAPE)
    optimizer = make_optimizer(model, CONFIG, CPU)
    tokens = torch.randint(20, (2, 8))
    model(tokens, tokens).backward()
    optimizer.step()
    kept = {name: each.clone() for name, each in optimizer_tensors(model, optimizer).items()}
    assert kept["step.transformer.wte.weight"] == 1
    other = make_optimizer(model, CONFIG, CPU)
    restore_optimizer(model, other, kept)
    restored = optimizer_tensors(model, other)
    assert all(torch.equal(restored[name], kept[name]) for name in kept)


@pytest.mark.parametrize("steps", [(), ("averages",)])
@pytest.mark.parametrize(("recipe", "without"), [("gpt2", ""), ("fast", ""), ("fast", "muon"), ("fast", "normuon")])
def test_the_table_says_what_each_optimizer_remembers(recipe: str, without: str, steps: tuple[str, ...]) -> None:
    """Checkpoints distinguish it from weights by these names, and the layout is known before there is an optimizer."""
    shape = ModelShape(n_layer=1, n_head=1, n_embd=8, vocab_size=16, block_size=4, recipe=recipe, without=without)
    config = TrainConfig(recipe=recipe, without=without)
    model = new_model(shape)
    tensors = optimizer_tensors(model, make_optimizer(model, config, torch.device("cpu"), steps))
    assert {name: each.shape for name, each in tensors.items()} == state_shapes(shape)
    kept = {name.partition(".")[0] for name in tensors}
    assert kept == {*OPTIMIZERS[optimizer_name(config, steps)].state} - (
        {"neuron_sq"} if without == "normuon" else set()
    )
    assert all(name.startswith(STATE_PREFIXES) for name in tensors)
    assert not any(name.startswith(STATE_PREFIXES) for name in model.state_dict())
