"""The tokenizer of nanoGPT's small example: each character in the corpus has an id."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from nanopace.corpus.tokenizers.base import REPLACEMENT, byte_counts, fingerprint, write_tokenizer
from nanopace.errors import InputError


class Characters:
    """The characters in the order of their ids. There is no id between documents."""

    kind: Final = "chars"
    end_of_text: Final = None

    def __init__(self, alphabet: Sequence[str]) -> None:
        assert alphabet, "an alphabet has letters"
        assert len(set(alphabet)) == len(alphabet), "a letter is in the alphabet once"
        assert all(len(letter) == 1 for letter in alphabet), "a letter is one character"
        self.alphabet: Final = tuple(alphabet)
        self.vocab_size: Final = len(self.alphabet)
        self.hash: Final = fingerprint(self.kind, self._in_bytes())
        points = np.array([ord(letter) for letter in self.alphabet])
        self._id_of_point = np.full(int(points.max()) + 2, -1, dtype=np.int32)  # the last entry: any character beyond
        self._id_of_point[points] = np.arange(self.vocab_size)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._ids(text).tolist()
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[npt.NDArray[np.int32]]:
        return [self._ids(text) for text in texts]

    def decode(self, tokens: Sequence[int]) -> str:
        known = range(self.vocab_size)
        return "".join([self.alphabet[each] if each in known else REPLACEMENT for each in map(int, tokens)])

    def token_bytes(self) -> npt.NDArray[np.int32]:
        return byte_counts(self._in_bytes(), None)

    def save(self, directory: Path) -> None:
        write_tokenizer(directory, self.kind, self.hash, alphabet=self.alphabet)

    def _ids(self, text: str) -> npt.NDArray[np.int32]:
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        ids: npt.NDArray[np.int32] = self._id_of_point[np.minimum(points, len(self._id_of_point) - 1)]
        if len(ids) and ids.min() < 0:
            stranger = text[int(np.argmax(ids < 0))]
            raise InputError(
                "character {character} is not in this corpus's alphabet; prepare the corpus again, or use bytes",
                character=repr(stranger),
            )
        return ids

    def _in_bytes(self) -> list[bytes]:
        return [letter.encode(errors="surrogatepass") for letter in self.alphabet]
