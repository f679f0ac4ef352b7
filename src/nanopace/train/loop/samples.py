"""Text that the model writes while it trains, always from the same prompt and seed, so that samples can be compared.

It is written as `nanopace sample` does it, without the compiled model. Its random numbers come from a generator of its
own: a run with samples has the losses of a run without, to the bit.
"""

from __future__ import annotations

from nanopace.corpus.tokenizers.tokenizer import Tokenizer
from nanopace.errors import InputError
from nanopace.train.models.generate import generate
from nanopace.train.models.gpt2 import GPT

TOKENS = 100


def write_sample(model: GPT, tokenizer: Tokenizer, seed: int, count: int = TOKENS) -> str:
    """What follows the start of a text. '' if the model's answers are not numbers: its losses say so, too."""
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
    """What stands between documents; where nothing does, a new line, or else the alphabet's first character."""
    if tokenizer.end_of_text is not None:
        return [tokenizer.end_of_text]
    try:
        return tokenizer.encode("\n")
    except InputError:
        return [0]
