"""Passes corrupted files to their readers, or to complete commands."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fuzzing.commands import call
from fuzzing.spoiled import DEEP
from fuzzing.worker import Wrong
from fuzzing.world import CANARY, FINGERPRINT, world


def _checkpoint(out: Path) -> None:
    """Every checkpoint must be refused or unchanged, unless its checksums were rewritten."""
    from nanopace.train.checkpoint.choose import choose
    from nanopace.train.checkpoint.layout import checkpoint_directories, verified
    from nanopace.train.checkpoint.verify import find_checkpoints, verdicts

    list(verdicts(find_checkpoints(out), lambda _: None))
    for directory in checkpoint_directories(out):
        saved = verified(directory)
        weights, _ = saved.weights(), saved.optimizer()
        _ = saved.best, saved.windows
        name = f"{out.name}/checkpoints/{directory.name}/"
        state = (directory / "state.json").read_bytes()
        if json.loads(state).get("checksum") == json.loads(world()[name + "state.json"])["checksum"]:
            _compare(weights, _weights(name))
    for which in ("", "best", "last", "10"):
        choose(out, which)


@cache
def _weights(name: str) -> Mapping[str, Any]:
    """The weights in the original world."""
    from safetensors.torch import load

    files = [data for path, data in world().items() if path.startswith(name) and path.endswith(".safetensors")]
    return {key: tensor for data in files for key, tensor in load(data).items()}


def _compare(found: Mapping[str, Any], meant: Mapping[str, Any]) -> None:
    import torch

    if not all(
        name in meant and torch.equal(each, meant[name]) for name, each in found.items() if name != "lm_head.weight"
    ):
        raise Wrong("an altered checkpoint was loaded with different weights")


def _model(path: Path) -> None:
    from nanopace.train.formats.convert import open_pretrained
    from nanopace.train.formats.nanogpt_run import open_nanogpt_run

    open_pretrained(path)
    if path.name == "nanogpt":
        open_nanogpt_run(path / "ckpt.pt")


def _corpus(directory: Path) -> None:
    from nanopace.corpus.prepare.provenance import Provenance
    from nanopace.corpus.shards.corpus import open_corpus
    from nanopace.corpus.shards.manifest import check_files, read_manifest
    from nanopace.corpus.tokenizers.tokenizer import load_tokenizer

    Provenance.read(directory)
    tokenizer = load_tokenizer(directory)
    if tokenizer is not None:
        tokenizer.decode(tokenizer.encode("abc"))
    if (directory / "corpus.json").exists():
        check_files(directory, read_manifest(directory))
    open_corpus(directory).check(50304, 4)


def _documents(path: Path) -> None:
    from nanopace.corpus.documents.read import documents

    for document in documents(path):
        if not isinstance(document.content, bytes):
            with document.content() as file:
                file.read(1 << 20)


_READERS = {"checkpoint": _checkpoint, "model": _model, "corpus": _corpus, "documents": _documents}


def read_trees(room: Path) -> Callable[[bytes], None]:
    """For readers, which write nothing: the original files are put back afterwards."""
    base = room / "base"
    lay_out(base)

    def check(data: bytes) -> None:
        recipe = json.loads(data)
        try:
            for path, what in recipe["put"].items():
                (base / path).write_bytes(what.encode("latin-1"))
            reader, place = recipe["do"]
            _READERS[reader](base / place)
        finally:
            for path in recipe["put"]:
                (base / path).write_bytes(world()[path])

    return check


def run_in_trees(room: Path) -> Callable[[bytes], None]:
    """For commands: each runs in its own world, and nothing outside of it may change."""
    import nanopace.train.run  # noqa: F401 (so that no input's memory includes torch)
    from nanopace.corpus.prepare.recipe import Recipe, inputs_of

    first, outside, place = room / "first", room / CANARY, room / "here"
    lay_out(first)
    shutil.copytree(first, place)
    fingerprint = inputs_of([place / "text/a.txt"], Recipe(name="own", tokenizer="bytes")).fingerprint
    for path in first.rglob("prepare.json"):
        path.write_text(path.read_text().replace(FINGERPRINT, fingerprint))

    def check(data: bytes) -> None:
        recipe = json.loads(data)
        os.chdir(room)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(first, place)
        outside.write_bytes(world()[CANARY])
        for path, what in recipe["put"].items():
            _put(place / path, what.replace(FINGERPRINT, fingerprint) if isinstance(what, str) else what, room)
        os.chdir(place)
        call(recipe["do"])
        for canary in (outside, place / CANARY):
            if canary.read_bytes() != world()[CANARY]:
                raise Wrong(f"{recipe['do'][0]} changed a file that is not its own")

    return check


def lay_out(base: Path) -> None:
    for path, data in world().items():
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).write_bytes(data)


def _put(path: Path, what: Any, room: Path) -> None:
    try:
        _remove(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(what, str):
            path.write_bytes(what.encode("latin-1"))
            return
        kind, target = what
        match kind:
            case "fifo":
                os.mkfifo(path)
            case "link":
                path.symlink_to(target.replace("{room}", str(room)))
            case "directory":
                path.mkdir()
            case "sparse":
                with path.open("wb") as file:
                    file.truncate(20 << 30)
            case "deep":
                path.write_bytes(DEEP)
            case "empty":
                path.touch()
            case "secret":
                path.write_bytes(b"x")
                path.chmod(0)
    except OSError:  # an earlier replacement may be in the way
        return


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
