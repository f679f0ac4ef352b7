"""Real runs of recipe `fast` on the CPU, for several test files."""

from __future__ import annotations

from functools import partial

import torch

from nanopace.literals import Value
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.plan.device import Machine

from .. import runs
from ..conftest import TINY

SHAPE = ModelShape(n_layer=2, n_head=2, n_embd=16, vocab_size=300, block_size=12, recipe="fast")
MACHINE = Machine(torch.device("cpu"), "asked for")
OWN = ("learning_rate", "min_lr", "warmup_iters", "lr_decay_iters")  # what the recipe chooses itself
FAST: dict[str, Value] = {**{name: each for name, each in TINY.items() if name not in OWN}, "recipe": "fast"}
run = partial(runs.run, base=FAST)
