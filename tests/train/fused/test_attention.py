"""Attention's gradients without torch.autograd.grad, and what is measured to choose a kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from nanopace.config import TrainConfig
from nanopace.train.fused import attention
from nanopace.train.fused.attention import (
    FIXED_ORDER,
    OURS,
    Attention,
    CudnnThenOurs,
    TorchAttention,
    attention_by,
    pick_attention,
    pick_fixed_order,
)
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.recipes import new_model
from nanopace.train.parallel import parallelize
from nanopace.train.plan.run_plan import Choice
from nanopace.train.private_torch import deterministic_algorithms
from nanopace.wording.catalog import words

from ..planning import plan_with


def test_slopes_are_those_of_autograd() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn((2, 3, 8, 4), generator=generator).requires_grad_() for _ in range(3))
    d_found = torch.randn((2, 3, 8, 4), generator=generator)
    attention = TorchAttention()
    out, sums = attention.forward(q, k, v)
    ours = attention.backward(out, sums, (q, k, v), d_found)
    theirs = torch.autograd.grad(functional.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), d_found)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)
    assert q.grad is None


SHAPE = ModelShape(n_layer=1, n_head=2, n_embd=32, vocab_size=64, block_size=8)


@pytest.mark.parametrize(
    ("times", "best", "said", "german"),
    [
        (
            (0.514, 0.5136, 1.2),
            "flash",
            "flash: 0.51 ms per layer (cudnn 0.51 ms, efficient 1.20 ms)",
            "0,51 ms pro Layer",
        ),
        ((None, None, 1.2), "efficient", "efficient: 1.20 ms per layer", "efficient: 1,20 ms pro Layer"),
        ((None, None, None), "math", "math: no fused kernel supports this shape", "math: kein fusionierter Kernel"),
    ],
)
def test_the_fastest_kernel_is_picked_and_said_and_remembered(
    times: tuple[float | None, ...],
    best: str,
    said: str,
    german: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the times differ by less than is remembered."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    clock, on = iter(times), list[tuple[str, ...]]()
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA GeForce RTX 4070")
    monkeypatch.setattr(attention, "_switch_on", lambda *kept: on.append(kept))
    monkeypatch.setattr(attention, "_time", lambda *_: next(clock))
    first, second = (pick_attention(SHAPE, 1, torch.device("cuda"), torch.bfloat16) for _ in range(2))
    assert on[-2:] == [(best, "math")] * 2
    assert (first, second) == ((best, said), (best, f"{said}, measured earlier"))
    assert german in words("de").message(second.reason)
    (answers,) = tmp_path.rglob("attention.json")
    answers.write_text(answers.read_text().replace(': "', ': "of another version '))
    clock = iter(times)
    assert pick_attention(SHAPE, 1, torch.device("cuda"), torch.bfloat16).reason == said


_STARTS = """
import sys, torch
from nanopace.train.fused.gpt2 import FusedGPT
from nanopace.train.models.gpt2 import GPT, ModelShape
fused = FusedGPT(GPT(ModelShape(n_layer=1, n_head=2, n_embd=32, vocab_size=64, block_size=8)))
tokens = torch.zeros((1, 8), dtype=torch.long)
fused.gradients(tokens, tokens)
sys.exit("sympy" in sys.modules)
"""


def test_a_micro_step_does_not_import_a_computer_algebra_system() -> None:
    """It takes 1.6 s, and torch.autograd.grad imports it."""
    subprocess.run([sys.executable, "-c", _STARTS], check=True, timeout=120)


@pytest.mark.parametrize(
    ("refused", "ours", "generation", "dtype", "picked"),
    [
        ((), True, 9, torch.bfloat16, OURS),
        ((), False, 9, torch.bfloat16, "flash"),
        ((), True, 9, torch.float32, "flash"),
        ((), True, 8, torch.bfloat16, "flash"),
        ((), True, 12, torch.bfloat16, "flash"),
        ((OURS,), True, 9, torch.bfloat16, "flash"),
        ((OURS, "flash"), True, 9, torch.bfloat16, "efficient"),
        (FIXED_ORDER, True, 9, torch.bfloat16, "math"),
    ],
)
def test_a_fixed_order_is_a_rule_and_nothing_is_timed(
    refused: tuple[str, ...],
    ours: bool,
    generation: int,
    dtype: torch.dtype,
    picked: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    switched = list[tuple[str, ...]]()
    monkeypatch.setattr(attention, "_switch_on", lambda *kept: switched.append(kept))
    monkeypatch.setattr(attention, "_time", None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (generation, 0))

    def trial(tried: Attention, *_: object) -> Callable[[], None]:
        assert isinstance(tried, CudnnThenOurs) == (switched[-1] == (OURS,))

        def fail() -> None:
            raise RuntimeError("no available kernel")

        return fail if switched[-1][0] in refused else lambda: None

    monkeypatch.setattr(attention, "_trial", trial)
    found = pick_fixed_order(SHAPE, torch.device("cuda"), dtype, ours=ours)
    assert found == (picked, f"{picked}: the same bits every time")
    assert switched[-1] == (picked, "math")


def test_a_cpu_has_only_one_kernel() -> None:
    assert pick_fixed_order(SHAPE, torch.device("cpu"), torch.float32, ours=False).kernel == "math"


@pytest.mark.parametrize("name", FIXED_ORDER[1:])
def test_in_a_fixed_order_torch_must_not_use_anything_else(name: str) -> None:
    """In both passes, and as before afterwards."""
    seen = list[bool]()

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(_: Any, grad: torch.Tensor) -> torch.Tensor:
            seen.append(torch.are_deterministic_algorithms_enabled())
            return grad

    x = torch.randn(1, 2, 8, 4, requires_grad=True)
    fixed = attention_by(name, fixed_order=True)
    out, sums = fixed.forward(Watched.apply(x), x, x)
    assert sums is None
    fixed.backward(out, sums, (x,), torch.ones_like(out))
    assert seen == [True]
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_run_has_what_was_picked(corpus: Path, tmp_path: Path, deterministic: bool) -> None:
    pytest.importorskip("triton")
    small: dict[str, Any] = {"n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 16, "compile": False}
    config = TrainConfig(deterministic=deterministic, out_dir=str(tmp_path / "out"), **small)
    plan = plan_with(config, corpus, kernels=Choice("fused", "as on a card"), attention_kernel="flash")
    fused = parallelize(new_model(plan.shape), plan).fused
    assert isinstance(fused.attention, TorchAttention)
    assert fused.attention._algorithms is (deterministic_algorithms if deterministic else nullcontext)
    ours = parallelize(new_model(plan.shape), replace(plan, attention_kernel=OURS)).fused
    assert isinstance(ours.attention, CudnnThenOurs)
