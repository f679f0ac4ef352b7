"""Attention's gradients without torch.autograd.grad, and what is measured to choose a kernel."""

from __future__ import annotations

import subprocess
import sys

import torch
from torch.nn import functional

from nanopace.train.fused.attention import attention_backward


def test_slopes_are_those_of_autograd() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn((2, 3, 8, 4), generator=generator).requires_grad_() for _ in range(3))
    d_found = torch.randn((2, 3, 8, 4), generator=generator)
    ours = attention_backward(functional.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), d_found)
    theirs = torch.autograd.grad(functional.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v), d_found)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)
    assert q.grad is None


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
