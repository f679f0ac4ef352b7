"""Encodes batches of text, and writes the tokens as shards that the manifest lists."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from nanopace.corpus.documents.pieces import Piece
from nanopace.corpus.prepare.intake import Batch, batches
from nanopace.corpus.prepare.provenance import Counts, damaged
from nanopace.corpus.prepare.recipe import Inputs, Recipe
from nanopace.corpus.prepare.shard_writer import SplitWriter
from nanopace.corpus.shards.manifest import MANIFEST, SPLITS, Manifest, SplitName, check_files, write_manifest
from nanopace.corpus.tokenizers.tokenizer import Ids, Tokenizer
from nanopace.errors import InputError
from nanopace.files import sync_directory

Pieces = list[tuple[SplitName, Piece]]


@dataclass(frozen=True, slots=True)
class Status:
    """Progress, for a progress bar."""

    stage: Literal["download", "tokenizer", "tokens"]
    done: int  # bytes of the files
    total: int | None
    documents: int = 0
    tokens: int = 0
    which: str = ""  # which of several files


OnProgress = Callable[[Status], object]


@dataclass(frozen=True, slots=True)
class Encoded:
    """What one process has encoded."""

    text_bytes: int = 0
    seconds: float = 0.0


class CorpusWriter:
    """Writes the shards that the manifest does not list yet.

    It always reads the input from the beginning, at 100 MB/s, and encodes only what is not in a finished shard.
    """

    def __init__(
        self, directory: Path, inputs: Inputs, recipe: Recipe, tokenizer: Tokenizer, manifest: Manifest
    ) -> None:
        self.counts = Counts()
        self.manifest = manifest
        self._directory = directory
        self._inputs = inputs
        self._tokenizer = tokenizer
        self._splits = {
            name: SplitWriter(
                directory,
                name,
                manifest.dtype,
                shard_tokens=recipe.shard_tokens,
                end_of_text=tokenizer.end_of_text,
                finished=manifest.split(name),
            )
            for name in SPLITS
        }
        write_manifest(directory, manifest)

    def run(self, on_progress: OnProgress) -> Encoded:
        """Read everything, and encode and write what is missing."""
        text_bytes = 0
        began = time.monotonic()
        for batch, pieces, encoded in self._encoded():
            finished = self._finished()
            for (name, piece), ids in zip(pieces, encoded, strict=True):
                self._splits[name].add(np.asarray(ids, dtype=self.manifest.dtype), piece.size, begins=piece.begins)
                text_bytes += piece.size
            for writer in self._splits.values():
                writer.flush()
            if self._finished() > finished:
                self._list_shards(complete=False)
            self.counts += batch.counts
            tokens = sum(writer.tokens for writer in self._splits.values())
            on_progress(Status("tokens", batch.done, self._inputs.total, self.counts.documents, tokens))
        return Encoded(text_bytes, time.monotonic() - began)

    def missing(self) -> InputError | None:
        """What the corpus lacks after everything has been read; None if it is complete."""
        if not self.counts.documents:
            return self._inputs.without_text()
        for name, writer in self._splits.items():
            if not writer.tokens:
                return InputError(
                    "{path}: {documents} distinct documents leave no text for {split}; choose another --val_fraction",
                    path=self._directory,
                    documents=self.counts.documents,
                    split=name,
                )
        return None

    def complete(self) -> None:
        """Finish the last shards, and mark the corpus as complete in the manifest."""
        if not all(writer.skipped_exactly for writer in self._splits.values()):
            raise damaged(self._directory / MANIFEST)
        for writer in self._splits.values():
            writer.finish()
        self._list_shards(complete=True)
        check_files(self._directory, self.manifest)

    def close(self) -> None:
        for writer in self._splits.values():
            writer.close()

    def _encoded(self) -> Iterator[tuple[Batch, Pieces, Sequence[Ids]]]:
        """Encode batch by batch. Meanwhile, the next batch is read and the previous one written."""
        waiting: tuple[Batch, Pieces, Future[Sequence[Ids]]] | None = None
        with ThreadPoolExecutor(1) as pool:
            for batch in batches(self._inputs):
                pieces = [(name, piece) for name, piece in batch.pieces if not self._splits[name].skip(piece)]
                encoding = pool.submit(self._tokenizer.encode_batch, [piece.text for _, piece in pieces])
                if waiting is not None:
                    yield waiting[0], waiting[1], waiting[2].result()
                waiting = batch, pieces, encoding
            if waiting is not None:
                yield waiting[0], waiting[1], waiting[2].result()

    def _finished(self) -> int:
        return sum(len(writer.finished) for writer in self._splits.values())

    def _list_shards(self, *, complete: bool) -> None:
        """List the finished shards. Their names must be on disk first."""
        sync_directory(self._directory)
        train, val = (tuple(self._splits[name].finished) for name in SPLITS)
        self.manifest = replace(self.manifest, train=train, val=val, complete=complete)
        write_manifest(self._directory, self.manifest)
