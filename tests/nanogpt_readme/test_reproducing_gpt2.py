"""nanoGPT's README, "reproducing GPT-2": torchrun on one node and on two, and one process."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from ..train.fork_server import Popen
from .conftest import Command, knobs

# Just enough of GPT-2 to show that every knob of the command takes effect.
SMALL = (
    *("--device=cpu", "--backend=gloo", "--wandb_log=False", "--n_layer=1", "--n_head=2", "--n_embd=16"),
    *("--block_size=16", "--batch_size=2", "--max_iters=1", "--eval_iters=1", "--log_interval=1", "--no-report"),
)
LONGEST_S = 180


def torchrun(*words: str) -> subprocess.Popen[str]:
    """`torchrun ... train.py ARGUMENTS`, which is `torchrun ... -m nanopace train ARGUMENTS` here."""
    return Popen(
        [sys.executable, "-m", "torch.distributed.run", *words],
        ranks=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_one_node(checkout: Path) -> None:
    process = torchrun(
        *("--standalone", "--nproc_per_node=2", "-m", "nanopace", "train", "config/train_gpt2.py", *SMALL)
    )
    said, _ = process.communicate(timeout=LONGEST_S)
    assert process.returncode == 0, said
    assert re.findall(r"^iter (\d+): ", said, re.MULTILINE) == ["0", "1"]  # by the first process alone
    config = knobs(checkout / "out")
    assert config["gradient_accumulation_steps"] == 40  # 5 * 8, shared by both
    assert "1,280 tokens a step" in said  # 40 * 2 * 16


def test_two_nodes(checkout: Path) -> None:
    """Two torchruns that meet at an address, each with one process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    nodes = [
        torchrun(
            *("--nproc_per_node=1", "--nnodes=2", f"--node_rank={rank}"),
            *("--master_addr=127.0.0.1", f"--master_port={port}"),
            *("-m", "nanopace", "train", "config/train_gpt2.py", *SMALL),
        )
        for rank in (0, 1)
    ]
    said = [node.communicate(timeout=LONGEST_S)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], "\n".join(said)
    assert "iter 1: " in said[0]
    assert "iter " not in said[1]
    assert (checkout / "out" / "checkpoints").is_dir()


def test_one_process_and_a_sample_of_it(checkout: Path, command: Command) -> None:
    """`train.py` with only flags uses GPT-2's defaults; `sample.py` alone samples from out/."""
    said = command("train", *SMALL, "--gradient_accumulation_steps=1", "--dtype=float32")
    config = knobs(checkout / "out")
    assert config["dataset"] == "openwebtext"
    assert config["vocab_size"] == 50304
    assert {name: config[name] for name in ("learning_rate", "warmup_iters", "lr_decay_iters", "min_lr")} == {
        "learning_rate": 6e-4,
        "warmup_iters": 2000,
        "lr_decay_iters": 600000,
        "min_lr": 6e-5,
    }
    assert "iter 1: " in said.out
    sample = command("sample", "--max_new_tokens=3", "--num_samples=1", "--device=cpu")
    assert sample.out
    assert "step 2, the best and the last" in sample.err


def test_the_first_lines_of_train_py(checkout: Path, command: Command) -> None:
    """Its own example: --batch_size=32 --compile=False; everything else is GPT-2's."""
    small = [flag for flag in SMALL if not flag.startswith("--batch_size")]
    command("train", *small, "--batch_size=32", "--compile=False", "--gradient_accumulation_steps=1", "--max_iters=0")
    config = knobs(checkout / "out")
    assert config["batch_size"] == 32
    assert config["learning_rate"] == 6e-4
