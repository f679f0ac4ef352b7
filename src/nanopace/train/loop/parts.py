"""Everything that a run is made of; setup.py puts it together, and loop.py sets it in motion."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from nanopace.config import TrainConfig
from nanopace.corpus.shards.order import Order
from nanopace.ledger import LedgerWriter
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.saver import Checkpointer
from nanopace.train.checkpoint.sharded import NoCheckpointer
from nanopace.train.clock.clock import Clock
from nanopace.train.fused.step_in_backward import StepInBackward
from nanopace.train.listener import Listener
from nanopace.train.loop.batches import Batches
from nanopace.train.loop.evaluate import Evaluator
from nanopace.train.loop.passes import Passes
from nanopace.train.models.gpt2 import GPT
from nanopace.train.ranks import Ranks


@dataclass(slots=True, kw_only=True)
class Parts:
    config: TrainConfig
    device: torch.device
    model: GPT
    passes: Passes  # forward and backward of a micro-batch
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    batches: Batches
    order: Order  # that they come in
    validation: Evaluator
    training: Evaluator | None  # nanoGPT's second pass
    checkpointer: Checkpointer | NoCheckpointer
    claim: Claim
    clock: Clock
    ledger: LedgerWriter
    listener: Listener
    describe: Callable[[int], dict[str, Any]]  # a step to what its checkpoint says of the run
    peak_flops: float | None
    flops_per_step: float
    measured_flops: float | None = None  # that `nanopace tune` found matrix products to reach here, of all cards
    ranks: Ranks = field(default_factory=Ranks)
    quietly: Callable[[], AbstractContextManager[object]] = nullcontext  # inside, gradients stay on their rank
    rehearsing: Callable[[], AbstractContextManager[object]] = nullcontext  # inside, they are thrown away
    release: StepInBackward | None = None  # then weights change in the backward pass, and not after it
    sharded: bool = False  # no rank can do a forward pass without the others
    first_step: int = 0
    saved_step: int | None = None  # the step of the checkpoint that it goes on from, if that is one of ours
    micro_batch: int | None = None  # sequences, where memory was full; None: batch_size
    data_offset: int = 0  # which order of the data: after faults, another one
    best: tuple[int, float] | None = None  # step and validation loss of the best checkpoint
    recent: list[float] = field(default_factory=list)  # losses since the last evaluation
