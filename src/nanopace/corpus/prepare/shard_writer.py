"""Tokens on their way to disk: the files of one split, filled one after the other.

A file is called `.part` until the journal says that it is finished, and gets its name after that. What the journal does
not know of, a killed run wrote in vain: it is cut off, and written again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nanopace.corpus.prepare.growing import open_growing
from nanopace.corpus.shards.manifest import TOKEN_BYTES, Dtype, ShardEntry, SplitName, shard_name
from nanopace.files import open_regular

Ids = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True)
class OpenShard:
    """What is in the file that is being filled."""

    tokens: int = 0
    text_bytes: int = 0
    max_id: int = 0
    documents: int = 0


class SplitWriter:
    """One split of a corpus. A shard ends with the document that fills it; a document that has no end fills several."""

    _tokens: int  # of the shard that is being filled, as the rest of these
    _text_bytes: int
    _max_id: int
    _documents: int

    def __init__(
        self,
        directory: Path,
        split: SplitName,
        dtype: Dtype,
        *,
        shard_tokens: int,
        end_of_text: int | None,
        finished: tuple[ShardEntry, ...] = (),
        begun: OpenShard | None = None,
    ) -> None:
        self.finished = list(finished)
        self._fill(begun or OpenShard())
        self._directory = directory
        self._split = split
        self._shard_tokens = shard_tokens
        self._between = np.array([] if end_of_text is None else [end_of_text], dtype=dtype)
        self._waiting: list[Ids] = []
        self.publish()
        self._file = open_growing(self._part(len(self.finished)), self._tokens * TOKEN_BYTES[dtype])

    @property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.finished) + self._tokens

    def add(self, ids: Ids, text_bytes: int, *, begins: bool) -> None:
        """Append a piece of a document. Before a new document, and between pieces of a long one, a full shard ends."""
        if self._tokens >= self._shard_tokens:
            self.finish()
            self._file = open_growing(self._part(len(self.finished)), 0)
        if begins:
            self._waiting.append(self._between)
            self._tokens += len(self._between)
            self._documents += 1
        self._waiting.append(ids)
        self._tokens += len(ids)
        self._text_bytes += text_bytes

    def flush(self) -> None:
        """All that was added is in the file."""
        if self._waiting:
            tokens = np.concatenate(self._waiting)
            self._waiting.clear()
            self._max_id = max(self._max_id, int(tokens.max(initial=0)))
            self._file.write(tokens.astype(tokens.dtype.newbyteorder("<"), copy=False).tobytes())

    def sync(self) -> None:
        """All that was added is on the disk."""
        if not self._file.closed:  # else the last shard is finished, which synced it
            self.flush()
            self._file.flush()
            os.fsync(self._file.fileno())

    def begun(self) -> OpenShard:
        """What the journal has to know of the shard that is being filled, once it is synced."""
        return OpenShard(self._tokens, self._text_bytes, self._max_id, self._documents)

    def finish(self) -> None:
        """No more goes into the current shard. It is listed, and keeps its `.part` until `publish`."""
        self.sync()
        self._file.close()
        number = len(self.finished)
        if self._tokens:
            with open_regular(self._part(number)) as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
            self.finished.append(
                ShardEntry(
                    shard_name(self._split, number),
                    self._tokens,
                    self._text_bytes,
                    checksum,
                    self._max_id,
                    self._documents,
                )
            )
        else:
            self._part(number).unlink()
        self._fill(OpenShard())

    def _fill(self, shard: OpenShard) -> None:
        self._tokens, self._text_bytes = shard.tokens, shard.text_bytes
        self._max_id, self._documents = shard.max_id, shard.documents

    def publish(self) -> None:
        """Give the finished shards their names, now that the journal knows of them."""
        for number in range(len(self.finished)):
            with contextlib.suppress(FileNotFoundError):  # it has its name already
                os.replace(self._part(number), self._directory / shard_name(self._split, number))

    def close(self) -> None:
        self._file.close()

    def _part(self, number: int) -> Path:
        return self._directory / f"{shard_name(self._split, number)}.part"
