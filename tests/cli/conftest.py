"""Small logs of our own, written as nanoGPT writes them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

WriteLog = Callable[..., Path]

HEADER = """\
Overriding config with config/train.py:
eval_interval = 10
log_interval = 1
batch_size = 8
block_size = 1024
n_layer = 12
n_head = 12
n_embd = 768
gradient_accumulation_steps = 4
tokens per iteration will be: 32,768
number of parameters: 123.59M
"""


def unmeasured() -> dict[str, str]:
    """The environment for a process that will be interrupted: Ctrl-C can leave a lock of coverage locked."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def training(iterations: int = 60, ms: float = 500.0) -> str:
    """An evaluation of 4 s every ten iterations, and a step that varies by 0.1 or 0.2%."""
    lines = []
    for iteration in range(iterations):
        loss = 3 + 8 / (1 + iteration / 10)
        took = ms * (1 + 0.002 * ((iteration * 7) % 5 - 2) / 2)
        if iteration % 10 == 0:
            lines.append(f"step {iteration}: train loss {loss:.4f}, val loss {loss + 0.05:.4f}")
            if iteration:
                lines.append("saving checkpoint to out")
            took += 4000 + (8000 if iteration == 0 else 0)
        mfu = -100.0 if iteration < 5 else 18.0
        lines.append(f"iter {iteration}: loss {loss:.4f}, time {took:.2f}ms, mfu {mfu:.2f}%")
    return "\n".join(lines) + "\n"


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """English, 80 columns and no colours, wherever the tests run."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def write_log(tmp_path: Path) -> WriteLog:
    """Writes a log into the test's directory and returns its path."""

    def write(name: str = "train.log", *, ms: float = 500.0, header: bool = True, runs: int = 1) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(((HEADER if header else "") + training(ms=ms)) * runs)
        return path

    return write
