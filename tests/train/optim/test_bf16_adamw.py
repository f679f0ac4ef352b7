"""AdamW with averages in bfloat16, compared with torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from nanopace.config import TrainConfig
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.optim.optimizer import make_optimizer, optimizer_tensors, restore_optimizer, set_learning_rate

pytest.importorskip("triton")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPE = ModelShape(n_layer=1, n_head=2, n_embd=16, vocab_size=40, block_size=8)
CONFIG = TrainConfig(learning_rate=1e-2, min_lr=1e-3)


def trained(lean: bool, steps: int, model: GPT | None = None) -> tuple[GPT, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = model or GPT(SHAPE).to(DEVICE)
    optimizer = make_optimizer(model, CONFIG, DEVICE, ["averages"] if lean else ())
    for step in range(steps):
        one_step(model, optimizer, seed=step)
    return model, optimizer


def one_step(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int, *, finite: bool = True) -> None:
    generator = torch.Generator().manual_seed(seed)
    for each in model.parameters():
        each.grad = torch.randn(each.shape, generator=generator).to(DEVICE)
    optimizer.found_inf = torch.tensor(0.0 if finite else 1.0, device=DEVICE)  # type: ignore[attr-defined]
    optimizer.step()


def test_it_goes_where_adamw_goes() -> None:
    lean, lean_optimizer = trained(True, 4)
    full, full_optimizer = trained(False, 4)
    for ours, theirs in zip(lean.parameters(), full.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=5e-4)  # four steps of 1e-2
    ours_state, theirs_state = optimizer_tensors(lean, lean_optimizer), optimizer_tensors(full, full_optimizer)
    assert ours_state.keys() == theirs_state.keys()
    for name, each in ours_state.items():
        assert each.dtype == (torch.float32 if name.startswith("step.") else torch.bfloat16)
        torch.testing.assert_close(each.float(), theirs_state[name], rtol=3e-2, atol=1e-2)


def test_averages_are_right_in_the_mean_where_rounding_to_the_nearest_would_stop() -> None:
    """An average of 1 that creeps up by less than bfloat16 can resolve: 0.9 + 0.1 x 1.005, twenty times."""
    weight = nn.Parameter(torch.zeros(4000, device=DEVICE))
    optimizer = make_optimizer(nn.ParameterList([weight]), CONFIG, DEVICE, ["averages"])
    optimizer.state[weight]["exp_avg"].fill_(1.0)
    weight.grad = torch.full_like(weight, 1.005)
    optimizer.found_inf = torch.zeros((), device=DEVICE)  # type: ignore[attr-defined]
    for _ in range(20):
        optimizer.step()
    expected = 1.005 - 0.005 * 0.9**20
    assert optimizer.state[weight]["exp_avg"].float().mean().item() == pytest.approx(expected, abs=3e-4)


def test_a_step_that_is_not_finite_leaves_everything() -> None:
    model, optimizer = trained(True, 2)
    before = {name: each.clone() for name, each in optimizer_tensors(model, optimizer).items()}
    weights = [each.clone() for each in model.parameters()]
    one_step(model, optimizer, seed=9, finite=False)
    assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters(), strict=True))
    assert all(torch.equal(before[name], each) for name, each in optimizer_tensors(model, optimizer).items())


def test_it_goes_on_from_what_was_saved_to_the_bit() -> None:
    through, _ = trained(True, 4)
    half, optimizer = trained(True, 2)
    again = make_optimizer(half, CONFIG, DEVICE, ["averages"])
    restore_optimizer(half, again, {name: each.clone() for name, each in optimizer_tensors(half, optimizer).items()})
    set_learning_rate(again, CONFIG.learning_rate)
    for step in (2, 3):
        one_step(half, again, seed=step)
    assert all(torch.equal(a, b) for a, b in zip(through.parameters(), half.parameters(), strict=True))


def test_the_rate_that_is_set_is_the_one_that_is_taken() -> None:
    model, optimizer = trained(True, 2)
    before = [each.clone() for each in model.parameters()]
    set_learning_rate(optimizer, 0.0)
    one_step(model, optimizer, seed=2)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    set_learning_rate(optimizer, CONFIG.learning_rate)
    one_step(model, optimizer, seed=3)
    assert not any(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
