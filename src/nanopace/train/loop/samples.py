"""Generates text during training, always from the same prompt and seed, so that samples can be compared.

It works like `nanopace sample`, without the compiled model. It has its own random generator, so a run's losses are
bit-identical with and without samples.
"""

from __future__ import annotations

from nanopace.corpus.tokenizers.tokenizer import Tokenizer
from nanopace.errors import InputError
from nanopace.train.models.generate import generate
from nanopace.train.models.gpt2 import GPT

TOKENS = 100


def write_sample(model: GPT, tokenizer: Tokenizer, seed: int, count: int = TOKENS) -> str:
    """The model's continuation of the start of a text; '' if its outputs are not finite, as its losses show, too."""
    model.eval()
    try:
        ids = generate(
            model,
            _start(tokenizer),
            count,
            seed=seed,
            vocabulary=tokenizer.vocab_size,
            end_of_text=tokenizer.end_of_text,
        )
        return tokenizer.decode(list(ids))
    except InputError:
        return ""
    finally:
        model.train()


def _start(tokenizer: Tokenizer) -> list[int]:
    """The token between documents; if there is none, a new line, or else the vocabulary's first character."""
    if tokenizer.end_of_text is not None:
        return [tokenizer.end_of_text]
    try:
        return tokenizer.encode("\n")
    except InputError:
        return [0]
