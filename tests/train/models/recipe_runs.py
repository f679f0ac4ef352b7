"""Real runs of recipe `fast` on the CPU, for several test files."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from nanopace.config import Asked
from nanopace.literals import Value
from nanopace.train.listener import Outcome
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.plan.device import Machine
from nanopace.train.run import train

from ..conftest import TINY, Recorder

SHAPE = ModelShape(n_layer=2, n_head=2, n_embd=16, vocab_size=300, block_size=12, recipe="fast")
MACHINE = Machine(torch.device("cpu"), "asked for")
OWN = ("learning_rate", "min_lr", "warmup_iters", "lr_decay_iters")  # what the recipe chooses itself
FAST: dict[str, Value] = {**{name: each for name, each in TINY.items() if name not in OWN}, "recipe": "fast"}


def run(corpus: Path, out: Path, listener: Recorder | None = None, **knobs: Value) -> tuple[Outcome, Recorder]:
    listener = listener or Recorder()
    given = {**FAST, "dataset": str(corpus), "out_dir": str(out), **knobs}
    return train(Asked(given=given, files=("config.py",)), listener=listener, started=time.monotonic()), listener
