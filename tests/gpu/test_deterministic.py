"""deterministic=True on a real card: the same bits every time. `bench/deterministic.py` also kills runs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from nanopace.config import Asked
from nanopace.errors import UsageError
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import MODEL, OPTIMIZER
from nanopace.train.fused.attention import (
    FIXED_ORDER,
    OURS,
    Attention,
    attention_by,
    pick_fixed_order,
)
from nanopace.train.loop.loop import Loop
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.recipes import new_model
from nanopace.train.plan.device import has_fp8
from nanopace.train.run import train

from ..train.conftest import Recorder
from .test_train import CARD, corpus, kernels, run  # noqa: F401

pytest.importorskip("triton")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card")]

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as a run does; torch reads it at the first product
LENGTH = 1024
SHAPES = {
    "gpt2": ModelShape(n_layer=2, n_head=12, n_embd=768, vocab_size=50304, block_size=LENGTH),
    "fast": ModelShape(n_layer=3, n_head=6, n_embd=768, vocab_size=50304, block_size=LENGTH, recipe="fast"),
}


def frequent_and_rare(count: int) -> Tensor:
    """Tokens with frequencies like words': some segments are hundreds of pieces long, others a single row."""
    drawn = torch.rand(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (50304**drawn - 1).long().to(CARD)


def attended(attention: Attention, heads: int, width: int, batch: int) -> tuple[list[Tensor], list[Tensor]]:
    """Gradients of queries, keys and values, and what they should be."""
    generator = torch.Generator(CARD).manual_seed(1)
    packed, d_out = (
        torch.randn((batch, LENGTH, *rest), device=CARD, generator=generator, dtype=torch.bfloat16)
        for rest in ((3, heads, width), (heads, width))
    )
    q, k, v = (each.transpose(1, 2).requires_grad_() for each in packed.unbind(2))
    out, sums = attention.forward(q, k, v, 0.1)
    found = attention.backward(out, sums, (q, k, v), d_out.transpose(1, 2), 0.1)
    q, k, v = (each.detach().float().requires_grad_() for each in (q, k, v))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        exact = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.1)
        exact.backward(d_out.transpose(1, 2).float())
    return [each.float() for each in found], [each.grad for each in (q, k, v) if each.grad is not None]


@pytest.mark.parametrize(("heads", "width"), [(12, 64), (6, 128)])
@pytest.mark.parametrize("name", FIXED_ORDER)
def test_attention_in_a_fixed_order_is_attention(name: str, heads: int, width: int) -> None:
    for switch in ("cudnn", "flash", "mem_efficient", "math"):
        getattr(torch.backends.cuda, f"enable_{switch}_sdp")(switch.removeprefix("mem_") in (name, "math"))
    attention = attention_by(name, fixed_order=True)
    found, exact = attended(attention, heads, width, 4)
    for one, other in zip(found, exact, strict=True):
        assert float((one - other).norm() / other.norm()) < 0.01
    again, _ = attended(attention, heads, width, 4)
    assert all(torch.equal(one, other) for one, other in zip(found, again, strict=True))


def test_the_rule_picks_the_fastest_that_takes_the_shape() -> None:
    shape = SHAPES["gpt2"]
    picked, said = pick_fixed_order(shape, CARD, torch.bfloat16, ours=True)
    assert picked == OURS
    assert said == f"{picked}: the same bits every time"
    assert pick_fixed_order(shape, CARD, torch.bfloat16, ours=False)[0] == "flash"
    assert pick_fixed_order(shape, CARD, torch.float32, ours=True)[0] == "efficient"


@pytest.mark.parametrize("recipe", SHAPES)
def test_gradients_have_the_same_bits_every_time(recipe: str) -> None:
    """As many tokens as it takes to keep a whole card busy: with few, atomics happen to be in order."""
    from nanopace.train.fused.fast import FusedFastGPT
    from nanopace.train.fused.gpt2 import FusedGPT
    from nanopace.train.kernels.fp8 import products_by_rule
    from nanopace.train.models.fast import FastGPT

    shape = SHAPES[recipe]
    torch.manual_seed(0)
    with CARD:
        model = new_model(shape)
    with torch.no_grad():  # no branch begins at 0
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.02)
    fp8 = products_by_rule(shape)[0] if has_fp8(CARD) else ()
    fused = FusedFastGPT(model, (), fp8) if isinstance(model, FastGPT) else FusedGPT(model, (), fp8)
    fused.attention = attention_by(pick_fixed_order(shape, CARD, torch.bfloat16, ours=True).kernel, fixed_order=True)
    windows = frequent_and_rare(32 * LENGTH).view(32, LENGTH)
    found: list[list[Tensor]] = []
    for _ in range(4):
        fused.zero_grad()
        fused.gradients(windows, windows.roll(-1, 1))
        fused.finish()
        found.append([each.grad.clone() for each in model.parameters() if each.grad is not None])
    names = [name for name, _ in model.named_parameters()]
    for other in found[1:]:
        assert [name for name, a, b in zip(names, found[0], other, strict=True) if not torch.equal(a, b)] == []


def test_a_graph_has_the_same_bits_as_its_kernels_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock decides whether a micro-step is a graph, and it may decide differently after a resume."""
    from nanopace.train.fused.gpt2 import FusedGPT
    from nanopace.train.loop import passes as passes_module

    shape = SHAPES["gpt2"]
    torch.manual_seed(0)
    with CARD:
        model = new_model(shape)
    fused = FusedGPT(model)
    fused.attention = attention_by(pick_fixed_order(shape, CARD, torch.bfloat16, ours=True).kernel, fixed_order=True)
    passes = passes_module.FusedPasses(fused)
    windows = frequent_and_rare(4 * LENGTH).view(4, LENGTH)
    monkeypatch.setattr(passes_module, "_LAUNCH_BOUND", 0.0)
    found = []
    for _ in range(2):
        passes.zero_grad()
        passes(windows, windows.roll(-1, 1), 1)
        passes.finish()
        found.append([each.grad.clone() for each in model.parameters() if each.grad is not None])
        if len(found) == 1:
            assert passes.capture_graph(windows, windows.roll(-1, 1), 1) is not None
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def weights(out: Path) -> dict[str, Tensor]:
    (last, *_) = sorted((out / "checkpoints").iterdir(), reverse=True)
    return {**load_file(last / MODEL), **load_file(last / OPTIMIZER)}


@pytest.mark.parametrize(
    "knobs",
    [
        {"compile": True, "dropout": 0.0, "dtype": "bfloat16"},
        {"compile": True, "dropout": 0.0, "dtype": "bfloat16", "recipe": "fast"},
        {"compile": False, "dtype": "float32"},
        {"compile": False, "dtype": "float16"},
    ],
    ids=["gpt2", "fast", "eager", "scaled"],
)
def test_a_resumed_run_equals_one_that_was_never_stopped(corpus: Path, tmp_path: Path, knobs: dict[str, Value]) -> None:  # noqa: F811
    same: dict[str, Value] = {**knobs, "deterministic": True, "n_embd": 256, "n_head": 4}
    same |= {"save_interval": 10, "keep_last": 9}
    _, told = run(corpus, tmp_path / "whole", **same)
    run(corpus, tmp_path / "cut", **same)
    for folder in (tmp_path / "cut" / "checkpoints").iterdir():
        if folder.name > "step-00000020":
            for file in folder.iterdir():
                file.unlink()
            folder.rmdir()
    listener = Recorder()
    resuming: dict[str, Value] = {"init_from": "resume", "out_dir": str(tmp_path / "cut"), "device": "cuda"}
    train(Asked(given=resuming), listener=listener, started=time.monotonic())
    assert min(listener.losses) == 20
    assert [listener.losses[step] for step in range(20, 31)] == [told.losses[step] for step in range(20, 31)]
    whole, cut = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert [name for name, each in whole.items() if not torch.equal(each, cut[name])] == []


def test_a_bit_that_flips_on_the_card_stops_the_run(
    corpus: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until then, micro-batches computed twice are the same."""
    plain = Loop._between_steps

    def between(loop: Loop) -> None:
        plain(loop)
        if loop.iteration == 23:
            weight = next(loop._parts.model.parameters()).detach()
            weight.view(-1).view(torch.int32)[7] ^= 1

    monkeypatch.setattr(Loop, "_between_steps", between)
    knobs: dict[str, Value] = {"compile": True, "dropout": 0.0, "dtype": "bfloat16", "deterministic": True}
    with pytest.raises(UsageError, match=r"step 23: transformer\.wte.weight changed between two updates"):
        run(corpus, tmp_path / "out", **knobs, check_every=5, save_interval=10)
