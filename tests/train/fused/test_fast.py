"""FastGPT in kernels compared with FastGPT: the same model in float32, and nearly so in bfloat16."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
import torch
from torch import Tensor

from nanopace.config import TrainConfig
from nanopace.train.fused.attention import CudnnThenOurs, TorchAttention
from nanopace.train.fused.fast import FusedFastGPT
from nanopace.train.fused.gpt2 import FusedGPT
from nanopace.train.fused.model import Activations, Layer
from nanopace.train.kernels import attention as attention_kernels
from nanopace.train.kernels import embedding, segments, value_embeddings
from nanopace.train.kernels.attention import Tile
from nanopace.train.kernels.fp8 import PRODUCTS
from nanopace.train.models.fast import FastGPT
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.parallel import parallelize
from nanopace.train.plan.run_plan import Choice

from ..device import DEVICE, runs_kernels
from ..planning import plan_with

SHAPE = ModelShape(n_layer=3, n_head=2, n_embd=12, vocab_size=20, block_size=5, recipe="fast")
pytestmark = runs_kernels
WITHOUT = ["", "rope,relu2", "qk_norm,soft_cap", "value_embeddings", "key_shift", "xsa"]


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use float32 instead of bfloat16, so that nothing hides behind rounding."""
    if DEVICE.type == "cuda":
        pytest.skip("a card's matrix products have other rules for float32")
    monkeypatch.setattr(torch, "bfloat16", torch.float32)


def nudged(without: str = "", n_layer: int = 3, shape: ModelShape = SHAPE) -> FastGPT:
    """The model with no branch at 0, no gate fully open, and no equal shares."""
    torch.manual_seed(0)
    model = FastGPT(replace(shape, without=without, n_layer=n_layer))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() < 2:
                weight.add_(torch.randn_like(weight), alpha=0.3)
            elif "c_proj" in name or "lm_head" in name:
                weight.copy_(0.4 * torch.randn_like(weight))
    return model.to(DEVICE)


def batch(seed: int = 0, sequences: int = 2, length: int = 5) -> tuple[Tensor, Tensor]:
    windows = torch.randint(0, SHAPE.vocab_size, (sequences, length + 1), generator=torch.Generator().manual_seed(seed))
    windows = windows.to(DEVICE)
    return windows[:, :-1], windows[:, 1:]


def gradients(model: GPT) -> dict[str, Tensor]:
    found = {}
    for name, weight in model.named_parameters():
        found[name] = weight.grad.clone()
    return found


def errors(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    """The relative error of each weight's gradient."""
    assert found.keys() == expected.keys()
    return {name: float((found[name] - each).norm() / each.norm()) for name, each in expected.items()}


@pytest.mark.parametrize("without", WITHOUT)
@pytest.mark.usefixtures("exact")
def test_in_full_precision_it_is_the_model(without: str) -> None:
    model, (tokens, targets) = nudged(without), batch()
    targets = targets.clone()
    targets[1, 3] = -1
    losses = model.sequence_losses(tokens, targets).detach()
    expected = model(tokens, targets)
    (0.5 * expected).backward()
    by_autograd = gradients(model)
    assert all(bool(each.any()) for each in by_autograd.values())
    fused = FusedFastGPT(model)
    loss = fused.gradients(tokens, targets, 0.5)
    fused.finish()
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(fused.sequence_losses(tokens, targets), losses)
    assert max(errors(gradients(model), by_autograd).values()) < 2e-5


def test_in_bfloat16_it_is_nearly_the_model() -> None:
    """Its stream is bfloat16, too, and rounding left over in sums of both signs is larger than that. One batch of a few
    tokens may be lucky or not; four average that out."""
    wrong = []
    for seed in range(4):
        model, (tokens, targets) = nudged(), batch(seed)
        expected = model(tokens, targets)
        expected.backward()
        by_autograd = gradients(model)
        fused = FusedFastGPT(model)
        torch.testing.assert_close(fused.gradients(tokens, targets), expected.detach(), rtol=5e-3, atol=0)
        wrong.append(errors(gradients(model), by_autograd))
    sizes = {name: each.dim() for name, each in model.named_parameters()}
    mean = {name: fmean(each[name] for each in wrong) for name in sizes}
    assert max(mean[name] for name, size in sizes.items() if size == 2) < 0.04
    assert max(mean.values()) < 0.25


@pytest.mark.parametrize("without", ["", "relu2"])
@pytest.mark.usefixtures("exact")
def test_what_is_computed_once_more_is_the_same(without: str) -> None:
    model, (tokens, targets) = nudged(without, n_layer=1), batch(sequences=1)
    fused = FusedFastGPT(model)
    fused.gradients(tokens, targets)
    kept, steps = gradients(model), []
    while (step := fused.climb()) is not None:
        steps.append(step)
        fused.zero_grad()
        fused.gradients(tokens, targets)
        assert max(errors(gradients(model), kept).values()) < 1e-6
    assert steps == (["activation", "hidden", "attention"] if without else ["hidden", "attention"])
    assert FusedFastGPT(model, ["attention"]).climb() is None


@pytest.mark.usefixtures("exact")
def test_gradients_add_up_where_the_optimizer_finds_them_and_copies_follow_the_weights() -> None:
    model = nudged(n_layer=1)
    fused = FusedFastGPT(model)
    places = {name: weight.grad for name, weight in model.named_parameters()}
    apart = []
    for seed in (1, 2):
        fused.zero_grad()
        assert not any(bool(each.any()) for each in gradients(model).values())
        fused.gradients(*batch(seed, 1), 0.5)
        apart.append(gradients(model))
    fused.gradients(*batch(1, 1), 0.5)
    together = {name: each + apart[1][name] for name, each in apart[0].items()}
    assert max(errors(gradients(model), together).values()) < 1e-5
    assert all(weight.grad is places[name] for name, weight in model.named_parameters())
    before = fused.sequence_losses(*batch(0, 1))
    with torch.no_grad():
        model.transformer["h"][0].mlp.c_proj.weight.mul_(0.5)
    assert torch.equal(fused.sequence_losses(*batch(0, 1)), before)
    fused.refresh_copies()
    assert not torch.allclose(fused.sequence_losses(*batch(0, 1)), before, atol=1e-3)


def test_a_run_gets_it_with_what_the_ladder_says(corpus: Path) -> None:
    config = TrainConfig(recipe="fast", dataset="any", out_dir="any")
    steps = Choice(("activation", "hidden"), "to fit")
    plan = plan_with(config, corpus, DEVICE, kernels=Choice("fused", "as on a card"), memory_steps=steps)
    fused = parallelize(nudged(), plan).fused
    assert isinstance(fused, FusedFastGPT)
    assert (fused.climb(), fused.climb()) == ("attention", None)


@pytest.mark.usefixtures("eight_bits")
def test_eight_bits_stay_close_and_evaluations_know_nothing_of_them() -> None:
    model = nudged(n_layer=1, shape=replace(SHAPE, n_embd=32, vocab_size=32))  # multiples of 16
    with torch.no_grad():
        model.lm_head.weight.mul_(0.3)  # not so confident that a little rounding means a large loss
    fused, some = FusedFastGPT(model), batch(sequences=4, length=4)  # so is their number of tokens
    loss, losses = fused.gradients(*some).item(), fused.sequence_losses(*some)
    expected = gradients(model)
    for fp8, steps in [*(((each,), ()) for each in PRODUCTS), (PRODUCTS, ("attention",))]:
        fused.zero_grad()
        fused = FusedFastGPT(model, steps, fp8)
        assert 1e-5 < abs(fused.gradients(*some).item() - loss) < 0.05
        wrong = errors(gradients(model), expected)
        assert (
            1e-3 < max(value for name, value in wrong.items() if dict(model.named_parameters())[name].dim() == 2) < 0.2
        )
    assert torch.equal(fused.sequence_losses(*some), losses)


@pytest.mark.usefixtures("eight_bits", "untraced")
def test_the_stream_s_gradient_in_eight_bits_follows_it_from_layer_to_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nudged(n_layer=3, shape=replace(SHAPE, n_embd=32, vocab_size=32))
    backward, wrong, moved = FusedFastGPT._backward, [], []

    def compared(
        fused: FusedFastGPT, layer: Layer, saved: Activations, d_x: Tensor, d_x8: Tensor, *given: Tensor
    ) -> None:
        before, scale = d_x.float().clone(), given[-1]
        wrong.append(float((d_x8.float() * scale - before).norm() / before.norm()))
        backward(fused, layer, saved, d_x, d_x8, *given)
        moved.append(float((d_x.float() - before).norm() / before.norm()))

    monkeypatch.setattr(FusedFastGPT, "_backward", compared)
    FusedFastGPT(model, fp8=PRODUCTS).gradients(*batch(sequences=4, length=4))
    assert len(wrong) == 3
    assert max(wrong) < 0.1  # two bits and a rounded third
    assert min(moved) > 0.3  # so the gradient of another layer would be noticed


class PlainThenOurs:
    """cuDNN's forward pass needs a card."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> tuple[Tensor, Tensor]:
        scores = q @ k.mT * (q.size(-1) ** -0.5 if scale is None else scale)
        scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        return (scores.softmax(-1) @ v).transpose(1, 2).contiguous().transpose(1, 2), scores.logsumexp(-1)

    backward = CudnnThenOurs.backward


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("recipe", ["gpt2", "fast"])
def test_attention_s_backward_pass_may_be_ours(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some layers of `fast` have keys of their own, outside the rows."""
    monkeypatch.setattr(attention_kernels, "TILES", {16: (Tile(16, 16, 1, 1), Tile(16, 16, 1, 1))})
    shape = replace(SHAPE, n_embd=32, recipe=recipe)
    model = nudged(shape=shape) if recipe == "fast" else GPT(shape)
    fused = FusedFastGPT(model) if isinstance(model, FastGPT) else FusedGPT(model)
    found = []
    for attention in (TorchAttention(), PlainThenOurs()):
        fused.attention = attention
        fused.zero_grad()
        fused.gradients(*batch())
        fused.finish()
        found.append(gradients(model))
    for name, expected in found[0].items():
        torch.testing.assert_close(found[1][name], expected, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="a card orders programs itself")
@pytest.mark.parametrize("recipe", ["gpt2", "fast"])
def test_no_gradient_depends_on_the_order_of_programs(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card runs a kernel's programs in any order, and the bits must be the same. Most tokens repeat."""
    from ..kernels.shuffled import shuffled_programs

    for module in (segments, embedding, value_embeddings):
        monkeypatch.setattr(module, "PIECE", 2)
    tokens = torch.tensor([[3, 5, 3, 3, 1], [3, 5, 5, 3, 3]])
    model = nudged() if recipe == "fast" else GPT(replace(SHAPE, recipe="gpt2"))
    fused = FusedFastGPT(model) if isinstance(model, FastGPT) else FusedGPT(model)
    found = []
    for seed in range(3):
        fused.zero_grad()
        with shuffled_programs(seed):
            fused.gradients(tokens, tokens.roll(1, 1))
            fused.finish()
        found.append(gradients(model))
    assert {
        name for name, each in found[0].items() if any(not torch.equal(each, one[name]) for one in found[1:])
    } == set()
