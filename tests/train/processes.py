"""Real runs with several processes: how they are started, waited for and ended, and what they leave behind."""

from __future__ import annotations

import os
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

from nanopace.ledger import StepEvent, read_ledger
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import newest_intact

from . import fork_server
from .conftest import TINY

# No dropout: each rank draws its own. One, two or four ranks can share four micro-batches per step.
SHARED: Mapping[str, Value] = {**TINY, "dropout": 0.0, "gradient_accumulation_steps": 4, "max_iters": 24}
LONGEST = 180  # seconds that a run may take on a busy machine


def command(out_dir: Path, corpus: Path, base: Mapping[str, Value] = SHARED, **knobs: Value) -> list[str]:
    """The arguments of a run."""
    wanted = {**base, "out_dir": str(out_dir), "dataset": str(corpus), **knobs}
    return ["train", "--no-report", *(f"--{name}={value}" for name, value in wanted.items())]


def environment(*, measured: bool = True, **more: str) -> dict[str, str]:
    """`measured` is False if processes are killed or interrupted, which coverage cannot handle."""
    kept = {name: value for name, value in os.environ.items() if measured or not name.startswith("COVERAGE_")}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def torchrun(ranks: int, *arguments: str, restarts: int = 0, script: Path | None = None) -> list[str]:
    """`script` is what its processes run instead of the command."""
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"),
        *(f"--max-restarts={restarts}", *([str(script)] if script else ["-m", "nanopace"]), *arguments),
    ]


def run(
    words: list[str], *, measured: bool = True, real: bool = False, **more: str
) -> subprocess.CompletedProcess[str]:
    """With `real`, each of its processes is a new one, not forked."""
    how: dict[str, Any] = {"env": environment(measured=measured, **more), "timeout": LONGEST}
    if real:
        return subprocess.run(words, capture_output=True, text=True, check=False, **how)
    return fork_server.run(words, ranks=True, **how)


def start(words: list[str], **more: str) -> fork_server.Popen:
    """Start it and its children in their own session, so that they can be signalled together."""
    return listened(words, ranks=True, env=environment(measured=False, **more), start_new_session=True)


def listened(words: list[str], kind: type[subprocess.Popen[Any]] = fork_server.Popen, **how: Any) -> Any:
    """A process whose prints are read here."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return kind(words, **{"env": environment(measured=False), **pipes, **how})


def steps_of(out_dir: Path) -> dict[int, StepEvent]:
    """The steps by iteration; if one was done twice, the last."""
    with open(out_dir / "ledger.jsonl", "rb") as file:
        return {each.iteration: each for each in read_ledger(file).events if isinstance(each, StepEvent)}


def losses_of(out_dir: Path) -> dict[int, float | None]:
    return {iteration: each.loss for iteration, each in steps_of(out_dir).items()}


def weights_of(out_dir: Path) -> dict[str, torch.Tensor]:
    saved, _ = newest_intact(out_dir)
    return saved.weights()


def end(process: subprocess.Popen[Any]) -> None:
    """End it and everything it started, if it is still running."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def wait_for(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < end, f"waited too long for {what}"
        time.sleep(0.02)


def patched(directory: Path, source: str) -> Path:
    """A program that patches our code before it runs."""
    path = directory / "patched.py"
    path.write_text(textwrap.dedent(source))
    return path


def assert_same_run(out_dir: Path, other: Path) -> None:
    ours, theirs = losses_of(out_dir), losses_of(other)
    assert list(ours) == list(theirs) == list(range(25))
    assert list(ours.values()) == pytest.approx(list(theirs.values()), rel=1e-4)
    for name, weight in weights_of(other).items():
        torch.testing.assert_close(weights_of(out_dir)[name], weight, rtol=1e-3, atol=1e-4)
