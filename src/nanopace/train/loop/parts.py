"""The parts of a run: setup.py assembles them, and loop.py runs them."""

from __future__ import annotations

import platform
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from nanopace.ledger import LedgerWriter
from nanopace.train.checkpoint.saver import Checkpointer
from nanopace.train.checkpoint.sharded import NoCheckpointer
from nanopace.train.checkpoint.write import describe
from nanopace.train.clock.clock import Clock
from nanopace.train.fused.step_in_backward import StepInBackward
from nanopace.train.listener import Listener
from nanopace.train.loop.batches import Batches
from nanopace.train.loop.evaluate import Evaluator, Losses
from nanopace.train.loop.passes import Loss, Passes
from nanopace.train.models.gpt2 import GPT
from nanopace.train.plan.run_plan import RunPlan
from nanopace.version import __version__

if TYPE_CHECKING:
    from nanopace.train.fused.model import Fused
    from nanopace.train.host.states import HostStates

Context = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class ParallelModel:
    """How to call a model, wherever its weights are."""

    loss: Loss
    sequence_losses: Losses
    fused: Fused | None = None  # our own kernels, which replace `loss`
    no_sync: Context = nullcontext  # inside, gradients stay on their rank
    rehearsing: Context = nullcontext  # inside, gradients will be discarded
    compiled: bool = False
    sharded: bool = False  # a forward pass needs all ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Flops:
    """FLOPs of all cards together; None if unknown."""

    per_step: float
    measured: float | None  # FLOP/s of matrix products here, as measured by `nanopace tune`


@dataclass(slots=True, kw_only=True)
class Parts:
    plan: RunPlan
    clock: Clock
    ledger: LedgerWriter
    listener: Listener
    model: GPT
    parallel: ParallelModel
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    passes: Passes  # forward and backward of a micro-batch
    release: StepInBackward | None  # if set, weights change during the backward pass, not after it
    host: HostStates | None  # if set, it updates the weights, from the host's memory
    batches: Batches
    validation: Evaluator
    training: Evaluator | None  # nanoGPT's second pass
    checkpointer: Checkpointer | NoCheckpointer
    flops: Flops
    best: tuple[int, float] | None = None  # step and validation loss of the best checkpoint
    recent: list[float] = field(default_factory=list)  # losses since the last evaluation

    def describe(self, step: int) -> dict[str, Any]:
        """What a checkpoint of this step records about the run."""
        plan = self.plan
        return {
            **describe(plan.shape, step=step, config=plan.config.as_dict(), tokenizer=plan.corpus.tokenizer),
            "corpus": plan.fingerprint,
            "corpus_sha256": plan.corpus.hashes,
            "windows": plan.windows_before(step),
            "card": plan.machine.name,
            "versions": {"nanopace": __version__, "python": platform.python_version(), "torch": torch.__version__},
        }
