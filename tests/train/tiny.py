"""Small models whose weights all differ from their initial values, and checkpoints of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from hypothesis import strategies as st

from nanopace.knob_values import INGREDIENTS
from nanopace.train.formats.pretrained import Pretrained
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.models.recipes import new_model

SHAPE = ModelShape(n_layer=2, n_head=2, n_embd=16, vocab_size=300, block_size=12, bias=True)
FAST = ModelShape(n_layer=5, n_head=2, n_embd=16, vocab_size=300, block_size=12, recipe="fast")
# Those of the model: the others are the optimizer's and the schedule's.
FAST_INGREDIENTS = [name for name in INGREDIENTS["fast"] if name not in ("muon", "normuon", "trapezoid")]


def tiny_model(shape: ModelShape = SHAPE, seed: int = 0) -> GPT:
    """In eval mode, with no bias or gate at zero and no norm at one, so that a missing weight or branch shows."""
    torch.manual_seed(seed)
    model = new_model(shape).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.2)
    return model


def tiny_tokens(shape: ModelShape = SHAPE, batch: int = 3) -> torch.Tensor:
    return torch.randint(0, shape.vocab_size, (batch, shape.block_size), generator=torch.Generator().manual_seed(1))


def tiny_weights(shape: ModelShape = SHAPE, *, step: int = 7) -> Pretrained:
    weights = {name: each.detach() for name, each in tiny_model(shape).state_dict().items()}
    return Pretrained(path=Path("nowhere"), shape=shape, weights=weights, step=step)


@st.composite
def any_weights(draw: st.DrawFn) -> Pretrained:
    """Weights of every kind that a file has to distinguish."""
    bias, activation = draw(st.booleans()), draw(st.sampled_from(["gelu", "gelu_tanh"]))
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.float16]))
    made = tiny_weights(
        replace(SHAPE, bias=bias, activation=activation, dropout=0.125), step=draw(st.integers(0, 10**9))
    )
    return replace(made, weights={name: each.to(dtype) for name, each in made.weights.items()})


def same_weights(a: Pretrained, b: Pretrained) -> bool:
    """Whether they are bit-identical, with the same names."""
    return a.weights.keys() == b.weights.keys() and all(
        torch.equal(each, b.weights[name]) and each.dtype == b.weights[name].dtype for name, each in a.weights.items()
    )
