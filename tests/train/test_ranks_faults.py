"""Several processes, one of which lags, dies, is interrupted, fails or exits: it affects all of them."""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from pathlib import Path

import pytest

from nanopace import diagnose, open_run
from nanopace.train.checkpoint.layout import newest_intact

from .processes import (
    LONGEST,
    assert_same_run,
    command,
    end,
    losses_of,
    patched,
    run,
    start,
    steps_of,
    torchrun,
    wait_for,
)
from .runs import events


def test_a_rank_that_lags_is_named_and_one_that_is_killed_is_started_again(
    shared_corpus: Path, alone: Path, tmp_path: Path
) -> None:
    out_dir = tmp_path / "out"
    words = torchrun(2, *command(out_dir, shared_corpus), restarts=1, script=patched(tmp_path, SLEEPY))
    process = start(words, MARK=str(tmp_path))
    try:
        wait_for((out_dir / "checkpoints" / "step-00000005").exists, "the first checkpoint")
        os.kill(int((tmp_path / "pid-1").read_text()), signal.SIGKILL)
        said, _ = process.communicate(timeout=LONGEST)
    finally:
        end(process)
    assert process.returncode == 0, said
    assert_same_run(out_dir, alone)
    kinds = [json.loads(line)["event"] for line in (out_dir / "ledger.jsonl").read_text().splitlines()]
    assert kinds.count("resume") == 1
    found = {each.code: each for each in diagnose(open_run(out_dir)).findings}
    assert found["straggler"].numbers["rank"] == 1
    assert found["straggler"].numbers["lag_share"] > 1  # against the other one: it sleeps for most of its time
    assert all(each.ms >= 200 for each in steps_of(out_dir).values())  # the slowest rank's time: it slept twice


def test_one_interrupt_stops_all_after_the_same_step_and_saves(shared_corpus: Path, tmp_path: Path) -> None:
    out_dir = tmp_path / "out"
    words = [sys.executable, "-m", "nanopace", *command(out_dir, shared_corpus, max_iters=100000), "--gpus=2"]
    process = start(words)
    try:
        wait_for((out_dir / "checkpoints" / "step-00000010").exists, "a checkpoint")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the launcher and to both ranks
        said, _ = process.communicate(timeout=LONGEST)
    finally:
        end(process)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    saved, refused = newest_intact(out_dir)
    assert not refused
    assert saved.step == max(losses_of(out_dir)) + 1


def test_a_loss_of_one_rank_that_is_not_finite_takes_all_of_them_back(shared_corpus: Path, tmp_path: Path) -> None:
    out_dir = tmp_path / "out"
    done = run(torchrun(2, *command(out_dir, shared_corpus), script=patched(tmp_path, POISONED)), measured=False)
    assert done.returncode == 0, done.stderr
    skipped = [each["iteration"] for each in events(out_dir, "step") if each.get("skipped")]
    assert skipped == [12, 13, 14, 15, 16]  # two were under way
    back = [(each["iteration"], each["failed_at"]) for each in events(out_dir, "rollback")]
    assert back == [(10, 14)]
    losses = losses_of(out_dir)
    assert list(losses) == list(range(25))
    assert all(loss is not None and math.isfinite(loss) for loss in losses.values())


def test_a_rank_leaves_while_another_is_still_busy(tmp_path: Path) -> None:
    """A gloo thread has to free a tensor, which needs the GIL, while the group waits for that thread."""
    done = run(torchrun(2, script=patched(tmp_path, LEAVING)), measured=False)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 has left", "1 has left"]


def test_what_is_wrong_is_said_once(shared_corpus: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "nanopace", *command(tmp_path / "out", shared_corpus), "--gpus=3"]
    done = run(words)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "nanopace: gradient_accumulation_steps must be a multiple of the number of processes, which share its "
        "micro-batches: 4 is not a multiple of 3"
    ]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--gpus=two"], "--gpus=two: must be a number of cards, such as 2"),
        (["--gpus=0", "--device=cpu"], "--gpus=0: must be a number of cards, such as 2"),
        (["--gpus=99", "--device=cuda"], "use --device=cpu to try it without any"),
    ],
)
def test_a_number_of_cards_that_cannot_be(
    flags: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from nanopace.cli.main import main

    assert main(["train", *flags, f"--out_dir={tmp_path / 'out'}"]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


SLEEPY = """
    import os, pathlib, sys, time
    import torch
    torch.set_num_threads(1)
    from nanopace.cli.main import main
    from nanopace.train.models.gpt2 import GPT

    rank, forward = int(os.environ["RANK"]), GPT.forward
    pathlib.Path(os.environ["MARK"], f"pid-{rank}").write_text(str(os.getpid()))

    def slow(self, *given):
        time.sleep(0.1 if rank == 1 else 0)
        return forward(self, *given)

    GPT.forward = slow
    sys.exit(main())
"""

POISONED = """
    import os, sys
    from nanopace.cli.main import main
    from nanopace.train.models.gpt2 import GPT

    calls, forward = [0], GPT.forward

    def poisoned(self, *given):
        calls[0] += 1  # the first is the rehearsal, and then there are two a step
        bad = os.environ["RANK"] == "1" and 2 + 2 * 12 <= calls[0] < 2 + 2 * 17
        return forward(self, *given) * (float("nan") if bad else 1.0)

    GPT.forward = poisoned
    sys.exit(main())
"""

LEAVING = """
    import faulthandler, gc, os, time
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as Copies
    from nanopace.train.ranks import Ranks, joined

    faulthandler.dump_traceback_later(60, exit=True)  # whoever waits for ever
    gc.disable()  # until it leaves
    ranks = Ranks.of(os.environ)

    def model_in_a_cycle():
        model = Copies(torch.nn.Linear(4, 4))
        model(torch.ones(2, 4)).sum().backward()
        model.cycle = [model]

    def gather():
        return dist.all_gather([torch.empty(3) for _ in range(2)], torch.ones(3), async_op=True)

    with joined(ranks, torch.device("cpu"), None):
        model_in_a_cycle()
        if ranks.first:
            gather()
        else:
            time.sleep(0.5)
            gather().wait()
    os.write(1, f"{ranks.rank} has left\\n".encode())  # in one write: both ranks have the same pipe
"""


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_bit_that_flips_on_one_rank_stops_all(shared_corpus: Path, tmp_path: Path, parallel: str) -> None:
    """Up to then, gradients computed twice are the same on every rank."""
    out_dir = tmp_path / "out"
    words = command(out_dir, shared_corpus, parallel=parallel, check_every=3, save_interval=5)
    done = run(torchrun(2, *words, script=patched(tmp_path, FLIPPING)), measured=False)
    assert done.returncode != 0
    assert "step 7: transformer.h.1.mlp.c_fc.weight changed between two updates" in done.stderr
    known = json.loads((out_dir / "evidence-step-7" / "evidence.json").read_text())
    assert [(each["name"], each["rank"]) for each in known["differences"]] == [("transformer.h.1.mlp.c_fc.weight", 1)]
    ended = json.loads((out_dir / "ledger.jsonl").read_text().splitlines()[-1])
    assert ended["reason"] == "corrupted"
    saved, _ = newest_intact(out_dir)
    assert saved.step == 5
    assert "ended_corrupted" in {each.code for each in diagnose(open_run(out_dir)).findings}


FLIPPING = """
    import os, sys
    import torch
    from nanopace.cli.main import main
    from nanopace.train.loop.loop import Loop

    plain = Loop._between_steps

    def between(loop):
        plain(loop)
        if loop.iteration == 7 and os.environ["RANK"] == "1":
            weight = dict(loop._parts.model.named_parameters())["transformer.h.1.mlp.c_fc.weight"].detach()
            weight = weight.to_local() if hasattr(weight, "to_local") else weight
            weight.view(-1).view(torch.int32)[3] ^= 1 << 9

    Loop._between_steps = between
    sys.exit(main())
"""
