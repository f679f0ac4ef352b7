"""Turns text into ids and back: four kinds of tokenizer with one interface, each saved next to the tokens it made."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from nanopace.corpus.tokenizers.base import FORMAT, TOKENIZER_FILE
from nanopace.corpus.tokenizers.nanogpt_meta import META_FILE, read_meta
from nanopace.errors import InputError
from nanopace.files import read_object

_LARGEST_FILE = 1 << 26  # bytes: a million entries take half of that, and JSON grows when parsed

Ids = Sequence[int] | npt.NDArray[Any]


class Tokenizer(Protocol):
    """What a corpus and a model must share. Its hash identifies it."""

    @property
    def kind(self) -> str:
        """gpt2, bytes, chars or bpe."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def end_of_text(self) -> int | None:
        """The id before each document; None if there is none (characters)."""

    @property
    def hash(self) -> str:
        """sha256 of kind and vocabulary, in hexadecimal."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text. `<|endoftext|>` inside it is plain text."""

    def encode_batch(self, texts: Sequence[str]) -> Sequence[Ids]:
        """The ids of each text, in order. Uses all cores if the library can."""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of any ids. Unknown ids and incomplete UTF-8 become U+FFFD."""

    def token_bytes(self) -> npt.NDArray[np.int32]:
        """The number of text bytes that each id represents; 0 for the one between documents."""

    def save(self, directory: Path) -> None:
        """Write tokenizer.json atomically."""


def gpt2() -> Tokenizer:
    from nanopace.corpus.tokenizers.gpt2 import Gpt2

    return Gpt2()


def bytes_tokenizer() -> Tokenizer:
    from nanopace.corpus.tokenizers.single_bytes import SingleBytes

    return SingleBytes()


def chars(alphabet: Iterable[str]) -> Tokenizer:
    """A tokenizer for these characters, sorted as in nanoGPT."""
    from nanopace.corpus.tokenizers.characters import Characters

    return Characters(sorted(set(alphabet)))


def train_bpe(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    from nanopace.corpus.tokenizers.bpe import train

    return train(texts, vocab_size)


def load_tokenizer(directory: Path) -> Tokenizer | None:
    """The tokenizer in a directory, from nanopace's tokenizer.json or nanoGPT's meta.pkl; None if there is none."""
    path = directory / TOKENIZER_FILE
    if not os.path.lexists(path):
        return _of_nanogpt(directory / META_FILE)
    content = _read(path)
    try:
        tokenizer = _made(content)
    except (KeyError, TypeError, ValueError, AssertionError):
        raise InputError("{path}: is damaged: no vocabulary can be read from it", path=path) from None
    if tokenizer.hash != content.get("hash"):
        raise InputError("{path}: is damaged: its vocabulary does not match its hash", path=path)
    return tokenizer


def _of_nanogpt(path: Path) -> Tokenizer | None:
    from nanopace.corpus.tokenizers.characters import Characters

    alphabet = read_meta(path).alphabet if os.path.lexists(path) else None
    return Characters(alphabet) if alphabet else None


def _read(path: Path) -> Mapping[str, Any]:
    content = read_object(path, _LARGEST_FILE)
    if content is None or "nanopace" not in content:
        raise InputError("{path}: is not a nanopace tokenizer", path=path)
    if content["nanopace"] != FORMAT:
        raise InputError("{path}: was written by a newer version of nanopace", path=path)
    return content


def _made(content: Mapping[str, Any]) -> Tokenizer:
    match content["kind"]:
        case "gpt2":
            return gpt2()
        case "bytes":
            return bytes_tokenizer()
        case "chars":
            from nanopace.corpus.tokenizers.characters import Characters

            return Characters(content["alphabet"])
        case "bpe":
            from nanopace.corpus.tokenizers.bpe import TrainedBpe

            return TrainedBpe(content["letters"], [(first, second) for first, second in content["merges"]])
        case kind:
            raise ValueError(kind)
