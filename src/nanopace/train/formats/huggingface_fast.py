"""Describes a model of recipe `fast` for transformers, and reads such a description back.

transformers has no model like it, so its code goes along: assets/modeling_nanopace_fast.py is copied as it is, and only
transformers imports it, if told to trust it. The config lists the ingredients that the model has: those that a later
version adds are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from nanopace.errors import InputError
from nanopace.knob_values import listed
from nanopace.literals import shown
from nanopace.train.formats.huggingface_files import CONFIG, read_weights
from nanopace.train.formats.huggingface_tokenizer import read_tokenizer
from nanopace.train.formats.pretrained import Pretrained, dropout_of, only_weights, step_of, tied
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.models.weight_shapes import TOKENS, check_said, fast_shape_of, weight_shapes, without_unlisted

MODEL_TYPE = "nanopace_fast"
MODELING_FILE = "modeling_nanopace_fast.py"

_RECIPE = "fast"
_NAMES = {
    **{name: name for name in ("n_layer", "n_head", "n_embd", "vocab_size", "dropout")},
    "n_positions": "block_size",
}
_MOST = 1 << 20  # heads, or tokens of context: without a position table, nothing else bounds them


def modeling_file() -> bytes:
    return (Path(__file__).with_name("assets") / MODELING_FILE).read_bytes()


def fast_config(shape: ModelShape) -> dict[str, object]:
    module, model = MODELING_FILE.removesuffix(".py"), "NanopaceFastForCausalLM"
    return {
        "architectures": [model],
        "auto_map": {"AutoConfig": f"{module}.NanopaceFastConfig", "AutoModelForCausalLM": f"{module}.{model}"},
        "model_type": MODEL_TYPE,
        **{theirs: getattr(shape, own) for theirs, own in _NAMES.items()},
        "ingredients": listed(_RECIPE, shape.without),
        "tie_word_embeddings": True,
    }


def fast_weights(pretrained: Pretrained) -> dict[str, Tensor]:
    """The weights by our names, which the modeling file has as well; the tied table only once."""
    return {name: pretrained.weights[name].detach().contiguous() for name in weight_shapes(pretrained.shape)}


def load_fast(directory: Path, config: Mapping[str, object]) -> Pretrained:
    """Load what `fast_config` and `fast_weights` describe, also after transformers has trained it and saved it."""
    path = directory / CONFIG
    said = _said(path, config)
    weights = only_weights(directory, read_weights(directory))
    if TOKENS in weights:
        weights = tied(directory, weights)
    shape = fast_shape_of(directory, weights, said)
    check_said(path, shape, {own: config.get(theirs) for theirs, own in _NAMES.items() if own != "dropout"})
    return Pretrained(
        path=directory,
        shape=shape,
        weights={name: each.contiguous() for name, each in weights.items()},
        step=step_of(config.get("nanopace_step")),
        tokenizer=read_tokenizer(directory, shape.vocab_size),
    )


def _said(path: Path, config: Mapping[str, object]) -> ModelShape:
    """What the weights do not show. Their own sizes follow from them."""
    n_head, block_size = (_count(path, name, config.get(name)) for name in ("n_head", "n_positions"))
    return ModelShape(
        n_layer=1,
        n_head=n_head,
        n_embd=n_head,
        vocab_size=1,
        block_size=block_size,
        dropout=dropout_of(config.get("dropout")),
        recipe=_RECIPE,
        without=_without(path, config.get("ingredients")),
    )


def _count(path: Path, name: str, found: object) -> int:
    if type(found) is not int or not 0 < found <= _MOST:
        raise _impossible(path, name, found)
    return found


def _without(path: Path, found: object) -> str:
    if not isinstance(found, list):
        raise _impossible(path, "ingredients", found)
    return without_unlisted(path, _RECIPE, found)


def _impossible(path: Path, name: str, found: object) -> InputError:
    return InputError("{path}: {name} cannot be {value}", path=path, name=name, value=shown(found))
