"""GPT-2's tokenizer: its vocabulary, with tiktoken to apply it.

Training machines often have no network, so OpenAI's list of merges is included (assets/, with its licence). It is
checked against the hash that tiktoken uses, and determines vocabulary and ids. All this happens when a text is first
encoded, so opening a corpus costs nothing.
"""

from __future__ import annotations

import bz2
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from nanopace.corpus.tokenizers.base import BYTE_OF_LETTER, END_OF_TEXT, byte_counts, spelled, text_of, write_tokenizer
from nanopace.corpus.tokenizers.byte_pairs import Merging
from nanopace.errors import InputError

_MERGES = Path(__file__).with_name("assets") / "gpt2-merges.txt.bz2"
_SHA256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"  # of vocab.bpe, as published by OpenAI


class Gpt2:
    """50,000 merges of bytes, the 256 bytes, and an id between documents."""

    kind: Final = "gpt2"
    vocab_size: Final = 50257
    end_of_text: Final = 50256
    hash: Final = "37459fbe302bc0ee98be25c52f80b785e3a91f763b49df8868bbe0cabf951b17"  # of `vocabulary()`

    def encode(self, text: str) -> list[int]:
        return _merging().encode(text)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return _merging().encode_batch(texts)

    def decode(self, tokens: Sequence[int]) -> str:
        return text_of(tokens, vocabulary())

    def token_bytes(self) -> npt.NDArray[np.int32]:
        return byte_counts(vocabulary(), self.end_of_text)

    def save(self, directory: Path) -> None:
        write_tokenizer(directory, self.kind, self.hash)


@cache
def vocabulary() -> tuple[bytes, ...]:
    """The bytes of each id."""
    return (*map(spelled, _entries()), END_OF_TEXT.encode())


@cache
def _merging() -> Merging:
    return Merging(vocabulary()[: Gpt2.end_of_text])


def merges_file() -> bytes:
    """OpenAI's vocab.bpe, called merges.txt by Hugging Face, byte for byte."""
    try:
        data = bz2.decompress(_MERGES.read_bytes())
    except (OSError, ValueError, EOFError):
        data = b""
    if hashlib.sha256(data).hexdigest() != _SHA256:
        raise InputError("{path}: GPT-2's vocabulary is missing or damaged; reinstall nanopace", path=_MERGES)
    return data


def vocabulary_file() -> bytes:
    """OpenAI's encoder.json, called vocab.json by Hugging Face, byte for byte."""
    return json.dumps({letters: number for number, letters in enumerate((*_entries(), END_OF_TEXT))}).encode()


def _entries() -> list[str]:
    """In GPT-2's letters: the single bytes, then the result of each merge."""
    merges = merges_file().decode().splitlines()[1:]  # the first line is a version
    return [*BYTE_OF_LETTER, *(merge.replace(" ", "") for merge in merges)]
