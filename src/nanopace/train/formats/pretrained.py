"""Pretrained weights, whatever form they came in.

`nanogpt_checkpoint`, `huggingface` and `checkpoint/layout` are the forms; `convert` tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor, nn

from nanopace.corpus.tokenizers.tokenizer import Tokenizer, gpt2
from nanopace.errors import InputError
from nanopace.literals import Value
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.models.recipes import meta_model
from nanopace.train.models.weight_shapes import DTYPES, HEAD, TOKENS

if TYPE_CHECKING:
    from nanopace.train.checkpoint.choose import Chosen


_GPT2_SIZES = (50257, 50304)  # GPT-2's vocabulary, exact and as nanoGPT rounds it up
_BEYOND = 1 << 40  # steps: more than any run takes
_MASKS = (".attn.bias", ".attn.masked_bias")  # older releases also saved the causal mask


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pretrained:
    """A model's weights by nanoGPT's names, and what is known about their history."""

    path: Path
    shape: ModelShape
    weights: Mapping[str, Tensor]  # the tied table is one tensor with two names
    step: int = 0
    config: Mapping[str, Value] = field(default_factory=dict)
    tokenizer: Tokenizer | None = None
    optimizer: Mapping[str, Tensor] | None = None  # AdamW's averages, by "exp_avg.<weight>"
    best: tuple[int, float] | None = None  # step and validation loss of the best evaluation
    windows: int = 0  # of training data read so far
    tokenizer_assumed: bool = False  # from the size of the vocabulary alone
    chosen: Chosen | None = None  # which of a run's checkpoints; None if there was only one model

    def model(self, device: torch.device | str = "cpu") -> GPT:
        """The model in eval mode, in float32. Weights are not copied where that can be avoided."""
        model = meta_model(self.shape)
        model.load_state_dict(dict(self.weights), assign=True)
        model.transformer["wte"].weight = model.lm_head.weight  # assign=True untied them
        return model.to(device=device, dtype=torch.float32).eval()


def assumed_tokenizer(shape: ModelShape) -> Tokenizer | None:
    """For a model without a tokenizer: GPT-2's if the vocabulary has its size, as nanoGPT assumes."""
    return gpt2() if shape.vocab_size in _GPT2_SIZES else None


def only_weights(path: Path, found: Iterable[tuple[str, object]]) -> dict[str, Tensor]:
    """The weights by name, without masks. Raise if anything else is among them."""
    weights: dict[str, Tensor] = {}
    for name, tensor in found:
        if name.endswith(_MASKS):
            continue
        if name in weights:
            raise InputError("{path}: has two weights named {name}", path=path, name=name)
        if not holds_floats(tensor):
            raise InputError("{path}: {name} is not a weight", path=path, name=name)
        claimed = tensor.numel() * tensor.element_size()
        if tensor.is_meta or claimed > tensor.untyped_storage().nbytes():  # a few bytes can claim a terabyte
            raise InputError("{path}: {name} has fewer values than it claims", path=path, name=name)
        weights[name] = tensor
    return weights


def holds_floats(found: object) -> TypeGuard[Tensor]:
    """Whether it is a plain tensor of floats: not nested, sparse, quantized or of a subclass."""
    if type(found) not in (Tensor, nn.Parameter):
        return False
    assert isinstance(found, Tensor)
    return found.dtype in DTYPES and found.layout == torch.strided and not found.is_nested


def step_of(found: object) -> int:
    """The step of the weights as recorded in a file; 0 if it is missing or impossible."""
    return found if type(found) is int and 0 <= found < _BEYOND else 0


def dropout_of(found: object) -> float:
    """The dropout as recorded in a file; 0 if it is missing or impossible."""
    return float(found) if isinstance(found, (int, float)) and 0 <= found < 1 else 0.0


def tied(path: Path, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights with one tensor under both names of the tied table, which reads tokens and predicts them."""
    table, head = weights.get(TOKENS), weights.get(HEAD)
    if table is None:
        raise InputError("{path}: is not a GPT-2: it has no weight named {name}", path=path, name=TOKENS)
    if head is not None and not _same(head, table):
        raise InputError("{path}: {a} and {b} differ, but in a GPT-2 they are the same", path=path, a=TOKENS, b=HEAD)
    return {**weights, HEAD: table}


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and (a.data_ptr() == b.data_ptr() or torch.equal(a, b))
