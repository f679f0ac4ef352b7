"""Several processes, real ones, that talk through gloo: the same tokens, the same losses, whatever their number."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from nanopace import diagnose, open_run
from nanopace.errors import ConfigError, InputError, UsageError
from nanopace.ledger import StepEvent, read_ledger
from nanopace.literals import Value
from nanopace.train.checkpoint_files import newest_whole
from nanopace.train.ranks import Ranks, elastic
from nanopace.train.run import train

from .conftest import TINY, Recorder, write_corpus

# No dropout: each rank draws its own. Four micro-batches a step can be shared by one, two and four ranks.
SHARED: Mapping[str, Value] = {**TINY, "dropout": 0.0, "gradient_accumulation_steps": 4, "max_iters": 24}
LONGEST = 180  # seconds that a run may take on a busy machine


def command(out_dir: Path, corpus: Path, **knobs: Value) -> list[str]:
    """The arguments of a run."""
    wanted = {**SHARED, "out_dir": str(out_dir), "dataset": str(corpus), **knobs}
    return ["train", "--no-report", *(f"--{name}={value}" for name, value in wanted.items())]


def environment(*, measured: bool = True, **more: str) -> dict[str, str]:
    """`measured`: not where processes are killed or interrupted, which coverage does not bear."""
    kept = {name: value for name, value in os.environ.items() if measured or not name.startswith("COVERAGE_")}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def torchrun(ranks: int, *arguments: str, restarts: int = 0, script: tuple[str, ...] = ("-m", "nanopace")) -> list[str]:
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"),
        *(f"--max-restarts={restarts}", *script, *arguments),
    ]


def forked(ranks: int, *arguments: str, script: Path | None = None) -> list[str]:
    """As torchrun would, where it is not torchrun that is tested: torch is imported once."""
    return [
        sys.executable,
        str(Path(__file__).with_name("several.py")),
        str(ranks),
        str(script or "nanopace"),
        *arguments,
    ]


def run(words: list[str], *, measured: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
    surroundings = environment(measured=measured, **more)
    return subprocess.run(words, env=surroundings, capture_output=True, text=True, timeout=LONGEST, check=False)


def steps_of(out_dir: Path) -> dict[int, StepEvent]:
    """By iteration; of one that was done twice, the last."""
    with open(out_dir / "ledger.jsonl", "rb") as file:
        return {each.iteration: each for each in read_ledger(file).events if isinstance(each, StepEvent)}


def losses_of(out_dir: Path) -> dict[int, float | None]:
    return {iteration: each.loss for iteration, each in steps_of(out_dir).items()}


def weights_of(out_dir: Path) -> dict[str, torch.Tensor]:
    saved, _ = newest_whole(out_dir)
    assert saved is not None
    return saved.weights()


def end(process: subprocess.Popen[Any]) -> None:
    """With all that it started, should it still be there."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def wait_for(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < end, f"waited too long for {what}"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def shared_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("ranks") / "corpus")


@pytest.fixture(scope="module")
def alone(shared_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that all others have to repeat: one process, and no torchrun."""
    out_dir = tmp_path_factory.mktemp("alone") / "out"
    knobs = {**SHARED, "out_dir": str(out_dir), "dataset": str(shared_corpus)}
    train(knobs, from_file=True, listener=Recorder())
    return out_dir


def assert_same_run(out_dir: Path, other: Path) -> None:
    ours, theirs = losses_of(out_dir), losses_of(other)
    assert list(ours) == list(theirs) == list(range(25))
    assert list(ours.values()) == pytest.approx(list(theirs.values()), rel=1e-4)
    for name, weight in weights_of(other).items():
        torch.testing.assert_close(weights_of(out_dir)[name], weight, rtol=1e-3, atol=1e-4)


# --- the same curve --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_number_of_ranks_changes_nothing(shared_corpus: Path, alone: Path, tmp_path: Path, ranks: int) -> None:
    """Two by torchrun itself."""
    out_dir, script = tmp_path / "out", _patched(tmp_path, COUNTING)
    arguments = command(out_dir, shared_corpus)
    words = torchrun(2, *arguments, script=(str(script),)) if ranks == 2 else forked(ranks, *arguments, script=script)
    done = run(words, measured=ranks == 2, MARK=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert_same_run(out_dir, alone)
    assert done.stdout.count("iter 20:") == 1  # one rank speaks
    events = [json.loads(line) for line in (out_dir / "ledger.jsonl").read_text().splitlines()]
    assert [each["world_size"] for each in events if each["event"] == "run"] == [ranks]  # and one writes
    assert all(each.slowest_rank in range(ranks) and each.lag is not None for each in steps_of(out_dir).values())
    told = [json.loads((tmp_path / f"told-{rank}").read_text()) for rank in range(ranks)]
    assert [each["meetings"] for each in told] == [25] * ranks  # once a step, however many micro-batches it has
    assert not any(each.get("threads") for each in told)  # one that outlives the interpreter aborts the process


def test_shards_train_alike_and_go_on_with_one_and_with_four_ranks(
    shared_corpus: Path, alone: Path, tmp_path: Path
) -> None:
    """Two ranks begin, one goes on, four end: every part of every tensor finds its place."""
    out_dir = tmp_path / "out"
    begun = run(torchrun(2, *command(out_dir, shared_corpus, parallel="fsdp", max_iters=8)))
    assert begun.returncode == 0, begun.stderr
    assert len(list((out_dir / "checkpoints" / "step-00000009").glob("shard-*.safetensors"))) == 2
    assert_damage_is_found(out_dir, tmp_path / "copy")
    resumed: dict[str, Value] = {"out_dir": str(out_dir), "init_from": "resume", "device": "cpu", "max_iters": 16}
    train(resumed, from_file=True, listener=Recorder())
    assert (out_dir / "checkpoints" / "step-00000017" / "model.safetensors").exists()
    flags = [f"--{name}={value}" for name, value in {**resumed, "max_iters": 24, "parallel": "fsdp"}.items()]
    ended = run(forked(4, "train", "--no-report", *flags), measured=False)
    assert ended.returncode == 0, ended.stderr
    assert_same_run(out_dir, alone)


def assert_damage_is_found(out_dir: Path, copy: Path) -> None:
    """One bit of the second rank's part."""
    shutil.copytree(out_dir, copy)
    part = sorted((copy / "checkpoints" / "step-00000009").glob("shard-*"))[1]
    data = bytearray(part.read_bytes())
    data[-1] ^= 1
    part.write_bytes(data)
    saved, refused = newest_whole(copy)
    assert saved is not None
    assert saved.step == 5
    assert part.name in str(refused[0])


# --- what happens to one happens to all ------------------------------------------------------------------------------


def test_a_rank_that_lags_is_named_and_one_that_is_killed_is_started_again(
    shared_corpus: Path, alone: Path, tmp_path: Path
) -> None:
    out_dir = tmp_path / "out"
    words = torchrun(2, *command(out_dir, shared_corpus), restarts=1, script=(str(_patched(tmp_path, SLEEPY)),))
    surroundings = environment(measured=False, MARK=str(tmp_path))
    process = subprocess.Popen(
        words, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        wait_for((out_dir / "checkpoints" / "step-00000005").exists, "the first checkpoint")
        os.kill(int((tmp_path / "pid-1").read_text()), signal.SIGKILL)
        said, _ = process.communicate(timeout=LONGEST)
    finally:
        end(process)
    assert process.returncode == 0, said.decode()
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
    process = subprocess.Popen(
        words,
        env=environment(measured=False),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        wait_for((out_dir / "checkpoints" / "step-00000010").exists, "a checkpoint")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the launcher and to both ranks
        said, _ = process.communicate(timeout=LONGEST)
    finally:
        end(process)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    saved, refused = newest_whole(out_dir)
    assert saved is not None
    assert not refused
    assert saved.step == max(losses_of(out_dir)) + 1


def test_a_loss_of_one_rank_that_is_not_finite_takes_all_of_them_back(shared_corpus: Path, tmp_path: Path) -> None:
    out_dir = tmp_path / "out"
    done = run(forked(2, *command(out_dir, shared_corpus), script=_patched(tmp_path, POISONED)), measured=False)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (out_dir / "ledger.jsonl").read_text().splitlines()]
    assert [each["iteration"] for each in events if each.get("skipped")] == [12, 13, 14, 15, 16]  # two were under way
    back = [(each["iteration"], each["failed_at"]) for each in events if each["event"] == "rollback"]
    assert back == [(10, 14)]
    losses = losses_of(out_dir)
    assert list(losses) == list(range(25))
    assert all(loss is not None and math.isfinite(loss) for loss in losses.values())


def test_a_rank_leaves_while_another_is_still_busy(tmp_path: Path) -> None:
    """A thread of gloo's has a tensor to drop, which takes Python's lock, while the group waits for that thread."""
    done = run(forked(2, script=_patched(tmp_path, LEAVING)), measured=False)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 has left", "1 has left"]


def test_what_is_wrong_is_said_once(shared_corpus: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "nanopace", *command(tmp_path / "out", shared_corpus), "--gpus=3"]
    done = run(words)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "nanopace: gradient_accumulation_steps must be a multiple of the number of processes, which share its "
        "micro-batches: 4 is not one of 3"
    ]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--gpus=two"], "--gpus=two: must be a number of cards, such as 2"),
        (["--gpus=0", "--device=cpu"], "--gpus=0: must be a number of cards, such as 2"),
        (["--gpus=99", "--device=cuda"], "--device=cpu tries it out without any"),
    ],
)
def test_a_number_of_cards_that_cannot_be(
    flags: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from nanopace.cli.main import main

    assert main(["train", *flags, f"--out_dir={tmp_path / 'out'}"]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# --- who holds the others up -----------------------------------------------------------------------------------------

SLEEPY = """
    import os, pathlib, sys, time
    import torch
    torch.set_num_threads(1)
    from nanopace.cli.main import main
    from nanopace.train.model import GPT

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
    from nanopace.train.model import GPT

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
    print(ranks.rank, "has left", flush=True)
"""

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


def _patched(directory: Path, source: str) -> Path:
    path = directory / "patched.py"
    path.write_text(textwrap.dedent(source))
    return path


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


def test_what_a_restarted_process_does() -> None:
    given = {"init_from": "scratch", "max_iters": 5}
    assert elastic(given, Ranks(), has_checkpoint=True) == given
    again = Ranks(restarts=1)
    assert elastic(given, again, has_checkpoint=True)["init_from"] == "resume"
    assert elastic(given, again, has_checkpoint=False)["overwrite"] is True


def test_accumulation_is_shared_by_all_ranks() -> None:
    """The rule that nanoGPT has, with a word of why."""
    from nanopace.config import TrainConfig
    from nanopace.train.plan import _check  # what every plan goes through

    with pytest.raises(ConfigError, match="5 is not one of 2"):
        _check(TrainConfig(gradient_accumulation_steps=5), None, 2)  # type: ignore[arg-type]
