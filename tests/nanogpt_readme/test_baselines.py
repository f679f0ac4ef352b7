"""nanoGPT's README, "baselines": what OpenAI's GPT-2s reach on OpenWebText."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import WIDTHS, Command

FEW = ("--device=cpu", "--eval_iters=1", "--batch_size=1")


def test_the_four_evaluations(checkout: Path, command: Command, downloaded: Callable[..., None]) -> None:
    """Each prints the losses of both splits and succeeds; all run in one directory, where nothing is written."""
    names = list(WIDTHS)
    downloaded(*names)
    losses = set()
    for name in names:
        said = command("train", f"config/eval_{name.replace('-', '_')}.py", *FEW, "--block_size=128")
        ((step, train, val),) = said.losses()
        assert step == 0
        assert train == pytest.approx(10.8, abs=0.3)  # ln(50257): they know nothing
        losses.add((train, val))
    assert len(losses) == 4  # four models
    assert not (checkout / "out").exists()


def test_a_second_time_and_beside_a_run(checkout: Path, command: Command, downloaded: Callable[..., None]) -> None:
    downloaded("gpt2")
    command(
        *("train", "--dataset=shakespeare_char", "--device=cpu", "--n_layer=1", "--n_head=1", "--n_embd=8"),
        *("--block_size=16", "--batch_size=2", "--gradient_accumulation_steps=1", "--max_iters=2", "--eval_iters=1"),
        "--no-report",
    )
    before = {path: path.read_bytes() for path in sorted((checkout / "out").rglob("*")) if path.is_file()}
    first, second = (command("train", "config/eval_gpt2.py", *FEW) for _ in range(2))
    assert first.losses() == second.losses() != []
    assert {path: path.read_bytes() for path in sorted((checkout / "out").rglob("*")) if path.is_file()} == before


def test_a_model_that_is_not_here(checkout: Path, command: Command) -> None:
    """The line says how to get it."""
    said = command("train", "config/eval_gpt2_xl.py", *FEW, status=2)
    assert "gpt2-xl" in said.err
    assert " download " in said.err
    assert "--download" in said.err
    assert not (checkout / "out").exists()
