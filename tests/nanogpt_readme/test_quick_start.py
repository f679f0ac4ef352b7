"""nanoGPT's README, "quick start": a character-level GPT on Shakespeare."""

from __future__ import annotations

import pickle
import shlex
from pathlib import Path

from nanopace.cli.commands.sample import SEPARATOR
from nanopace.train.checkpoint.layout import checkpoint_directories, verified

from .conftest import Command, knobs

# The README's command for people without a card, word for word.
ON_A_CPU = shlex.split(
    "config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=20 --log_interval=1 --block_size=64 "
    "--batch_size=12 --n_layer=4 --n_head=4 --n_embd=128 --max_iters=2000 --lr_decay_iters=2000 --dropout=0.0"
)
SHORTER = ("--max_iters=30", "--lr_decay_iters=30", "--warmup_iters=5", "--eval_interval=10", "--no-report")
SMALLER = ("--n_layer=1", "--n_head=1", "--n_embd=16", "--block_size=16")


def test_i_have_a_gpu(checkout: Path, command: Command) -> None:
    """A context of 256 characters, 384 channels, 6 layers with 6 heads, in out-shakespeare-char; one step of it."""
    little = ("--device=cpu", "--batch_size=1", "--max_iters=0", "--eval_iters=1", "--no-report")
    command("train", "config/train_shakespeare_char.py", *little)
    shape = verified(checkpoint_directories(checkout / "out-shakespeare-char")[0]).shape
    assert (shape.block_size, shape.n_embd, shape.n_layer, shape.n_head) == (256, 384, 6, 6)
    assert shape.dropout == 0.2
    assert shape.vocab_size < 65  # from meta.pkl


def test_i_only_have_a_macbook(checkout: Path, command: Command) -> None:
    said = command("train", *ON_A_CPU, *SHORTER)
    val = said.validation()
    assert list(val) == [0, 10, 20, 30]
    assert val[30] < val[10] - 0.1 < val[0] - 0.5
    assert sum(line.startswith("iter ") for line in said.out.splitlines()) == 31  # log_interval=1
    config = knobs(checkout / "out-shakespeare-char")
    assert config["learning_rate"] == 1e-3  # of the file
    assert config["batch_size"] == 12  # of the flag behind it


def test_sampling_from_the_best_model(checkout: Path, command: Command) -> None:
    """`sample --out_dir=out-shakespeare-char`, with and without --device=cpu: ten samples of 500 characters."""
    command("train", *ON_A_CPU, *SHORTER, *SMALLER)
    said = command("sample", "--out_dir=out-shakespeare-char", "--device=cpu", "--max_new_tokens=50")
    samples = said.out.split(f"\n{SEPARATOR}\n")
    assert len(samples) == 10
    assert len(set(samples)) == 10
    assert "best" in said.err  # which model wrote this
    known = set(pickle.loads((checkout / "data" / "shakespeare_char" / "meta.pkl").read_bytes())["stoi"])  # noqa: S301
    assert all(len(sample.strip("\n")) > 30 and set(sample) <= known for sample in samples)


def test_a_mac_without_its_gpu(checkout: Path, command: Command) -> None:
    """--device=mps on a machine without one: a one-line error, and nothing is written."""
    command("train", "config/train_shakespeare_char.py", "--device=mps", status=2)
    assert not (checkout / "out-shakespeare-char").exists()
