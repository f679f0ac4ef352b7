"""A corpus in the making: batches are encoded, their tokens written, and the journal keeps up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np

from nanopace.corpus.prepare.dedup import Seen, SeenFile
from nanopace.corpus.prepare.intake import Batch, batches
from nanopace.corpus.prepare.journal import Counts, Journal
from nanopace.corpus.prepare.recipe import Inputs, Recipe
from nanopace.corpus.prepare.shard_writer import SplitWriter
from nanopace.corpus.shards.manifest import SPLITS, Dtype, Manifest, check_files, smallest_dtype, write_manifest
from nanopace.corpus.tokenizers.tokenizer import Ids, Tokenizer
from nanopace.errors import InputError
from nanopace.files import sync_directory

_SECONDS_BETWEEN_COMMITS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Status:
    """Something to show while it works."""

    stage: Literal["download", "tokenizer", "tokens"]
    done: int  # bytes of files
    total: int | None
    documents: int = 0
    tokens: int = 0
    which: str = ""  # of several files


Told = Callable[[Status], object]


@dataclass(frozen=True, slots=True)
class Encoded:
    """What one run did of the work."""

    text_bytes: int = 0
    seconds: float = 0.0


class Work:
    """A corpus in the making: what is on the disk, and what has still to be read."""

    def __init__(self, directory: Path, inputs: Inputs, recipe: Recipe, tokenizer: Tokenizer, journal: Journal) -> None:
        self._directory = directory
        self._inputs = inputs
        self._tokenizer = tokenizer
        self._journal = journal
        self._name = recipe.name
        self._dtype: Dtype = smallest_dtype(tokenizer.vocab_size)
        self._seen = SeenFile(directory, journal.seen)
        self._splits = {
            name: SplitWriter(
                directory,
                name,
                self._dtype,
                shard_tokens=recipe.shard_tokens,
                end_of_text=tokenizer.end_of_text,
                finished=journal.finished[name],
                begun=journal.begun[name],
            )
            for name in SPLITS
        }
        journal.write(directory)
        self._write_manifest(complete=False)

    def run(self, told: Told) -> Encoded:
        """Encode and write all that is left."""
        text_bytes = 0
        began = committed = time.monotonic()
        for batch, encoded in self._encoded():
            finished = self._finished()
            for (name, piece), ids in zip(batch.pieces, encoded, strict=True):
                self._splits[name].add(np.asarray(ids, dtype=self._dtype), piece.size, begins=piece.begins)
                text_bytes += piece.size
            for writer in self._splits.values():
                writer.flush()  # two seconds of tokens, until the next commit, may be more than the memory
            self._note(batch)
            if self._finished() > finished or time.monotonic() - committed > _SECONDS_BETWEEN_COMMITS:
                self._commit()
                committed = time.monotonic()
            tokens = sum(writer.tokens for writer in self._splits.values())
            told(Status("tokens", batch.done, self._inputs.total, self._journal.counts.documents, tokens))
        return Encoded(text_bytes, time.monotonic() - began)

    def complete(self) -> Journal:
        """Close the last shards and say that the corpus is whole."""
        for writer in self._splits.values():
            writer.finish()
        self._commit()
        check_files(self._directory, self._write_manifest(complete=True))
        self._seen.remove()
        return self._journal

    def lacking(self) -> InputError | None:
        """What keeps the corpus from being one, now that everything is read."""
        if not self._journal.counts.documents:
            return self._inputs.without_text()
        for name, writer in self._splits.items():
            if not writer.tokens:
                return InputError(
                    "{path}: {documents} different documents leave no text for {split}; choose another --val_fraction",
                    path=self._directory,
                    documents=self._journal.counts.documents,
                    split=name,
                )
        return None

    def close(self) -> None:
        self._seen.close()
        for writer in self._splits.values():
            writer.close()

    def _encoded(self) -> Iterator[tuple[Batch, Sequence[Ids]]]:
        """Batch by batch. While the tokenizer is at one, the next is read and the one before is written."""
        seen = Seen(self._seen.read())
        waiting: tuple[Batch, Future[Sequence[Ids]]] | None = None
        with ThreadPoolExecutor(1) as pool:
            for batch in batches(self._inputs, self._journal.place, seen):
                following = batch, pool.submit(self._encode, batch)
                if waiting is not None:
                    yield waiting[0], waiting[1].result()
                waiting = following
            if waiting is not None:
                yield waiting[0], waiting[1].result()

    def _encode(self, batch: Batch) -> Sequence[Ids]:
        return self._tokenizer.encode_batch([piece.text for _, piece in batch.pieces])

    def _note(self, batch: Batch) -> None:
        """The batch is done: it counts as soon as it is committed."""
        self._seen.add(batch.new)
        so_far, new = self._journal.counts, batch.counts
        counts = Counts(
            so_far.documents + new.documents, so_far.duplicates + new.duplicates, so_far.replaced + new.replaced
        )
        self._journal = replace(self._journal, place=batch.place, counts=counts, seen=self._seen.count)

    def _commit(self) -> None:
        """First the tokens and their files' names, then the journal that counts them, then the names of finished
        shards, then the manifest that lists them; each is on the disk before the next."""
        self._seen.sync()
        for writer in self._splits.values():
            writer.sync()
        sync_directory(self._directory)
        self._journal = replace(
            self._journal,
            finished={name: tuple(writer.finished) for name, writer in self._splits.items()},
            begun={name: writer.begun() for name, writer in self._splits.items()},
        )
        self._journal.write(self._directory)
        for writer in self._splits.values():
            writer.publish()
        sync_directory(self._directory)
        self._write_manifest(complete=False)

    def _finished(self) -> int:
        return sum(len(writer.finished) for writer in self._splits.values())

    def _write_manifest(self, *, complete: bool) -> Manifest:
        manifest = Manifest(
            name=self._name,
            tokenizer=self._tokenizer.kind,
            tokenizer_hash=self._tokenizer.hash,
            vocab_size=self._tokenizer.vocab_size,
            dtype=self._dtype,
            complete=complete,
            train=tuple(self._splits["train"].finished),
            val=tuple(self._splits["val"].finished),
        )
        write_manifest(self._directory, manifest)
        return manifest
