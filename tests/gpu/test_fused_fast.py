"""Our own kernels for recipe `fast` on a real card: `pytest -m gpu tests/gpu`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nanopace.literals import Value
from nanopace.train.loop import passes as passes_module
from nanopace.train.models.fast import FastGPT
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.optim.muon import MuonSettings, Stack

from .test_fused import errors, gradients, way, windows
from .test_train import CARD, corpus, kernels, run  # noqa: F401

pytest.importorskip("triton")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card")]

SHAPE = ModelShape(n_layer=4, n_head=4, n_embd=256, vocab_size=50304, block_size=1024, recipe="fast")
FAST: dict[str, Value] = {"recipe": "fast", "compile": True, "dtype": "bfloat16", "dropout": 0.0}


def nudged(without: str = "") -> FastGPT:
    """The model with no branch at 0, no gate fully open, and no equal shares."""
    torch.manual_seed(0)
    model = FastGPT(replace(SHAPE, without=without))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() < 2:
                weight.add_(torch.randn_like(weight), alpha=0.3)
            elif "c_proj" in name or "lm_head" in name:
                weight.copy_(0.02 * torch.randn_like(weight))
    return model.to(CARD)


@pytest.mark.parametrize("without", ["", "rope,relu2", "qk_norm,soft_cap", "value_embeddings"])
def test_the_loss_and_every_gradient(without: str) -> None:
    """Our stream is bfloat16 and autocast's is not; the rounding that remains in sums of both signs shows in gates."""
    from nanopace.train.fused.fast import FusedFastGPT

    model, (tokens, targets) = nudged(without), windows(1)
    exact = model(tokens, targets)
    exact.backward()
    expected = gradients(model)
    model.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        model(tokens, targets).backward()
    autocast = errors(gradients(model), expected)
    fused = FusedFastGPT(model)
    loss = fused.gradients(tokens, targets)
    ours = errors(gradients(model), expected)
    assert loss.item() == pytest.approx(exact.item(), abs=5e-3)
    few = {name for name, each in model.named_parameters() if each.dim() < 2}
    assert {name: each for name, each in ours.items() if not each < max(3e-2, 3 * autocast[name])}.keys() <= few
    assert max(ours.values()) < 0.3
    with torch.no_grad():
        torch.testing.assert_close(
            fused.sequence_losses(tokens, targets), model.sequence_losses(tokens, targets), rtol=0, atol=2e-2
        )


def test_a_cuda_graph_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from nanopace.train.fused.fast import FusedFastGPT

    model = nudged()
    passes = passes_module.FusedPasses(FusedFastGPT(model))
    losses = [passes(*windows(seed), 2).item() for seed in (1, 2, 3)]
    before = gradients(model)
    monkeypatch.setattr(passes_module, "_LAUNCH_BOUND", 0.0)
    assert "CUDA graph" in str(passes.capture_graph(*windows(1), 2))
    passes.zero_grad()
    assert [passes(*windows(seed), 2).item() for seed in (1, 2, 3)] == pytest.approx(losses, abs=1e-3)
    found = errors(gradients(model), before)
    assert {name: each for name, each in found.items() if not each < 1e-2} == {}  # sums in another order


def test_runs_with_and_without_them_learn_alike(corpus: Path, tmp_path: Path) -> None:  # noqa: F811
    _, ours = run(corpus, tmp_path / "ours", **FAST, fused=True)
    _, compiled = run(corpus, tmp_path / "compiled", **FAST, fused=False)
    assert (way(tmp_path / "ours"), way(tmp_path / "compiled")) == ("fused", "compiled")
    assert ours.losses[30] < ours.losses[0] - 1
    assert ours.losses[0] == pytest.approx(compiled.losses[0], abs=2e-3)
    assert ours.losses[30] == pytest.approx(compiled.losses[30], abs=0.05)


def _steps(weights: list[Tensor], how: MuonSettings) -> list[Tensor]:
    weights = [each.clone().requires_grad_() for each in weights]
    stack = Stack([(weights[0], 3), (weights[1], 1)], normuon=True)
    generator = torch.Generator(CARD).manual_seed(1)
    for step in range(3):
        for each in weights:
            each.grad = torch.randn(each.shape, generator=generator, device=CARD)
        with torch.no_grad():
            skip = torch.full_like(stack.steps[0], float(step == 1))
            stack.step(0.1, 0.1, skip, how)
    return [each.detach() for each in weights]


def test_muon_in_kernels_is_muon_in_torch() -> None:
    """Both round to bfloat16, in a different order; that is 4% from float32, and neither may be further off."""
    torch.manual_seed(0)
    start = [torch.randn(3 * 256, 256, device=CARD), torch.randn(256, 256, device=CARD)]
    ways = (MuonSettings(torch.float32), MuonSettings(torch.bfloat16), MuonSettings(torch.bfloat16, kernels=True))
    for exact, plain, ours, before in zip(*(_steps(start, how) for how in ways), start, strict=True):
        moved = float((exact - before).norm())
        error, plain_error = (float((each - exact).norm()) / moved for each in (ours, plain))
        assert moved > 0.1
        assert error < max(0.02, 1.2 * plain_error) < 0.06


def test_muon_in_kernels_is_exact_where_nothing_is_rounded() -> None:
    torch.manual_seed(0)
    start = [torch.randn(3 * 256, 256, device=CARD), torch.randn(256, 256, device=CARD)]
    ways = (MuonSettings(torch.float32), MuonSettings(torch.float32, kernels=True))
    for plain, ours, before in zip(*(_steps(start, how) for how in ways), start, strict=True):
        assert float((ours - plain).norm()) < 1e-3 * float((plain - before).norm())
