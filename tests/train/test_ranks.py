"""Several processes that communicate through gloo: the same tokens and losses, whatever their number."""

from __future__ import annotations

import json
import logging
import shutil
import signal
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from nanopace.errors import ConfigError, InputError, UsageError
from nanopace.literals import Value
from nanopace.train import ranks as ranks_module
from nanopace.train.checkpoint.layout import newest_intact
from nanopace.train.ranks import Ranks, elastic, joined

from .processes import assert_same_run, command, patched, run, steps_of, torchrun
from .runs import events, resume

# --- the same curve --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_number_of_ranks_changes_nothing(shared_corpus: Path, alone: Path, tmp_path: Path, ranks: int) -> None:
    """Two of them as new processes."""
    out_dir = tmp_path / "out"
    words = torchrun(ranks, *command(out_dir, shared_corpus), script=patched(tmp_path, COUNTING))
    done = run(words, measured=ranks == 2, real=ranks == 2, MARK=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert_same_run(out_dir, alone)
    assert done.stdout.count("iter 20:") == 1  # one rank speaks
    assert [each["world_size"] for each in events(out_dir, "run")] == [ranks]  # and one writes
    assert all(each.slowest_rank in range(ranks) and each.lag is not None for each in steps_of(out_dir).values())
    told = [json.loads((tmp_path / f"told-{rank}").read_text()) for rank in range(ranks)]
    assert [each["meetings"] for each in told] == [25] * ranks  # once a step, however many micro-batches it has
    assert not any(each.get("threads") for each in told)  # one that outlives the interpreter aborts the process


def test_shards_train_alike_and_go_on_with_one_and_with_four_ranks(
    shared_corpus: Path, alone: Path, tmp_path: Path
) -> None:
    """Two ranks start, one continues, four finish: every part of every tensor finds its place."""
    out_dir = tmp_path / "out"
    begun = run(torchrun(2, *command(out_dir, shared_corpus, parallel="fsdp", max_iters=8)))
    assert begun.returncode == 0, begun.stderr
    assert len(list((out_dir / "checkpoints" / "step-00000009").glob("shard-*.safetensors"))) == 2
    assert_damage_is_found(out_dir, tmp_path / "copy")
    resumed: dict[str, Value] = {"out_dir": str(out_dir), "init_from": "resume", "device": "cpu"}
    resume(out_dir, device="cpu", max_iters=16)
    assert (out_dir / "checkpoints" / "step-00000017" / "model.safetensors").exists()
    flags = [f"--{name}={value}" for name, value in {**resumed, "max_iters": 24, "parallel": "fsdp"}.items()]
    ended = run(torchrun(4, "train", "--no-report", *flags), measured=False)
    assert ended.returncode == 0, ended.stderr
    assert_same_run(out_dir, alone)


def assert_damage_is_found(out_dir: Path, copy: Path) -> None:
    """One bit of the second rank's part."""
    shutil.copytree(out_dir, copy)
    part = sorted((copy / "checkpoints" / "step-00000009").glob("shard-*"))[1]
    data = bytearray(part.read_bytes())
    data[-1] ^= 1
    part.write_bytes(data)
    saved, refused = newest_intact(copy)
    assert saved.step == 5
    assert part.name in str(refused[0])


COUNTING = """
    import json, os, pathlib, sys
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as Copies
    from nanopace.cli.main import main

    meetings, begin = [], Copies.__init__

    def counted(self, *given, **more):
        begin(self, *given, **more)
        def meet(group, bucket):
            meetings.append(bucket.index())
            added = dist.all_reduce(bucket.buffer() / dist.get_world_size(), async_op=True)
            return added.get_future().then(lambda each: each.value()[0])
        self.register_comm_hook(None, meet)

    Copies.__init__ = counted
    code = main()
    told = {"meetings": meetings.count(0)}
    if sys.platform == "linux":
        left = [pathlib.Path(each.path, "comm").read_text().strip() for each in os.scandir("/proc/self/task")]
        told["threads"] = [name for name in left if "gloo" in name]
    pathlib.Path(os.environ["MARK"], "told-" + os.environ["RANK"]).write_text(json.dumps(told))
    sys.exit(code)
"""


# --- the small parts -------------------------------------------------------------------------------------------------


def test_who_a_process_is() -> None:
    assert Ranks.of({}) == Ranks(0, 1, 0, 0, launched=False)
    told = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "2"}
    assert Ranks.of(told) == Ranks(3, 8, 1, 2, launched=True)
    for wrong in ({"RANK": "1"}, {"RANK": "x", "WORLD_SIZE": "2"}):
        with pytest.raises(UsageError, match="torchrun sets them all"):
            Ranks.of(wrong)


def test_alone_everything_is_ones_own() -> None:
    ranks = Ranks()
    assert ranks.exchange([1.0, 2.0]).tolist() == [[1.0, 2.0]]
    assert ranks.gather("this") == ["this"]
    assert ranks.share("that") == "that"
    assert ranks.average(torch.tensor(3.0)) == 3.0
    with pytest.raises(InputError, match="gone"):
        ranks.agree(lambda: (_ for _ in ()).throw(InputError("gone")))


def test_backends_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that torch knows by name only; upper case is fine, as in torch."""
    cpu, alone, together = torch.device("cpu"), Ranks(), Ranks(0, 2, launched=True)
    for ranks in (alone, together):
        for name in ("nonsense", "MPI", "undefined"):
            with (
                pytest.raises(UsageError, match=f"--backend={name}: unknown; use nccl for cards or gloo for CPUs"),
                joined(ranks, cpu, name),
            ):
                pass
    for name in ("nccl", "NCCL"):
        with (
            pytest.raises(UsageError, match="--backend=nccl: needs a card for each process; use gloo on cpu"),
            joined(together, cpu, name),
        ):
            pass
    asked: list[str] = []

    def init(backend: str, **_: object) -> None:
        asked.append(backend)
        raise InputError("as far as it goes")

    monkeypatch.setattr(dist, "init_process_group", init)
    monkeypatch.setattr(ranks_module, "_store", lambda _: None)
    with pytest.raises(InputError), joined(together, cpu, "GLOO"):
        pass
    assert asked == ["gloo"]


def test_what_a_restarted_process_does() -> None:
    given = {"init_from": "scratch", "max_iters": 5}
    assert elastic(given, Ranks(), has_checkpoint=True) == given
    again = Ranks(restarts=1)
    assert elastic(given, again, has_checkpoint=True)["init_from"] == "resume"
    assert elastic(given, again, has_checkpoint=False) == given  # then it starts over, and keeps what is there


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no hanging up here")
@pytest.mark.parametrize("nohup", [False, True])
def test_the_agent_passes_hanging_up_on_but_not_under_nohup(monkeypatch: pytest.MonkeyPatch, nohup: bool) -> None:
    from torch.distributed.launcher import api

    from nanopace.train.launch import launch

    configs: list[api.LaunchConfig] = []
    monkeypatch.setattr(api, "elastic_launch", lambda config, _: configs.append(config) or (lambda *_: None))
    for name in ("OMP_NUM_THREADS", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"):
        monkeypatch.setenv(name, "1")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
    try:
        assert launch(2, "cpu", []) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
        logging.disable(logging.NOTSET)
    assert ("SIGHUP" in configs[0].signals_to_handle) != nohup


def test_accumulation_is_shared_by_all_ranks() -> None:
    """nanoGPT's rule, with an explanation."""
    from nanopace.config import TrainConfig
    from nanopace.train.plan.settings import _check  # what every plan goes through

    with pytest.raises(ConfigError, match="5 is not a multiple of 2"):
        _check(TrainConfig(gradient_accumulation_steps=5), None, 2)  # type: ignore[arg-type]
