"""Checks each field of state.json once, when it is read.

A correct checksum proves nothing about the contents, because anybody can compute one. So every field that is used must
have a type and range that this version or an earlier one writes. A field that was added later may be missing, and an
unused one may hold anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from nanopace.config import KNOBS
from nanopace.errors import ConfigError
from nanopace.knob_values import left_out, memory_bytes, memory_steps, step_of_which
from nanopace.train.checkpoint.rng_state import are_random_states
from nanopace.train.models.gpt2 import ACTIVATIONS, ModelShape

Check = Callable[[Any], bool]

_COUNT_LIMIT = 1 << 62  # more than any real count; the sum of two still fits in an int64
_LARGEST_FLOAT32 = 3.5e38
_LARGEST_FILE = 1 << 38  # bytes: 64 billion weights. A sparse file could claim an unreadably large size
_LONGEST_CONTEXT = 1 << 20  # tokens: without a position table, nothing else bounds it
_SCALER = {
    "scale": float,
    "growth_factor": float,
    "backoff_factor": float,
    "growth_interval": int,
    "_growth_tracker": int,
}
_PARSERS: Mapping[str, Callable[[str], object]] = {
    "memory": memory_steps,
    "memory_limit": memory_bytes,
    "which": step_of_which,
}


def wrong_field(state: Mapping[str, Any]) -> str | None:
    """The name of the first field with an impossible value; None if there is none."""
    for name, is_right in _FIELDS.items():
        if (name in _NEEDED and name not in state) or (name in state and not is_right(state[name])):
            return name
    for name, value in state["config"].items():
        if name in KNOBS and not is_knob(name, value):
            return f"config.{name}"
    return None


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < _COUNT_LIMIT


def _is_loss(value: object) -> bool:
    """A float that fits in float32; it need not be finite."""
    return type(value) is float and (not math.isfinite(value) or abs(value) < _LARGEST_FLOAT32)


def _is_finite(value: object) -> bool:
    return _is_loss(value) and math.isfinite(value)  # type: ignore[arg-type]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _optional(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _is_best(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_count(value[0]) and _is_finite(value[1])


def _is_evaluation(value: object) -> bool:
    return isinstance(value, dict) and _list_of(_is_loss)(value.get("before"))


def _is_scaler(value: Any) -> bool:
    """The state of torch's GradScaler; empty unless training in float16."""
    if value == {}:
        return True
    return (
        isinstance(value, dict)
        and value.keys() == _SCALER.keys()
        and all(type(value[name]) is kind and 0 <= value[name] < 1e30 for name, kind in _SCALER.items())
        and value["scale"] > 0
        and value["growth_interval"] < 1 << 31
    )


def _are_hashes(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _are_files(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, dict) and _is_file(each) for each in value.values())


def _is_file(entry: Mapping[str, Any]) -> bool:
    size = entry.get("bytes")
    return type(size) is int and 0 <= size <= _LARGEST_FILE and _is_text(entry.get("sha256"))


def _is_shape(value: object) -> bool:
    """A shape that a model can have. headers.py checks whether the weights have it."""
    if not isinstance(value, dict) or not value.keys() <= {each.name for each in fields(ModelShape)}:
        return False
    try:
        shape = ModelShape(**value)
        leaves_out = ",".join(left_out(shape.recipe, shape.without))
    except (TypeError, KeyError, AttributeError, ConfigError):
        return False
    counts = (shape.n_layer, shape.n_head, shape.n_embd, shape.vocab_size, shape.block_size)
    return (
        all(type(each) is int and 0 < each < 1 << 31 for each in counts)
        and shape.block_size <= _LONGEST_CONTEXT
        and shape.n_embd % shape.n_head == 0
        and type(shape.bias) is bool
        and type(shape.dropout) in (int, float)
        and 0 <= shape.dropout < 1
        and isinstance(shape.activation, str)
        and shape.activation in ACTIVATIONS
        and leaves_out == shape.without
    )


def is_knob(name: str, value: Any) -> bool:
    fitted = KNOBS[name].fitted(value)
    if fitted is None or KNOBS[name].refuses(fitted):
        return False
    try:
        if name in _PARSERS:
            _PARSERS[name](str(fitted))
    except ConfigError:
        return False
    return True


_NEEDED = ("step", "shape", "config", "tokenizer", "files")
_FIELDS: Mapping[str, Check] = {
    "step": _is_count,
    "shape": _is_shape,
    "ingredients": _list_of(_is_text),
    "config": lambda value: isinstance(value, dict),
    "tokenizer": _optional(_is_text),
    "files": _are_files,
    "corpus": _is_text,
    "corpus_sha256": _are_hashes,
    "windows": _is_count,
    "random": are_random_states,
    "random_of_others": _list_of(are_random_states),
    "scaler": _is_scaler,
    "best": _optional(_is_best),
    "recent": _list_of(_is_loss),
    "micro_batch": _is_count,
    "memory_steps": _list_of(_is_text),
    "card": _optional(_is_text),
    "versions": lambda value: isinstance(value, dict),
    "data_offset": _is_count,
    "validation": _is_evaluation,
    "training": _optional(_is_evaluation),
}
