"""The tokenizer of a new corpus: an existing one, or one trained on the corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from nanopace.corpus.documents.pieces import Piece
from nanopace.corpus.prepare.intake import all_pieces, split_of
from nanopace.corpus.prepare.recipe import Inputs, Recipe
from nanopace.corpus.tokenizers import tokenizer
from nanopace.corpus.tokenizers.tokenizer import Tokenizer

SAMPLE: Final = 64 << 20  # bytes: more text hardly changes the merges
_CHUNK: Final = 1 << 16  # characters: the training library holds 256 texts at a time
_MULTIPLIER: Final = 0x9E3779B97F4A7C15
_WORD: Final = 2**64

OnRead = Callable[[int], object]  # bytes of the input read so far


def fitted(recipe: Recipe, inputs: Inputs, on_read: OnRead) -> Tokenizer:
    """The tokenizer that a recipe asks for. The same files always give the same tokenizer."""
    match recipe.tokenizer:
        case "gpt2":
            return tokenizer.gpt2()
        case "bytes":
            return tokenizer.bytes_tokenizer()
        case "chars":
            alphabet: set[str] = set()
            for piece in _read(inputs, on_read):
                alphabet.update(piece.text)
            if not alphabet:
                raise inputs.without_text()
            return tokenizer.chars(alphabet)
        case _:
            assert recipe.vocab_size is not None, "the recipe has been checked"
            return tokenizer.train_bpe(_sampled(inputs, on_read), recipe.vocab_size)


def check_tokenizer(recipe: Recipe) -> None:
    """Raise an error if a vocabulary is unavailable, before gigabytes are downloaded or read."""
    if recipe.tokenizer == "gpt2":
        tokenizer.gpt2().encode("text")


def _read(inputs: Inputs, on_read: OnRead) -> Iterator[Piece]:
    for done, piece in all_pieces(inputs):
        on_read(done)
        yield piece


def _sampled(inputs: Inputs, on_read: OnRead) -> Iterator[str]:
    """Training text: all of it, or a sample of pieces. Each piece's chance is independent, and the same every time."""
    threshold = min(1.0, SAMPLE / max(1, inputs.total)) * _WORD
    taken = 0
    for number, piece in enumerate(_read(inputs, on_read)):
        chance = (piece.digest + number) * _MULTIPLIER % _WORD
        if chance < threshold and split_of(piece, inputs) == "train":
            for begin in range(0, len(piece.text), _CHUNK):
                yield piece.text[begin : begin + _CHUNK]
            taken += piece.size
            if taken >= SAMPLE:
                return
