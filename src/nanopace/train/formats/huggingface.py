"""Reads and writes a model in the form of Hugging Face's transformers: a directory of config, weights and tokenizer.

huggingface_fast.py has what concerns a model of recipe `fast` alone, and this file a GPT-2. transformers stores the
four matrices of a layer transposed, always has biases, and computes GELU with tanh, as OpenAI
did, unless the config says otherwise. A model without biases is written with zeros in their place; the config notes
that it had none, so that reading it back restores the original.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from nanopace.errors import InputError
from nanopace.literals import shown
from nanopace.train.formats.atomic_files import exported_directory
from nanopace.train.formats.huggingface_fast import (
    MODEL_TYPE,
    MODELING_FILE,
    fast_config,
    fast_weights,
    load_fast,
    modeling_file,
)
from nanopace.train.formats.huggingface_files import CONFIG, WEIGHTS, read_json, read_weights
from nanopace.train.formats.huggingface_tokenizer import read_tokenizer, tokenizer_files
from nanopace.train.formats.pretrained import Pretrained, dropout_of, only_weights, step_of, tied
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.weight_shapes import HEAD, check_said, shape_of, weight_shapes

_TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
_NAMES = {"n_layer": "n_layer", "n_embd": "n_embd", "vocab_size": "vocab_size", "n_positions": "block_size"}
_NO_BIAS = "nanopace_bias"  # our key in their config: False if the zero biases are placeholders
# Options of transformers' GPT-2 that nanoGPT lacks, and the only value we support for each.
_ONLY: Mapping[str, object] = {
    "model_type": "gpt2",
    "layer_norm_epsilon": 1e-5,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
_LONGEST_WORD = 60


# --- reading ---------------------------------------------------------------------------------------------------------


def load_huggingface(directory: Path) -> Pretrained:
    """Load a model of ours or a GPT-2, or raise an InputError that names how it differs from nanoGPT's."""
    config = read_json(directory / CONFIG)
    return load_fast(directory, config) if config.get("model_type") == MODEL_TYPE else _load_gpt2(directory, config)


def _load_gpt2(directory: Path, config: Mapping[str, object]) -> Pretrained:
    path = directory / CONFIG
    activation = _checked_activation(path, config)
    found = ((_own_name(name), each) for name, each in read_weights(directory))
    weights = tied(directory, only_weights(directory, found))
    weights = {name: _transposed(name, each) for name, each in weights.items()}
    if config.get(_NO_BIAS) is False:
        weights = _without_zero_biases(weights)
    shape = shape_of(
        directory,
        weights,
        n_head=config.get("n_head", 12),
        dropout=dropout_of(config.get("resid_pdrop", 0.1)),  # transformers' default
        activation=activation,
    )
    check_said(path, shape, {own: config.get(theirs) for theirs, own in _NAMES.items()})
    weights = {name: each.contiguous() for name, each in weights.items()}  # only now: a few bytes can claim many
    return Pretrained(
        path=directory,
        shape=shape,
        weights=weights,
        step=step_of(config.get("nanopace_step")),
        tokenizer=read_tokenizer(directory, shape.vocab_size),
    )


def _checked_activation(path: Path, config: Mapping[str, object]) -> str:
    """The activation, which may differ from nanoGPT's. Any other difference is refused."""
    for name, only in _ONLY.items():
        if config.get(name, only) != only:
            raise InputError(
                "{path}: {name} is {found}; only {only} can be used",
                path=path,
                name=name,
                found=_short(config[name]),
                only=only,
            )
    activation = config.get("activation_function", "gelu_new")  # OpenAI's own config does not say it
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise InputError(
            "{path}: activation {name} is not one of {known}", path=path, name=_short(activation), known=known
        )
    return _ACTIVATIONS[activation]


def _short(value: object) -> str:
    """For a message: a string as it is, anything else as Python writes it."""
    return value[:_LONGEST_WORD] if isinstance(value, str) else shown(value)


def _own_name(name: str) -> str:
    """nanoGPT's name of a weight. OpenAI's own files lack the prefix that transformers writes."""
    return name if name == HEAD or name.startswith("transformer.") else f"transformer.{name}"


def _transposed(name: str, weight: Tensor) -> Tensor:
    """Convert a matrix between their layout and ours, in either direction."""
    return weight.t() if name.endswith(_TRANSPOSED) and weight.dim() == 2 else weight


def _without_zero_biases(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights without placeholder biases, unless these have been trained since."""
    biases = {name: each for name, each in weights.items() if name.endswith(".bias")}
    if any(bool(each.any()) for each in biases.values()):
        return dict(weights)
    return {name: each for name, each in weights.items() if name not in biases}


# --- writing ---------------------------------------------------------------------------------------------------------


def save_huggingface(directory: Path, pretrained: Pretrained) -> None:
    """Write all that `AutoModelForCausalLM` and `AutoTokenizer` read, or nothing."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    shape, tokenizer = pretrained.shape, pretrained.tokenizer
    end_of_text = None if tokenizer is None else tokenizer.end_of_text
    files = {} if tokenizer is None else tokenizer_files(tokenizer, shape.block_size)
    if shape.recipe == "fast":
        weights, config = fast_weights(pretrained), fast_config(shape)
        files[MODELING_FILE] = modeling_file()
    else:
        weights, config = _their_weights(pretrained), _their_config(shape)
    texts = {"bos_token_id": end_of_text, "eos_token_id": end_of_text}
    config |= {
        **texts,
        "use_cache": True,
        "nanopace_step": pretrained.step,
        "torch_dtype": str(next(iter(weights.values())).dtype).removeprefix("torch."),
    }
    files |= {CONFIG: _json(config), "generation_config.json": _json({**texts, "do_sample": True})}
    with exported_directory(directory) as folder:
        try:
            save_file(weights, folder / WEIGHTS[0], metadata={"format": "pt"})
        except SafetensorError as error:  # the library's wrapper around any disk error
            raise OSError(str(error)) from None
        for name, data in files.items():
            (folder / name).write_bytes(data)


def _json(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode("ascii")


def _their_weights(pretrained: Pretrained) -> dict[str, Tensor]:
    own = pretrained.weights
    theirs: dict[str, Tensor] = {}
    for name, size in weight_shapes(replace(pretrained.shape, bias=True)).items():
        if name in own:
            theirs[name] = _transposed(name, own[name].detach()).contiguous()
        else:
            theirs[name] = torch.zeros(size, dtype=own[name.removesuffix("bias") + "weight"].dtype)
    return theirs


def _their_config(shape: ModelShape) -> dict[str, object]:
    activation = next(theirs for theirs, own in _ACTIVATIONS.items() if own == shape.activation)
    return {
        "architectures": ["GPT2LMHeadModel"],
        **_ONLY,
        **{theirs: getattr(shape, own) for theirs, own in _NAMES.items()},
        "n_ctx": shape.block_size,
        "n_head": shape.n_head,
        "n_inner": None,
        "activation_function": activation,
        **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), shape.dropout),
        "initializer_range": 0.02,
        _NO_BIAS: shape.bias,
    }
