"""Common models and their names: gpt2-medium, 350M, or n_layer=8,n_head=8,n_embd=512."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nanopace.errors import UsageError
from nanopace.hardware.flops import Size, flops_per_token, parameters
from nanopace.literals import shown

GPT2_VOCABULARY = 50304
_LARGEST = {"n_layer": 1000, "n_head": 1000, "n_embd": 100_000, "block_size": 1 << 20, "vocab_size": 1 << 24}


@dataclass(frozen=True, slots=True)
class Model:
    """A GPT of nanoGPT's shape."""

    name: str
    n_layer: int
    n_head: int
    n_embd: int
    block_size: int = 1024
    vocab_size: int = GPT2_VOCABULARY
    dropout: float = 0.0

    @property
    def size(self) -> Size:
        """In the order that the functions of hardware/ take."""
        return self.n_layer, self.n_embd, self.vocab_size, self.block_size

    @property
    def parameters(self) -> int:
        """nanoGPT's count, without positions."""
        return parameters(self.n_layer, self.n_embd, self.vocab_size)

    @property
    def flops_per_token(self) -> float:
        return flops_per_token(self.parameters, self.n_layer, self.n_embd, self.block_size)


NAMED: Mapping[str, Model] = {
    model.name: model
    for model in (
        Model("gpt2", 12, 12, 768),
        Model("gpt2-medium", 24, 16, 1024),
        Model("gpt2-large", 36, 20, 1280),
        Model("gpt2-xl", 48, 25, 1600),
    )
}
# nanoGPT's model for Shakespeare: for text that is too little for any GPT-2.
SMALL = Model("6x384", 6, 6, 384, 256)
_ALSO = {
    **dict.fromkeys(("124m", "125m", "small", "gpt2-small"), "gpt2"),
    **dict.fromkeys(("350m", "355m", "medium"), "gpt2-medium"),
    **dict.fromkeys(("760m", "774m", "large"), "gpt2-large"),
    **dict.fromkeys(("1.5b", "1558m", "xl"), "gpt2-xl"),
}


def in_vocabulary(model: Model, vocab_size: int | None) -> Model:
    """The same model with the dataset's own vocabulary."""
    return model if vocab_size is None else replace(model, vocab_size=vocab_size)


def find_model(text: str, vocab_size: int | None = None) -> Model:
    """Find the requested model; `vocab_size`: the dataset's own, used unless the model sets another."""
    if "=" in text:
        return _by_shape(text, vocab_size)
    key = re.sub(r"[\s_]+", "-", text.strip().lower()).replace("gpt-2", "gpt2")
    name = _ALSO.get(key, key)
    if name in NAMED:
        return in_vocabulary(NAMED[name], vocab_size)
    raise UsageError(
        "--model {model}: unknown; use {known}, 124M to 1.5B, or n_layer=12,n_head=12,n_embd=768",
        model=shown(text),
        known=", ".join(NAMED),
    )


def _by_shape(text: str, vocab_size: int | None) -> Model:
    given: dict[str, int] = {}
    for part in text.split(","):
        name, _, value = (each.strip() for each in part.partition("="))
        if name not in _LARGEST or name in given:
            raise UsageError(
                "--model: {part} must be one of {known}, each given once", part=shown(part), known=", ".join(_LARGEST)
            )
        if not re.fullmatch(r"[0-9]{1,9}", value) or not 1 <= int(value) <= _LARGEST[name]:
            raise UsageError(
                "--model: {name} must be a whole number from 1 to {most}, not {value}",
                name=name,
                most=_LARGEST[name],
                value=shown(value),
            )
        given[name] = int(value)
    missing = [name for name in ("n_layer", "n_head", "n_embd") if name not in given]
    if missing:
        raise UsageError("--model: also requires {missing}", missing=", ".join(missing))
    if given["n_embd"] % given["n_head"]:
        raise UsageError(
            "--model: n_embd must be a multiple of n_head: {n_embd} is not a multiple of {n_head}",
            n_embd=given["n_embd"],
            n_head=given["n_head"],
        )
    model = Model(f"{given['n_layer']}x{given['n_embd']}", **given)
    return model if "vocab_size" in given else in_vocabulary(model, vocab_size)
