"""Attention's gradients without torch.autograd.grad, and what is measured to choose a kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from nanopace.train.fused import attention
from nanopace.train.fused.attention import TorchAttention, pick_attention
from nanopace.train.models.gpt2 import ModelShape
from nanopace.wording.catalog import words


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
    assert (first, second) == (said, f"{said}, measured earlier")
    assert german in words("de").message(second)
    (answers,) = tmp_path.rglob("attention.json")
    answers.write_text(answers.read_text().replace(': "', ': "of another version '))
    clock = iter(times)
    assert pick_attention(SHAPE, 1, torch.device("cuda"), torch.bfloat16) == said


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
