"""nanoGPT's README, "finetuning": GPT-2 on Shakespeare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nanopace.train.checkpoint.layout import checkpoint_directories, verified

from .conftest import WIDTHS, Command, knobs

# A tenth of the steps, with a quarter of the length.
SHORT = ("--device=cpu", "--max_iters=2", "--eval_interval=1", "--eval_iters=2", "--block_size=64", "--no-report")


def test_an_example(checkout: Path, command: Command, downloaded: Callable[..., None]) -> None:
    """Like normal training, with a small, constant rate; the best checkpoint in out-shakespeare can be sampled."""
    downloaded("gpt2-xl")
    said = command("train", "config/finetune_shakespeare.py", *SHORT)
    assert "wandb_run_name" in said.out + said.err  # of time.time(), which is not called
    assert list(said.validation()) == [0, 1, 2]
    config = knobs(checkout / "out-shakespeare")
    assert config["learning_rate"] == 3e-5
    assert config["decay_lr"] is False
    assert config["gradient_accumulation_steps"] == 32
    saved = verified(checkpoint_directories(checkout / "out-shakespeare")[0])
    assert saved.shape.n_embd == WIDTHS["gpt2-xl"]
    assert saved.shape.bias
    assert saved.shape.block_size == 64
    sample = command("sample", "--out_dir=out-shakespeare", "--device=cpu", "--num_samples=1", "--max_new_tokens=5")
    assert sample.out.strip()
    assert "size of GPT-2's" in sample.err  # data/shakespeare has no meta.pkl, and nanoGPT assumes the same


def test_a_smaller_model_and_a_shorter_context(
    checkout: Path, command: Command, downloaded: Callable[..., None]
) -> None:
    """What the README advises if memory runs out."""
    downloaded("gpt2")
    command("train", "config/finetune_shakespeare.py", *SHORT, "--init_from=gpt2", "--block_size=32", "--max_iters=0")
    saved = verified(checkpoint_directories(checkout / "out-shakespeare")[0])
    assert (saved.shape.n_embd, saved.shape.block_size) == (WIDTHS["gpt2"], 32)
