"""Checkpoints that ranks write together: one rank here, and two forked ones. tests/train/test_ranks.py trains."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer
from nanopace.train.checkpoint import saver as saver_module
from nanopace.train.checkpoint import sharded as module
from nanopace.train.checkpoint.best import read_best
from nanopace.train.checkpoint.layout import verified
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.saver import SaveResult
from nanopace.train.checkpoint.sharded import NoCheckpointer, ShardedCheckpointer
from nanopace.train.checkpoint.write import describe
from nanopace.train.models.gpt2 import GPT
from nanopace.train.warm_start import keep_the_compiler_out_of_optimizers

from .checkpoints import SHAPE
from .saving import full, promptly, steps

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="gloo is tried on Linux")


@contextmanager
def joined(store: dist.Store, rank: int = 0, size: int = 1) -> Iterator[None]:
    hook = sys.excepthook  # which torch replaces
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=20))
    try:
        yield
    finally:
        dist.destroy_process_group()
        sys.excepthook = hook


def parts_of(model: nn.Module) -> None:
    """Each rank holds a part of every weight, as with FSDP; the tied table stays a single tensor."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parts: dict[nn.Parameter, nn.Parameter] = {}
    for owner in model.modules():
        for name, weight in list(owner.named_parameters(recurse=False)):
            if weight not in parts:
                parts[weight] = nn.Parameter(distribute_tensor(weight.detach(), mesh, [Shard(0)]))
            owner.register_parameter(name, parts[weight])


def made(claim: Claim, *, keep_last: int = 1) -> tuple[ShardedCheckpointer, dict[str, torch.Tensor]]:
    """Its weights are sharded, but the optimizer's step counts are not."""
    keep_the_compiler_out_of_optimizers()
    torch.manual_seed(0)
    model = GPT(SHAPE)
    weights = {name: each.detach().clone() for name, each in model.named_parameters()}
    parts_of(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0, foreach=False)
    for each in model.parameters():
        each.grad = torch.ones_like(each)
    optimizer.step()
    assert all(isinstance(each, DTensor) for each in model.parameters())
    saver = ShardedCheckpointer(
        claim, model, optimizer, tokenizer=bytes_tokenizer(), keep_last=keep_last, device=torch.device("cpu")
    )
    return saver, weights


def save(saver: ShardedCheckpointer, step: int) -> None:
    state = describe(SHAPE, step=step, config={}, tokenizer=bytes_tokenizer()) | {"best": None}
    promptly(lambda: saver.save(step, state))


def run_of(out: Path, *, writes: bool) -> None:
    """What each rank of a run does; only the first knows the directory."""
    out.mkdir(exist_ok=True)
    with Claim(out) as claim:
        if writes:
            claim.take()
        else:  # what the others leave to the first
            saver_module.known_best = saver_module.remove_checkpoint = saver_module.write_best = full
        saver, weights = made(claim)
        for step in (1, 2, 3):
            save(saver, step)
            saver.mark_best(step, 3.0 if step == 1 else 4.0 + step)
        promptly(saver.close)
        results = saver.results()
        assert (saver.notes(), saver._keep_last) == ([], 1)
        assert [(each.step, each.failure) for each in results] == [(1, None), (2, None), (3, None)]
        path = out / "checkpoints" / "step-00000003"
        assert results[-1].path == path
        files = [each for each in path.iterdir() if each.name != "state.json"]
        assert results[-1].bytes == sum(each.stat().st_size for each in files)
        dist.barrier()
        saved = verified(path)
        assert saved.sharded
        averages = saved.optimizer()
        assert averages is not None
        for name, each in weights.items():
            assert torch.equal(saved.weights()[name], each)
            assert averages[f"exp_avg.{name}"].eq(0.1).all()
            assert averages[f"step.{name}"] == 1


@linux
def test_one_rank(tmp_path: Path) -> None:
    with joined(dist.HashStore()):
        run_of(tmp_path / "out", writes=True)
    assert read_best(tmp_path / "out") == (3, 7.0)
    assert steps(tmp_path / "out") == [3]


@linux
def test_a_rank_that_fails_fails_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever fails, nothing is left behind, and the next save succeeds."""
    with joined(dist.HashStore()), Claim(tmp_path) as claim:
        saver, _ = made(claim)
        for number, name in enumerate(("new_checkpoint", "measure", "finish_checkpoint"), start=1):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, full)
                save(saver, number)
                promptly(saver._idle.wait)
            assert [(each.step, each.failure) for each in saver.results()] == [(number, "No space left on device")]
            assert not os.listdir(tmp_path / "checkpoints") if (tmp_path / "checkpoints").exists() else True
        with monkeypatch.context() as patch:
            patch.setattr(module, "measure", lambda _: (_ for _ in ()).throw(OSError("no number")))
            save(saver, 4)
            promptly(saver._idle.wait)
        with monkeypatch.context() as patch:  # as torch reports it
            patch.setattr("torch.distributed.checkpoint.hf_storage.HuggingFaceStorageWriter.write_data", full)
            save(saver, 5)
            promptly(saver._idle.wait)
        save(saver, 6)
        promptly(saver.close)
        assert [each.failure for each in saver.results()] == ["no number", "No space left on device", None]
    assert steps(tmp_path) == [6]


@linux
def test_two_ranks_write_one_checkpoint(tmp_path: Path) -> None:
    """The second does not know the directory: it writes its part, and neither prunes nor records the best."""
    out, processes = tmp_path / "out", []
    for rank in range(2):
        process = os.fork()
        if not process:
            code = 1
            try:
                with joined(dist.FileStore(str(tmp_path / "store"), 2), rank, 2):
                    run_of(out, writes=rank == 0)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        processes.append(process)
    assert [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in processes] == [0, 0]
    assert (steps(out), read_best(out)) == ([3], (3, 7.0))
    path = out / "checkpoints" / "step-00000003"
    shards = sorted(each.name for each in path.glob("*.safetensors"))
    assert [name[:11] for name in shards] == ["shard-00001", "shard-00002"]
    assert json.loads((path / "state.json").read_text())["files"].keys() == {*shards, "tokenizer.json"}


def test_a_rank_that_saves_nothing_says_nothing() -> None:
    none = NoCheckpointer()
    none.save(1, {})
    none.mark_best(1, 2.0)
    none.retry_last_save()
    none.close()
    results: list[SaveResult] = none.results()
    assert (none.before_update(), results, none.notes()) == (False, [], [])
