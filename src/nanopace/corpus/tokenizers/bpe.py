"""A BPE trained on the corpus: like GPT-2's vocabulary, in any size.

Hugging Face tokenizers trains it and saves it for transformers. tiktoken encodes with it in a quarter of the time. Both
give the same ids, because the entries of a trained vocabulary are in the order of their merges.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from nanopace.corpus.tokenizers import base as vocabulary
from nanopace.corpus.tokenizers.base import BYTE_OF_LETTER, END_OF_TEXT, encodable, spelled
from nanopace.corpus.tokenizers.byte_pairs import Merging
from nanopace.errors import InputError, UsageError

if TYPE_CHECKING:
    import tokenizers

LEAST: Final = len(BYTE_OF_LETTER) + 1  # all bytes, and the id between documents
Merge = tuple[str, str]


class TrainedBpe:
    """The merges in order, as entries in GPT-2's letters, after the 256 single letters.

    The id between documents is the last one. It is not an entry, so no text can contain it.
    """

    kind: Final = "bpe"

    def __init__(self, letters: Sequence[str], merges: Sequence[Merge]) -> None:
        self.letters: Final = tuple(letters)
        self.merges: Final = tuple(merges)
        self.entries: Final = (*self.letters, *("".join(merge) for merge in self.merges))
        if sorted(letters) != sorted(BYTE_OF_LETTER) or len(set(self.entries)) < len(self.entries):
            raise ValueError("not the 256 letters, or an entry that two merges lead to")
        self.end_of_text: Final = len(self.entries)
        self.vocab_size: Final = self.end_of_text + 1
        self.hash: Final = vocabulary.fingerprint(
            self.kind, map(str.encode, self.letters), (" ".join(merge).encode() for merge in self.merges)
        )
        self._in_bytes = (*map(spelled, self.entries), END_OF_TEXT.encode())

    def encode(self, text: str) -> list[int]:
        return self._merging.encode(text)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return self._merging.encode_batch(texts)

    def decode(self, tokens: Sequence[int]) -> str:
        return vocabulary.text_of(tokens, self._in_bytes)

    def token_bytes(self) -> npt.NDArray[np.int32]:
        return vocabulary.byte_counts(self._in_bytes, self.end_of_text)

    def save(self, directory: Path) -> None:
        vocabulary.write_tokenizer(directory, self.kind, self.hash, letters=self.letters, merges=self.merges)

    def huggingface(self) -> tokenizers.Tokenizer:
        """The same tokenizer for Hugging Face's library, with the id between documents as a special token."""
        library = _library(self.entries, self.merges)
        library.add_special_tokens([END_OF_TEXT])
        return library

    @cached_property
    def _merging(self) -> Merging:
        return Merging(self._in_bytes[:-1])


def train(texts: Iterable[str], vocab_size: int) -> TrainedBpe:
    """The most frequent merges in these texts; fewer than requested if the texts have no more."""
    if vocab_size < LEAST:
        raise UsageError(
            "a trained vocabulary has at least {least} entries: {given} is too few", least=LEAST, given=vocab_size
        )
    library = _library((), ())
    from tokenizers.trainers import BpeTrainer

    trainer = BpeTrainer(vocab_size=vocab_size - 1, initial_alphabet=list(BYTE_OF_LETTER), show_progress=False)
    library.train_from_iterator(map(encodable, texts), trainer)
    model = json.loads(library.to_str())["model"]
    entries = sorted(model["vocab"], key=model["vocab"].__getitem__)
    trained = TrainedBpe(entries[: len(BYTE_OF_LETTER)], list(_pairs(model["merges"])))
    assert list(trained.entries) == entries, "entries stand in the order of their merges"
    return trained


def _pairs(merges: Iterable[str | Sequence[str]]) -> Iterator[Merge]:
    """Split merges into pairs: before 0.20, the library wrote a pair as one string."""
    for merge in merges:
        first, second = merge.split(" ") if isinstance(merge, str) else merge
        yield first, second


def _library(entries: Sequence[str], merges: Sequence[Merge]) -> tokenizers.Tokenizer:
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    except ImportError:
        raise InputError("a trained tokenizer needs tokenizers: pip install nanopace[train]") from None
    library = Tokenizer(models.BPE({entry: number for number, entry in enumerate(entries)}, list(merges)))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    return library
