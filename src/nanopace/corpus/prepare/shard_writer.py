"""Writes the tokens of one split to disk, one file after another.

A file is called `.part` until it is full, synced, and about to be listed in the manifest. Files that the manifest does
not list are left from an interrupted prepare: the next one removes them and encodes their text again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from nanopace.corpus.documents.pieces import Piece
from nanopace.corpus.shards.manifest import Dtype, ShardEntry, SplitName, shard_name
from nanopace.files import open_own

Ids = npt.NDArray[np.unsignedinteger]


class SplitWriter:
    """Writes one split of a corpus. A shard ends with the document that fills it; a very long one fills several."""

    def __init__(
        self,
        directory: Path,
        split: SplitName,
        dtype: Dtype,
        *,
        shard_tokens: int,
        end_of_text: int | None,
        finished: Sequence[ShardEntry] = (),
    ) -> None:
        self.finished = list(finished)
        self._skip_documents = sum(entry.documents for entry in finished)
        self._skip_bytes = sum(entry.text_bytes for entry in finished)
        self._directory = directory
        self._split: SplitName = split
        self._shard_tokens = shard_tokens
        self._between = np.array([] if end_of_text is None else [end_of_text], dtype=dtype)
        self._waiting: list[Ids] = []
        self._file: BinaryIO | None = None
        self._begin_shard()

    def _begin_shard(self) -> None:
        self._tokens = self._text_bytes = self._max_id = self._documents = 0
        self._hash = hashlib.sha256()

    @property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.finished) + self._tokens

    def skip(self, piece: Piece) -> bool:
        """Whether the next piece is in a finished shard of an earlier prepare. The order of pieces never changes."""
        if self._skip_bytes <= 0 and self._skip_documents <= 0:
            return False
        self._skip_bytes -= piece.size
        self._skip_documents -= piece.begins
        return True

    @property
    def skipped_exactly(self) -> bool:
        """After everything has been read: False if the existing shards do not come from this input."""
        return self._skip_bytes == self._skip_documents == 0

    def add(self, ids: Ids, text_bytes: int, *, begins: bool) -> None:
        """Append a piece of a document. A full shard ends before a new document, or between pieces of a long one."""
        if self._tokens >= self._shard_tokens:
            self.finish()
        if begins:
            self._waiting.append(self._between)
            self._tokens += len(self._between)
            self._documents += 1
        self._waiting.append(ids)
        self._tokens += len(ids)
        self._text_bytes += text_bytes

    def flush(self) -> None:
        """Write everything added so far to the file: a shard may be larger than memory."""
        tokens = np.concatenate([*self._waiting, self._between[:0]])
        self._waiting.clear()
        if len(tokens):
            if self._file is None:  # our own file: a directory may have come with links that lead out of it
                self._file = os.fdopen(open_own(self._part(), os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")
            self._max_id = max(self._max_id, int(tokens.max()))
            data = tokens.astype(tokens.dtype.newbyteorder("<"), copy=False).tobytes()
            self._hash.update(data)
            self._file.write(data)

    def finish(self) -> None:
        """End the current shard: sync its tokens to disk, and give it its name."""
        self.flush()
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self.close()
            name = shard_name(self._split, len(self.finished))
            os.replace(self._part(), self._directory / name)
            counted = (self._tokens, self._text_bytes, self._hash.hexdigest(), self._max_id, self._documents)
            self.finished.append(ShardEntry(name, *counted))
        self._begin_shard()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _part(self) -> Path:
        return self._directory / f"{shard_name(self._split, len(self.finished))}.part"
