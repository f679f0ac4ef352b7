"""Our own kernels on a real card: `pytest -m gpu tests/gpu`. tests/train/kernels uses the card, too."""

from __future__ import annotations

import re
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nanopace.config import Asked
from nanopace.literals import Value
from nanopace.train.kernels import fp8 as fp8_module
from nanopace.train.kernels.fp8 import PRODUCTS, pick_products
from nanopace.train.loop import passes as passes_module
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.out_of_memory import make_room
from nanopace.train.plan.device import has_fp8
from nanopace.train.run import train

from ..train.conftest import Recorder
from .test_faults import BROAD, GIB, all_of_the_card, largest  # noqa: F401
from .test_train import CARD, corpus, events, kernels, run  # noqa: F401

pytest.importorskip("triton")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card")]

# GPT-2's vocabulary and context, with fewer layers.
SHAPE = ModelShape(n_layer=2, n_head=4, n_embd=256, vocab_size=50304, block_size=1024)
# So slow that rounding errors do not grow: float32 and bfloat16 end within 0.002 of each other.
OURS: dict[str, Value] = {
    "compile": True, "dtype": "bfloat16", "dropout": 0.0, "learning_rate": 1e-3, "min_lr": 1e-4,
}  # fmt: skip


@pytest.fixture
def model() -> GPT:
    """The norms' weights are not 1, as in a model that has learned something."""
    torch.manual_seed(0)
    model = GPT(SHAPE)
    with torch.no_grad():
        for each in model.parameters():
            if each.dim() == 1:
                each.add_(torch.randn_like(each) * 0.3)
    return model.to(CARD)


def windows(seed: int, batch: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(0, SHAPE.vocab_size, (batch, SHAPE.block_size + 1), generator=generator).to(CARD)
    return drawn[:, :-1], drawn[:, 1:]


def gradients(model: GPT) -> dict[str, Tensor]:
    return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


def errors(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, float]:
    assert found.keys() == expected.keys()
    return {name: float((found[name] - each).norm() / each.norm()) for name, each in expected.items()}


def test_the_loss_and_every_gradient(model: GPT) -> None:
    """In float32 with autograd, under autocast, and with our kernels, which lose about as much as autocast does."""
    from nanopace.train.fused.gpt2 import FusedGPT

    tokens, targets = windows(1)
    exact = model(tokens, targets)
    exact.backward()
    expected = gradients(model)
    model.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(tokens, targets)
    loss.backward()
    autocast = errors(gradients(model), expected)

    fused = FusedGPT(model)
    loss = fused.gradients(tokens, targets)
    fused.finish()
    ours = errors(gradients(model), expected)
    assert loss.item() == pytest.approx(exact.item(), abs=2e-3)
    assert {name: each for name, each in ours.items() if not each < max(1.5e-2, 2 * autocast[name])} == {}
    with torch.no_grad():
        torch.testing.assert_close(
            fused.sequence_losses(tokens, targets), model.sequence_losses(tokens, targets), rtol=0, atol=1e-2
        )


def test_a_cuda_graph_changes_nothing(model: GPT, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even with other tokens, shapes and weights."""
    from nanopace.train.fused.gpt2 import FusedGPT

    twin = GPT(SHAPE).to(CARD)
    twin.load_state_dict(model.state_dict())
    plain, recorded = (passes_module.FusedPasses(FusedGPT(each)) for each in (model, twin))
    monkeypatch.setattr(passes_module, "_LAUNCH_BOUND", float("inf"))
    plain(*windows(1), 2)
    assert plain.capture_graph(*windows(1), 2) is None
    monkeypatch.setattr(passes_module, "_LAUNCH_BOUND", 0.0)
    recorded(*windows(1), 2)
    assert "CUDA graph" in str(recorded.capture_graph(*windows(1), 2))
    for passes in (plain, recorded):
        passes.zero_grad()
    batches = windows(2), windows(3), windows(4, batch=2)
    for _ in range(2):
        losses = []
        for passes in (plain, recorded):
            losses.append([passes(*each, 2).item() for each in batches])
            passes.finish()
        assert losses[1] == pytest.approx(losses[0], abs=1e-3)
        found = errors(gradients(twin), gradients(model))
        assert {name: each for name, each in found.items() if not each < 5e-3} == {}  # sums are in another order
        for each, passes in ((model, plain), (twin, recorded)):
            _descend(each)
            passes.zero_grad()
            passes.refresh_copies()


@torch.no_grad()
def _descend(model: GPT) -> None:
    for each in model.parameters():
        assert each.grad is not None
        each.sub_(each.grad, alpha=0.1)


def way(out: Path) -> Any:
    """The kernels that a run reports."""
    return events(out, "run")[0]["choices"]["kernels"].split(":")[0]


def test_runs_with_and_without_them_learn_alike(corpus: Path, tmp_path: Path) -> None:  # noqa: F811
    _, ours = run(corpus, tmp_path / "ours", **OURS, fused=True)
    _, compiled = run(corpus, tmp_path / "compiled", **OURS, fused=False)
    assert (way(tmp_path / "ours"), way(tmp_path / "compiled")) == ("fused", "compiled")
    assert ours.losses[30] < ours.losses[0] - 1
    assert ours.losses[0] == pytest.approx(compiled.losses[0], abs=2e-3)
    assert ours.losses[30] == pytest.approx(compiled.losses[30], abs=0.02)
    assert ours.all("eval")[-1].val == pytest.approx(compiled.all("eval")[-1].val, abs=0.02)


@pytest.mark.parametrize("bound", [0.0, float("inf")])
def test_a_recorded_run_says_so(
    corpus: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bound: float,
) -> None:
    monkeypatch.setattr(passes_module, "_LAUNCH_BOUND", bound)
    _, told = run(corpus, tmp_path / "out", **OURS, max_iters=5)
    assert sum("CUDA graph" in each for each in told.all("note")) == (1 if bound == 0.0 else 0)
    assert all(torch.isfinite(torch.tensor(list(told.losses.values()))))


def test_a_resumed_run_goes_on_as_it_would_have(corpus: Path, tmp_path: Path) -> None:  # noqa: F811
    _, whole = run(corpus, tmp_path / "whole", **OURS)
    run(corpus, tmp_path / "cut", **OURS, max_iters=14)
    listener = Recorder()
    given: dict[str, Value] = {"init_from": "resume", "out_dir": str(tmp_path / "cut"), "max_iters": 17}
    train(Asked(given=given, auto=True), listener=listener, started=time.monotonic())
    assert listener.losses[15] == pytest.approx(whole.losses[15], abs=5e-3)


def test_a_run_can_go_on_with_what_the_compiler_makes(corpus: Path, tmp_path: Path) -> None:  # noqa: F811
    """The checkpoint does not depend on kernels."""
    _, whole = run(corpus, tmp_path / "whole", **OURS)
    run(corpus, tmp_path / "cut", **OURS, max_iters=14)
    listener = Recorder()
    given: dict[str, Value] = {
        "init_from": "resume", "out_dir": str(tmp_path / "cut"), "max_iters": 17, "fused": False,
    }  # fmt: skip
    train(Asked(given=given, auto=True), listener=listener, started=time.monotonic())
    assert listener.losses[15] == pytest.approx(whole.losses[15], abs=2e-2)


def test_a_batch_that_does_not_fit_into_the_limit(corpus: Path, tmp_path: Path) -> None:  # noqa: F811
    knobs = {**BROAD, **OURS, "batch_size": 256}
    _, large = run(corpus, tmp_path / "large", **knobs)
    make_room(CARD)
    torch.cuda.reset_peak_memory_stats(CARD)
    _, told = run(corpus, tmp_path / "small", **knobs, memory_limit="2GiB")
    assert torch.cuda.max_memory_reserved(CARD) <= 2 * GIB
    assert largest(events(tmp_path / "small", "micro_batch"), "startup", "step") < 256
    assert list(told.losses) == list(range(11))
    first = range(5)  # later, rounding errors have grown
    assert [told.losses[step] for step in first] == pytest.approx([large.losses[step] for step in first], abs=0.03)


# --- in 8 bits -------------------------------------------------------------------------------------------------------

eight_bits = pytest.mark.skipif(not torch.cuda.is_available() or not has_fp8(CARD), reason="the card has no 8 bits")


@eight_bits
def test_eight_bits_cost_little_of_the_loss_and_the_gradients(model: GPT) -> None:
    from nanopace.train.fused.gpt2 import FusedGPT

    found = []
    for fp8 in ((), PRODUCTS):
        fused = FusedGPT(model, fp8=fp8)
        loss = fused.gradients(*windows(1))
        fused.finish()
        found.append((loss.item(), gradients(model), fused.sequence_losses(*windows(1))))
        fused.zero_grad()
    (loss, slopes, evaluated), (rounded, others, evaluated_too) = found
    assert 0 < abs(rounded - loss) < 0.01
    assert max(errors(others, slopes).values()) < 0.15
    assert torch.equal(evaluated, evaluated_too)


@eight_bits
def test_eight_bits_in_a_cuda_graph(model: GPT, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with other weights: the scales are where the graph reads them."""
    from nanopace.train.fused.gpt2 import FusedGPT

    monkeypatch.setattr(passes_module, "_LAUNCH_BOUND", 0.0)
    passes = passes_module.FusedPasses(FusedGPT(model, fp8=PRODUCTS))
    passes(*windows(1), 2)
    assert "CUDA graph" in str(passes.capture_graph(*windows(1), 2))
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(1.3)
    passes.refresh_copies()
    losses = []
    other = deepcopy(model)  # otherwise it would take over the gradients that the graph writes to
    for way in (passes, passes_module.FusedPasses(FusedGPT(other, fp8=PRODUCTS))):
        way.zero_grad()
        losses.append(way(*windows(2), 2).item())
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)


@eight_bits
def test_a_run_in_eight_bits_learns_as_one_without(
    corpus: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fp8_module, "_WORTH_IT", 0.0)  # for so small a model, it is not worth it
    fp8_module._speeds.cache_clear()
    knobs = {**OURS, "vocab_size": 272}
    _, plain = run(corpus, tmp_path / "plain", **knobs)
    _, told = run(corpus, tmp_path / "fp8", **knobs, fp8=True)
    assert told.losses[30] < told.losses[0] - 1
    assert told.losses[0] != plain.losses[0]
    assert told.losses[30] == pytest.approx(plain.losses[30], abs=0.02)
    assert told.all("eval")[-1].val == pytest.approx(plain.all("eval")[-1].val, abs=0.02)
    choices = [events(tmp_path / each, "run")[0]["choices"].get("fp8") for each in ("plain", "fp8")]
    assert choices[0] is None
    assert re.fullmatch(r"speed relative to bf16: qkv ×[\d.]+, into ×[\d.]+, head ×[\d.]+", choices[1])


@eight_bits
@pytest.mark.parametrize("width", [768, 2048])
def test_what_eight_bits_are_worth_is_measured_once(width: int) -> None:
    fp8_module._speeds.cache_clear()
    shape = ModelShape(n_layer=1, n_head=width // 64, n_embd=width, vocab_size=50304, block_size=1024)
    picked, said = pick_products(shape, 1 << 15, CARD)
    fp8_module._speeds.cache_clear()
    assert pick_products(shape, 1 << 15, CARD) == (picked, f"{said}, measured earlier")
