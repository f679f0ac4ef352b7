"""nanoGPT's README, "sampling / inference"."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nanopace.cli.commands.sample import SEPARATOR

from .conftest import Command

QUESTION = "What is the answer to life, the universe, and everything?"


def test_the_largest_gpt2(checkout: Path, command: Command, downloaded: Callable[..., None]) -> None:
    assert checkout
    downloaded("gpt2-xl")
    said = command(
        *("sample", "--init_from=gpt2-xl", f"--start={QUESTION}", "--num_samples=5", "--max_new_tokens=100"),
    )
    samples = said.out.split(f"\n{SEPARATOR}\n")
    assert len(samples) == 5
    assert all(sample.startswith(QUESTION) and len(sample) > len(QUESTION) for sample in samples)
    assert "500 tokens" in said.err or "end" in said.err  # five times a hundred, unless a document ended


def test_a_prompt_from_a_file(checkout: Path, command: Command, downloaded: Callable[..., None]) -> None:
    downloaded("gpt2")
    (checkout / "prompt.txt").write_text("To be, or not\n")
    said = command("sample", "--init_from=gpt2", "--start=FILE:prompt.txt", "--num_samples=1", "--max_new_tokens=4")
    assert said.out.startswith("To be, or not\n")
