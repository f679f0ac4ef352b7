"""The tokenizer that needs no vocabulary: each byte of UTF-8 is an id."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from nanopace.corpus.tokenizers.base import END_OF_TEXT, byte_counts, encodable, fingerprint, text_of, write_tokenizer

_VOCABULARY = (*(bytes([value]) for value in range(256)), END_OF_TEXT.encode())


class SingleBytes:
    """Ids 0 to 255 are bytes; 256 comes between documents."""

    kind: Final = "bytes"
    vocab_size: Final = 257
    end_of_text: Final = 256
    hash: Final = fingerprint(kind, _VOCABULARY)

    def encode(self, text: str) -> list[int]:
        return list(encodable(text).encode())

    def encode_batch(self, texts: Sequence[str]) -> list[npt.NDArray[np.uint8]]:
        return [np.frombuffer(encodable(text).encode(), dtype=np.uint8) for text in texts]

    def decode(self, tokens: Sequence[int]) -> str:
        return text_of(tokens, _VOCABULARY)

    def token_bytes(self) -> npt.NDArray[np.int32]:
        return byte_counts(_VOCABULARY, self.end_of_text)

    def save(self, directory: Path) -> None:
        write_tokenizer(directory, self.kind, self.hash)
