"""Full memory at the start, in a step, in an evaluation: smaller micro-batches, and the same losses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from nanopace.errors import UsageError
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import newest_intact
from nanopace.train.loop.loop import Loop
from nanopace.train.loop.passes import PlainPasses
from nanopace.train.models.gpt2 import GPT

from ..conftest import TINY, Recorder
from ..runs import events, resume, run


class Memory:
    """A card that holds a given number of sequences in a step or an evaluation, and fewer from some step on."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, fits: int, *, after: int = -1, evaluation: bool = False
    ) -> None:
        self.step = 0
        self.largest = 0  # that went through since the step `after`
        real_step, real_forward, real_losses = Loop.step, GPT.forward, GPT.sequence_losses

        def step(loop: Loop) -> None:
            self.step = loop.iteration
            real_step(loop)

        def check(tokens: torch.Tensor) -> None:
            if len(tokens) > fits and self.step >= after:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")
            self.largest = max(self.largest, len(tokens) if self.step >= after else 0)

        def forward(model: GPT, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            loss = real_forward(model, tokens, targets)
            if not evaluation:
                check(tokens)
            return loss

        def losses(model: GPT, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            if evaluation:
                check(tokens)
            return real_losses(model, tokens, targets)

        monkeypatch.setattr(Loop, "step", step)
        monkeypatch.setattr(GPT, "forward", forward)
        monkeypatch.setattr(GPT, "sequence_losses", losses)


PLAIN: dict[str, Value] = {"dropout": 0.0, "max_iters": 10, "batch_size": 12, "gradient_accumulation_steps": 2}


def vals(told: Recorder) -> list[float]:
    return [each.val for each in told.all("eval")]


def test_a_batch_that_does_not_fit_is_halved_before_the_first_step(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """12, 6, 3: the same sequences, even in odd micro-batches; also with dropout: failed attempts draw nothing."""
    with_dropout = {**PLAIN, "dropout": 0.1}
    _, small = run(corpus, tmp_path / "small", **{**with_dropout, "batch_size": 3, "gradient_accumulation_steps": 8})
    memory = Memory(monkeypatch, 3)
    _, told = run(corpus, tmp_path / "out", **with_dropout)
    assert memory.largest == 3
    assert told.losses == small.losses
    (event,) = events(tmp_path / "out", "micro_batch")
    assert (event["iteration"], event["batch_size"], event["accumulation"]) == (0, 3, 8)
    assert event["where"] == "startup"
    assert len([each for each in told.all("note") if "8 micro-batches of 3" in each]) == 1


@pytest.mark.parametrize("at", [0, 4])
def test_memory_that_is_full_in_the_middle_costs_no_step(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    _, large = run(corpus, tmp_path / "large", **PLAIN)
    memory = Memory(monkeypatch, 6, after=at)
    if at == 0:
        memory.step = -1  # the start still fits
    outcome, told = run(corpus, tmp_path / "out", **PLAIN)
    assert outcome.reason == "finished"
    assert memory.largest == 6
    assert list(told.losses) == list(range(11))
    assert list(told.losses.values()) == pytest.approx(list(large.losses.values()), abs=2e-3)
    assert vals(told) == pytest.approx(vals(large), abs=2e-3)
    (event,) = events(tmp_path / "out", "micro_batch")
    assert (event["iteration"], event["batch_size"], event["accumulation"]) == (at, 6, 4)
    assert event.get("where", "step") == "step"
    assert [each["tokens"] for each in events(tmp_path / "out", "step")] == [12 * 2 * 16] * 11


def test_an_evaluation_that_does_not_fit_is_done_in_smaller_pieces(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, large = run(corpus, tmp_path / "large", **PLAIN)
    Memory(monkeypatch, 5, after=3, evaluation=True)
    _, told = run(corpus, tmp_path / "out", **PLAIN)
    assert told.losses == large.losses
    assert vals(told) == pytest.approx(vals(large), abs=1e-5)
    found = [
        (each["iteration"], each["batch_size"], each["accumulation"], each["where"])
        for each in events(tmp_path / "out", "micro_batch")
    ]
    assert found == [(5, 6, 2, "evaluation"), (5, 3, 2, "evaluation")]


def test_what_fitted_is_remembered(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as context:
        Memory(context, 3)
        run(corpus, tmp_path / "out", **{**PLAIN, "max_iters": 5})
    memory = Memory(monkeypatch, 3)
    _, told = resume(tmp_path / "out", max_iters=8)
    assert list(told.losses) == [6, 7, 8]
    assert memory.largest == 3
    assert len(events(tmp_path / "out", "micro_batch")) == 1  # of the first process: the second knew
    saved, _ = newest_intact(tmp_path / "out")
    assert saved.state["micro_batch"] == 3
    resume(tmp_path / "out", max_iters=9, batch_size=6, gradient_accumulation_steps=4)
    assert [each["batch_size"] for each in events(tmp_path / "out", "micro_batch")] == [3, 3]  # tried again


@pytest.mark.parametrize("evaluation", [False, True])
def test_when_nothing_is_left_to_halve(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evaluation: bool
) -> None:
    Memory(monkeypatch, 0, after=2, evaluation=evaluation)
    with pytest.raises(UsageError, match="--batch_size=12: out of memory, even with one sequence") as raised:
        run(corpus, tmp_path / "out", **PLAIN)
    assert "\n" not in str(raised.value)
    assert events(tmp_path / "out", "end")[-1]["reason"] == "out_of_memory"


WIDE: dict[str, Value] = {
    "dropout": 0.0, "n_embd": 128, "block_size": 256, "batch_size": 32, "gradient_accumulation_steps": 1,
    "max_iters": 0, "eval_interval": 2, "eval_iters": 1,
}  # fmt: skip
LEFT_MB = 56  # of about 100 that a step of all sequences takes

SCRIPT = """
import json, resource, time
import torch
from nanopace.config import Asked
from nanopace.train.run import train
from tests.train.conftest import Recorder

torch.set_num_threads(1)

class Limiting(Recorder):
    def phase(self, name):
        if name == "compile":  # everything is there but a step's activations
            taken = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmData"))
            most = taken + ({left_mb} << 20)
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))

train(Asked(given={first!r}, files=("config.py",)), listener=Recorder(), started=time.monotonic())
listener = Limiting()
train(Asked(given={given!r}, files=("config.py",)), listener=listener, started=time.monotonic())
print(json.dumps([list(listener.losses.values()), [each.val for each in listener.all("eval")]]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a limit on a process' memory")
def test_a_real_allocator_that_fails(tmp_path: Path, corpus: Path) -> None:
    """torch's own messages for full memory, in a process with a memory limit."""
    _, large = run(corpus, tmp_path / "large", **WIDE)
    given = {**TINY, **WIDE, "dataset": str(corpus), "out_dir": str(tmp_path / "small")}
    # where oneDNN once lacked the memory for its code, it makes none any more; what it has for two sequences stays
    first = {**given, "batch_size": 2, "out_dir": str(tmp_path / "first")}
    script = SCRIPT.format(first=first, given=given, left_mb=LEFT_MB)
    root = Path(__file__).parents[3]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}  # new threads take no extra memory
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    losses, evaluations = json.loads(done.stdout.splitlines()[-1])
    found = events(tmp_path / "small", "micro_batch")
    assert [each["batch_size"] for each in found if each.get("where", "step") != "evaluation"][-1] < 32
    assert losses == pytest.approx(list(large.losses.values()), abs=2e-3)
    assert evaluations == pytest.approx(vals(large), abs=2e-3)


def test_a_checkpoint_holds_the_memory_steps_taken_since(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run with deterministic=True resumes with them: what is recomputed in another precision has other bits."""
    left = iter(["hidden"])
    monkeypatch.setattr(PlainPasses, "climb", lambda _: next(left, None))
    Memory(monkeypatch, 6, after=7)
    run(corpus, tmp_path / "out", **PLAIN, keep_last=3)
    states = {path.parent.name: json.loads(path.read_text()) for path in (tmp_path / "out").rglob("state.json")}
    assert {name: each["memory_steps"] for name, each in states.items()} == {
        "step-00000005": [],
        "step-00000010": ["hidden"],
        "step-00000011": ["hidden"],
    }
