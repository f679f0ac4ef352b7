"""Reads and writes nanoGPT's ckpt.pt: its `train.py` resumes from what is written here, its `sample.py` samples it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from nanopace.config import KNOBS
from nanopace.corpus.tokenizers.tokenizer import Tokenizer, load_tokenizer
from nanopace.errors import InputError
from nanopace.literals import Value
from nanopace.train.formats.atomic_files import exported_file
from nanopace.train.formats.pretrained import (
    Pretrained,
    assumed_tokenizer,
    dropout_of,
    holds_floats,
    only_weights,
    step_of,
    tied,
)
from nanopace.train.formats.torch_file import read_torch_file
from nanopace.train.models.gpt2 import ACTIVATIONS, ModelShape
from nanopace.train.models.weight_shapes import check_said, shape_of, weight_shapes
from nanopace.train.optim.adamw import ADAMW_STATE

_COMPILED = "_orig_mod."  # torch.compile's prefix to every name
_MODEL_ARGS = ("n_layer", "n_head", "n_embd", "vocab_size", "block_size", "bias")
_NO_LOSS_YET = 1e9  # nanoGPT's best_val_loss before the first evaluation
# Options of torch's AdamW that nanoGPT leaves at their defaults.
_ONLY: Mapping[str, Value] = {"eps": 1e-8, "amsgrad": False, "maximize": False, "decoupled_weight_decay": True}


def load_nanogpt(path: Path) -> Pretrained:
    """Load a ckpt.pt. The optimizer is None unless it is nanoGPT's AdamW over these weights."""
    checkpoint = read_torch_file(path)
    if not isinstance(checkpoint, dict) or not {"model", "model_args"} <= checkpoint.keys():
        raise InputError("{path}: is not a nanoGPT checkpoint: it has no model and model_args", path=path)
    arguments, config = _plain(checkpoint["model_args"]), _plain(checkpoint.get("config"))
    weights = tied(path, _named_weights(path, checkpoint["model"]))
    activation = config.pop("activation", "gelu")
    shape = shape_of(
        path,
        weights,
        n_head=arguments.get("n_head"),
        dropout=dropout_of(arguments.get("dropout")),
        activation=activation if isinstance(activation, str) and activation in ACTIVATIONS else "gelu",
    )
    check_said(path, shape, {name: arguments.get(name) for name in _MODEL_ARGS})
    step = step_of(checkpoint.get("iter_num"))
    optimizer = checkpoint.get("optimizer")
    knobs = _knobs_of(optimizer, shape)
    if "cuda" not in str(config.get("device", "cuda")):
        config["dtype"] = "float32"  # off CUDA, nanoGPT always computes in float32, whatever its dtype says
    if knobs is not None:  # when nanoGPT resumes, AdamW keeps its saved knobs, whatever the config says
        config |= {name: value for name, value in knobs.items() if value != _knob(config, name)}
    tokenizer = _tokenizer(path, shape, config)
    return Pretrained(
        path=path,
        shape=shape,
        weights=weights,
        step=step,
        config=config,
        tokenizer=tokenizer or assumed_tokenizer(shape),
        tokenizer_assumed=tokenizer is None,
        optimizer=None if knobs is None else _moments(optimizer, shape),
        best=_best(step, checkpoint.get("best_val_loss")),
        windows=int(step * _knob(config, "gradient_accumulation_steps") * _knob(config, "batch_size")),
    )


def save_nanogpt(path: Path, pretrained: Pretrained) -> None:
    """Write a ckpt.pt, completely or not at all. nanoGPT only has exact GELU; another one is noted in the config,
    which nanoGPT ignores."""
    shape = pretrained.shape
    config = dict(pretrained.config)
    if shape.activation != "gelu":
        config["activation"] = shape.activation
    checkpoint = {
        "model": {name: each.contiguous() for name, each in pretrained.weights.items()},
        "optimizer": _optimizer_state(shape, config, pretrained.optimizer),
        "model_args": {name: getattr(shape, name) for name in (*_MODEL_ARGS, "dropout")},
        "iter_num": pretrained.step,
        "best_val_loss": _NO_LOSS_YET if pretrained.best is None else pretrained.best[1],
        "config": config,
    }
    with exported_file(path) as file:
        try:
            torch.save(checkpoint, file)
        except RuntimeError as error:  # the archive is cut short; the disk's own error is its context
            raise error.__context__ if isinstance(error.__context__, OSError) else OSError(str(error)) from None


def _plain(found: object) -> dict[str, Value]:
    """The entries with plain values; anything else a fork has put there is dropped."""
    if not isinstance(found, dict):
        return {}
    return {
        name: value
        for name, value in found.items()
        if isinstance(name, str)
        and (isinstance(value, (float, str)) or (isinstance(value, int) and abs(value) < 1 << 63))
    }


def _best(step: int, loss: object) -> tuple[int, float] | None:
    """The best evaluation. nanoGPT saves right after evaluating, so its best loss belongs to the saved iteration."""
    value = loss.item() if holds_floats(loss) and loss.numel() == 1 and not loss.is_meta else loss
    known = isinstance(value, float) and -math.inf < value < _NO_LOSS_YET
    return (step, cast(float, value)) if known else None


def _named_weights(path: Path, model: object) -> dict[str, Tensor]:
    if not isinstance(model, dict) or not all(isinstance(name, str) for name in model):
        raise InputError("{path}: is not a nanoGPT checkpoint: its model is not a table of weights", path=path)
    return only_weights(path, ((name.removeprefix(_COMPILED), each) for name, each in model.items()))


def _knob(config: Mapping[str, Value], name: str) -> float:
    """A number from nanoGPT's config; the default if it is missing or impossible."""
    fitted = KNOBS[name].fitted(config[name]) if name in config else None
    return cast(float, KNOBS[name].default if fitted is None else fitted)


def _tokenizer(path: Path, shape: ModelShape, config: Mapping[str, Value]) -> Tokenizer | None:
    """The tokenizer next to the checkpoint, or where nanoGPT looks for it."""
    for directory in (path.parent, Path("data", str(config.get("dataset", "")))):
        with suppress(InputError):  # a tokenizer.json there may belong to something else
            tokenizer = load_tokenizer(directory)
            if tokenizer is not None and tokenizer.vocab_size <= shape.vocab_size:
                return tokenizer
    return None


# --- AdamW's averages ------------------------------------------------------------------------------------------------


def _numbered(shape: ModelShape) -> tuple[Sequence[str], Sequence[str]]:
    """The names of the weights with decay and of those without: torch numbers them consecutively in this order."""
    dimensions = {name: len(size) for name, size in weight_shapes(shape).items()}
    return [name for name in dimensions if dimensions[name] >= 2], [name for name in dimensions if dimensions[name] < 2]


def _knobs_of(state: object, shape: ModelShape) -> dict[str, Value] | None:
    """The knobs of nanoGPT's AdamW over these weights; None if it is another optimizer or has other groups."""
    groups = state.get("param_groups") if isinstance(state, dict) else None
    if not isinstance(groups, list) or len(groups) != 2 or not all(isinstance(each, dict) for each in groups):
        return None
    decaying, others = map(len, _numbered(shape))
    for group, numbers in zip(groups, (range(decaying), range(decaying, decaying + others)), strict=True):
        if not _are_plain(group.get("params"), int) or group["params"] != [*numbers]:
            return None
        if not _are_plain(group.get("betas"), float) or len(group["betas"]) != 2:
            return None
        for name, value in _ONLY.items():
            found = group.get(name, value)
            if type(found) not in (bool, int, float) or found != value:
                return None
    (decay, none), (betas, same) = ([each.get(name) for each in groups] for name in ("weight_decay", "betas"))
    if type(none) not in (int, float) or none != 0 or [*betas] != [*same]:
        return None
    knobs = {"weight_decay": decay, "beta1": betas[0], "beta2": betas[1]}
    return knobs if all(KNOBS[name].fitted(value) is not None for name, value in knobs.items()) else None


def _are_plain(found: object, kind: type) -> bool:
    """Whether it is a list or tuple of plain numbers: tensors would compare element by element."""
    return isinstance(found, (list, tuple)) and all(type(each) is kind for each in found)


def _moments(state: object, shape: ModelShape) -> dict[str, Tensor] | None:
    found = state.get("state") if isinstance(state, dict) else None
    if not isinstance(found, dict):
        return None
    decaying, others = _numbered(shape)
    sizes = weight_shapes(shape)
    moments: dict[str, Tensor] = {}
    for number, name in enumerate((*decaying, *others)):
        entry = found.get(number)
        if not isinstance(entry, dict) or entry.keys() != {*ADAMW_STATE}:
            return None
        for what, value in entry.items():
            if not holds_floats(value) or value.is_meta or value.shape != (() if what == "step" else sizes[name]):
                return None
            if what == "step" and not 0 <= value.item() < math.inf:
                return None
            moments[f"{what}.{name}"] = value
    return moments


def _optimizer_state(
    shape: ModelShape, config: Mapping[str, Value], moments: Mapping[str, Tensor] | None
) -> dict[str, object]:
    """The state_dict of nanoGPT's AdamW, with the averages if they are known; otherwise they start from zero."""
    decaying, others = _numbered(shape)
    with torch.device("meta"):
        groups = [
            {"params": [torch.empty(0) for _ in decaying], "weight_decay": _knob(config, "weight_decay")},
            {"params": [torch.empty(0) for _ in others], "weight_decay": 0.0},
        ]
    rate, *betas = (_knob(config, name) for name in ("learning_rate", "beta1", "beta2"))
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(betas[0], betas[1]))
    state: dict[str, object] = optimizer.state_dict()
    if moments is not None:
        state["state"] = {
            number: {what: moments[f"{what}.{name}"].contiguous() for what in ADAMW_STATE}
            for number, name in enumerate((*decaying, *others))
        }
    return state
