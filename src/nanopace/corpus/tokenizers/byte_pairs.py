"""Byte-pair encoding with tiktoken, for any vocabulary whose ids are in the order of its merges."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from nanopace.errors import InputError

# How GPT-2 splits a text before merging bytes, in the form that backtracks least.
_WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"

# On about a million blanks in a row, tiktoken's regular expressions overflow the stack, which kills the process.
_LONG_RUN = 1 << 16
_BLANK = r"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_LONG_BLANKS = re.compile(_BLANK + "{" + str(_LONG_RUN) + ",}")


class Merging:
    """Turns text into ids. `entries` are the bytes of each id, including the single bytes, earlier merges first."""

    def __init__(self, entries: Sequence[bytes]) -> None:
        try:
            import tiktoken
        except ImportError:
            raise InputError("this tokenizer needs tiktoken: pip install nanopace[train]") from None
        ranks = {entry: rank for rank, entry in enumerate(entries)}
        self._library = tiktoken.Encoding("nanopace", pat_str=_WORDS, mergeable_ranks=ranks, special_tokens={})

    def encode(self, text: str) -> list[int]:
        return _joined([self._library.encode_ordinary(piece) for piece in _pieces(text)])

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, computed on all cores."""
        pieces = [list(_pieces(text)) for text in texts]
        flat = [piece for each in pieces for piece in each]
        encoded = iter(self._library.encode_ordinary_batch(flat, num_threads=os.cpu_count() or 1))
        return [_joined([next(encoded) for _ in each]) for each in pieces]


def _pieces(text: str) -> Iterator[str]:
    """Split a text where that changes no token: around a long run of blanks, which is one word.

    The last blank of a run belongs to the text after it, if there is any.
    """
    begin = 0
    if len(text) > _LONG_RUN:
        for run in _LONG_BLANKS.finditer(text):
            end = run.end() - 1 if run.end() < len(text) else run.end()
            yield text[begin : run.start()]
            yield text[run.start() : end]
            begin = end
    yield text[begin:]


def _joined(parts: list[list[int]]) -> list[int]:
    return parts[0] if len(parts) == 1 else [token for part in parts for token in part]
