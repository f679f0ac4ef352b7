"""Weights that are already there, in whatever form they came: their shape is read from the weights themselves.

What a file says of its weights is held against what they are, so that nothing is built from a number that somebody only
wrote. The forms are those of `nanogpt_checkpoint`, `huggingface` and `checkpoint_files`; `convert` tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor, nn

from nanopace.corpus.tokenizer import Tokenizer, gpt2
from nanopace.errors import InputError
from nanopace.literals import Value, shown
from nanopace.train.model import GPT, ModelShape
from nanopace.train.recipes import outline

if TYPE_CHECKING:
    from nanopace.train.which import Chosen

TOKENS, POSITIONS, HEAD = "transformer.wte.weight", "transformer.wpe.weight", "lm_head.weight"

_GPT2_SIZES = (50257, 50304)  # GPT-2's vocabulary, bare and as nanoGPT rounds it up
_LAYER = re.compile(r"transformer\.h\.(\d{1,6})\.")
_MANY = 100  # layers: more than a real model has
_OF_A_LAYER = 6  # weights, without biases
_BEYOND = 1 << 40  # steps: no run gets there
_MASKS = (".attn.bias", ".attn.masked_bias")  # older releases saved the causal mask, too
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pretrained:
    """A model's weights by nanoGPT's names, and what is known of their past."""

    path: Path
    shape: ModelShape
    weights: Mapping[str, Tensor]  # the tied table has two names, and is one tensor
    step: int = 0
    config: Mapping[str, Value] = field(default_factory=dict)
    tokenizer: Tokenizer | None = None
    optimizer: Mapping[str, Tensor] | None = None  # AdamW's averages, by "exp_avg.<weight>"
    best: tuple[int, float] | None = None  # step and validation loss of the best evaluation
    windows: int = 0  # of the training data that came before
    tokenizer_assumed: bool = False  # by the size of the vocabulary alone
    chosen: Chosen | None = None  # of the checkpoints of a run; None: there was one model, and nothing to choose

    def model(self, device: torch.device | str = "cpu") -> GPT:
        """Ready to be asked, in float32. The weights are taken as they lie where that is possible, and not copied."""
        model = outline(self.shape)
        model.load_state_dict(dict(self.weights), assign=True)
        model.transformer["wte"].weight = model.lm_head.weight  # assigning has untied them
        return model.to(device=device, dtype=torch.float32).eval()


def assumed_tokenizer(shape: ModelShape) -> Tokenizer | None:
    """Of a model that brings none: GPT-2's, if the vocabulary has its size, which is what nanoGPT assumes."""
    return gpt2() if shape.vocab_size in _GPT2_SIZES else None


def only_weights(path: Path, found: Iterable[tuple[str, object]]) -> dict[str, Tensor]:
    """What a file holds under each name, once it is sure that these are weights; without the masks."""
    weights: dict[str, Tensor] = {}
    for name, tensor in found:
        if name.endswith(_MASKS):
            continue
        if name in weights:
            raise InputError("{path}: has two weights named {name}", path=path, name=name)
        if not holds_floats(tensor):
            raise InputError("{path}: {name} is not a weight", path=path, name=name)
        claimed = tensor.numel() * tensor.element_size()
        if tensor.is_meta or claimed > tensor.untyped_storage().nbytes():  # a few bytes can claim to be a terabyte
            raise InputError("{path}: {name} has fewer values than it claims", path=path, name=name)
        weights[name] = tensor
    return weights


def holds_floats(found: object) -> TypeGuard[Tensor]:
    """A plain tensor. One that is nested, sparse, quantized or a class of its own has no values that lie in a row."""
    if type(found) not in (Tensor, nn.Parameter):
        return False
    assert isinstance(found, Tensor)
    return found.dtype in DTYPES and found.layout == torch.strided and not found.is_nested


def step_of(found: object) -> int:
    """What a file says of the step that its weights are of; 0 where it says nothing that can be."""
    return found if type(found) is int and 0 <= found < _BEYOND else 0


def tied(path: Path, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """With one tensor under both names of the table that reads tokens and predicts them."""
    table, head = weights.get(TOKENS), weights.get(HEAD)
    if table is None:
        raise InputError("{path}: is not a GPT-2: it has no weight named {name}", path=path, name=TOKENS)
    if head is not None and not _same(head, table):
        raise InputError("{path}: {a} and {b} differ, and in a GPT-2 they are one", path=path, a=TOKENS, b=HEAD)
    return {**weights, HEAD: table}


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and (a.data_ptr() == b.data_ptr() or torch.equal(a, b))


def shape_of(
    path: Path, weights: Mapping[str, Tensor], *, n_head: object, dropout: float, activation: str = "gelu"
) -> ModelShape:
    """The shape that the weights have. The number of heads leaves no trace in them, so it has to be told."""
    tables = [weights.get(name) for name in (TOKENS, POSITIONS)]
    if any(table is None or table.dim() != 2 or table.numel() == 0 for table in tables):
        raise InputError("{path}: is not a GPT-2: it lacks the tables of tokens and positions", path=path)
    (vocab_size, n_embd), (block_size, _) = (table.shape for table in tables if table is not None)
    if not isinstance(n_head, int) or isinstance(n_head, bool) or n_head < 1 or n_embd % n_head:
        raise InputError(
            "{path}: n_head must divide n_embd: {n_head} heads, and the weights are {n_embd} wide",
            path=path,
            n_head=shown(n_head),
            n_embd=n_embd,
        )
    shape = ModelShape(
        n_layer=_layers(path, weights),
        n_head=n_head,
        n_embd=n_embd,
        vocab_size=vocab_size,
        block_size=block_size,
        bias="transformer.ln_f.bias" in weights,
        dropout=dropout,
        activation=activation,
    )
    _check_names(path, weights, shape)
    return shape


def fast_shape_of(path: Path, weights: Mapping[str, Tensor], said: ModelShape) -> ModelShape:
    """The shape that the weights of another recipe have, as far as it shows in them; for the rest, what was said."""
    table, positions = weights.get(TOKENS), weights.get(POSITIONS)
    if table is None or table.dim() != 2 or table.numel() == 0 or table.size(1) % said.n_head:
        raise _foreign(path, TOKENS, said)
    shape = replace(
        said,
        n_layer=_layers(path, weights),
        n_embd=table.size(1),
        vocab_size=table.size(0),
        block_size=said.block_size if positions is None or positions.dim() != 2 else positions.size(0),
    )
    expected, found_sizes = weight_shapes(shape), {name: each.shape for name, each in weights.items()}
    if weights.get(HEAD) is table:  # one tensor with two names
        found_sizes.pop(HEAD)
    wrong = sorted(name for name in expected.keys() | found_sizes.keys() if expected.get(name) != found_sizes.get(name))
    if wrong:
        raise _foreign(path, wrong[0], said)
    return shape


def _layers(path: Path, weights: Mapping[str, Tensor]) -> int:
    """How many the names tell of; at least one, so that a model without layers is told what it lacks. An outline is
    made of them, so a few bytes must not claim thousands."""
    count = len({found[1] for found in map(_LAYER.match, weights) if found is not None})
    if count > _MANY and count * _OF_A_LAYER > len(weights):
        raise InputError(
            "{path}: is not a GPT-2: {weights} weights are too few for {layers} layers",
            path=path,
            weights=len(weights),
            layers=count,
        )
    return max(1, count)


def _foreign(path: Path, name: str, said: ModelShape) -> InputError:
    return InputError(
        "{path}: {name} does not belong to a model of recipe={recipe}", path=path, name=name, recipe=said.recipe
    )


def check_said(path: Path, shape: ModelShape, said: Mapping[str, object]) -> None:
    """Hold what the file says of its weights against them; what it does not say is None."""
    for name, value in said.items():
        found = getattr(shape, name)
        if value is not None and value != found:
            raise InputError(
                "{path}: says {name} = {said}, but its weights have {found}",
                path=path,
                name=name,
                said=shown(value),
                found=found,
            )


def weight_shapes(shape: ModelShape) -> dict[str, torch.Size]:
    """What a model of this shape consists of, in the order in which nanoGPT counts its weights."""
    return {name: each.shape for name, each in outline(shape).named_parameters()}


def _check_names(path: Path, weights: Mapping[str, Tensor], shape: ModelShape) -> None:
    expected = weight_shapes(shape)
    for name, size in expected.items():
        if name not in weights:
            raise InputError("{path}: is not a GPT-2: it has no weight named {name}", path=path, name=name)
        if weights[name].shape != size:
            raise InputError(
                "{path}: {name} is {found}, where a GPT-2 of its size has {expected}",
                path=path,
                name=name,
                found=_product(weights[name].shape),
                expected=_product(size),
            )
    for name in weights:
        if name not in expected and name != HEAD:
            raise InputError("{path}: is not a GPT-2: it has a weight named {name}", path=path, name=name)


def _product(size: torch.Size) -> str:
    return "×".join(map(str, size))
