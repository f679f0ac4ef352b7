"""Preparing a corpus, and downloading files for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from nanopace.corpus.download.fetch import Remote, download
from nanopace.corpus.prepare import intake
from nanopace.corpus.prepare.prepare import Recipe, prepare
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.shards.manifest import SPLITS, read_manifest
from nanopace.errors import InputError

from ..corpus.file_server import serving
from .recorder import recording
from .scenario import Check, Scenario


@contextmanager
def preparing(folder: Path) -> Iterator[Scenario]:
    """Prepare a few documents, one of them twice, as several files."""
    root = folder / "disk"
    root.mkdir(parents=True)
    files = [folder / "0.jsonl", folder / "1.jsonl"]
    texts = [f"{number} " * 40 for number in range(7)]
    for path, part in zip(files, (texts[:4], texts[3:]), strict=True):
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in part))
    recipe = Recipe(name="rows", tokenizer="bytes", shard_tokens=150, val_fraction=0.4)

    def prepared(directory: Path) -> dict[str, bytes]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(intake, "BATCH", 100)
            prepare(files, directory, recipe)
        return {path.name: path.read_bytes() for path in directory.iterdir()}

    with recording(root) as recorder:
        whole = prepared(root / "data" / "rows")
        recorder.promise("prepared")
    assert sum(name.startswith("train-") for name in whole) > 1
    assert sum(name.startswith("val-") for name in whole) > 1

    def check(root: Path, told: Sequence[str]) -> None:
        directory = root / "data" / "rows"
        if (directory / "corpus.json").exists():
            manifest = read_manifest(directory)
            for entry in (each for split in SPLITS for each in manifest.split(split)):
                assert hashlib.sha256((directory / entry.file).read_bytes()).hexdigest() == entry.sha256
        if told:
            open_corpus(directory)
        assert prepared(directory) == whole

    yield Scenario(recorder.trace, (Check(tuple, check),))


@contextmanager
def downloading(folder: Path) -> Iterator[Scenario]:
    """Download two files, the first in two pieces. What a cut has damaged is removed and downloaded again."""
    folder.mkdir()
    data = {"a": b"a" * 3000, "b": b"b" * 2000}
    with serving({f"/{name}": content for name, content in data.items()}) as server:
        sums = {name: hashlib.sha256(content).hexdigest() for name, content in data.items()}
        remotes = [Remote(f"{server.url}/{name}", name, len(data[name]), sums[name]) for name in data]
        server.breaks_after = [1000]
        with recording(folder) as recorder:
            for remote in remotes:
                download(remote, folder / "cache" / "files", pause=0)
                recorder.promise(remote.name)

        def check(root: Path, told: Sequence[str]) -> None:
            directory = root / "cache" / "files"
            assert all((directory / name).exists() for name in told)
            for remote in remotes:
                with suppress(InputError):  # what is damaged is removed
                    download(remote, directory)
                assert download(remote, directory).read_bytes() == data[remote.name]

        yield Scenario(recorder.trace, (Check(tuple, check),))
