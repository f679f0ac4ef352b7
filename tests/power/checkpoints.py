"""Checkpoints, whatever writes them, and their exports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

import torch
import torch.distributed as dist

from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer
from nanopace.train.checkpoint.layout import checkpoint_directories, verified
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.run_dir import clear
from nanopace.train.checkpoint.sharded import ShardedCheckpointer
from nanopace.train.checkpoint.write import describe, sweep, write_weights
from nanopace.train.formats.atomic_files import exported_directory, exported_file
from nanopace.train.models.gpt2 import GPT, ModelShape

from .recorder import recording
from .scenario import Check, Scenario, last

SHAPE = ModelShape(n_layer=1, n_head=1, n_embd=4, vocab_size=257, block_size=4, bias=False)


def check_checkpoints(out: Path, step: int) -> None:
    """Every checkpoint with its final name is intact, and the newest one reported as saved, or a later one, exists."""
    sweep(out)
    found = [verified(each) for each in checkpoint_directories(out)]
    assert step <= (found[0].step if found else 0)
    assert all(saved.weights() for saved in found)


@contextmanager
def replacing_a_checkpoint(folder: Path) -> Iterator[Scenario]:
    """Replace one of the same step in a new directory: once the first exists, one of the two can be loaded."""
    folder.mkdir()
    with recording(folder) as recorder:
        for seed in (1, 2):
            torch.manual_seed(seed)
            directory = folder / "new" / "checkpoints" / "step-00000007"
            write_weights(directory, SHAPE, GPT(SHAPE).state_dict(), step=7, config={}, tokenizer=bytes_tokenizer())
            recorder.promise(7)
    yield Scenario(recorder.trace, (Check(last, lambda root, step: check_checkpoints(root / "new", step)),))


@contextmanager
def saving_in_parts(folder: Path) -> Iterator[Scenario]:
    """Save with torch.distributed.checkpoint, like a model sharded over several ranks; one so small that all of a file
    fits in Python's buffer."""
    shape = ModelShape(n_layer=1, n_head=1, n_embd=2, vocab_size=8, block_size=4, bias=False)
    folder.mkdir()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with recording(folder) as recorder, Claim(folder) as claim:
            model = GPT(shape)
            optimizer = torch.optim.AdamW(model.parameters())
            for each in model.parameters():
                each.grad = torch.ones_like(each)
            optimizer.step()
            device = torch.device("cpu")
            saver = ShardedCheckpointer(claim, model, optimizer, tokenizer=None, keep_last=1, device=device)
            saver.save(1, describe(shape, step=1, config={}, tokenizer=None))
            saver.close()
            assert [each.failure for each in saver.results()] == [None]
            recorder.promise(1)
    finally:
        dist.destroy_process_group()
    yield Scenario(recorder.trace, (Check(last, check_checkpoints),))


@contextmanager
def losing_the_directory(folder: Path) -> Iterator[Scenario]:
    """The directory is removed during a run: what is saved after that is safe, there or in --rescue_dir."""
    folder.mkdir()
    homes = folder / "runs" / "out", folder / "else" / "where"
    with recording(folder) as recorder, Claim(homes[0]) as claim:
        clear(homes[0], claim, anew=True, overwrite=False)
        rmtree(folder / "runs")
        for home in (claim.writable_dir(), claim.rescue(homes[1])):
            directory = home / "checkpoints" / "step-00000007"
            write_weights(directory, SHAPE, GPT(SHAPE).state_dict(), step=7, config={}, tokenizer=None)
            recorder.promise(home.name)

    def check(root: Path, told: tuple[str, ...]) -> None:
        for name in told:
            check_checkpoints(next(root.glob(f"*/{name}")), 7)

    yield Scenario(recorder.trace, (Check(tuple, check),))


@contextmanager
def exporting(folder: Path) -> Iterator[Scenario]:
    """Export a file and a directory, each twice. Both are intact; the file exists from the first time on, and so does
    the directory, except while it is being replaced."""
    (folder / "files").mkdir(parents=True)
    data = {"old": b"old" * 1000, "new": b"new" * 2000}
    with recording(folder) as recorder:
        for version in data:
            with exported_file(folder / "files" / "ckpt.pt") as file:
                file.write(data[version])
            recorder.promise(("file", version))
            recorder.promise(("directory", None))
            with exported_directory(folder / "exports" / "hub") as directory:
                (directory / "config.json").write_text(version)
                (directory / "weights").write_bytes(data[version])
            recorder.promise(("directory", version))

    def check(root: Path, told: Sequence[tuple[str, str | None]]) -> None:
        file, directory, newest = root / "files" / "ckpt.pt", root / "exports" / "hub", dict(told)
        if "file" in newest or file.exists():
            assert file.read_bytes() in (data[newest.get("file") or "old"], data["new"])
        if newest.get("directory") or directory.exists():
            version = (directory / "config.json").read_text()
            assert newest.get("directory") in (None, version)
            assert (directory / "weights").read_bytes() == data[version]

    yield Scenario(recorder.trace, (Check(tuple, check),))
