"""The parts of a run; setup.py puts them together, and loop.py runs them."""

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

Context = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class ParallelModel:
    """How a model is called, wherever its weights lie."""

    loss: Loss
    sequence_losses: Losses
    fused: Fused | None = None  # kernels of our own, which take the place of `loss`
    no_sync: Context = nullcontext  # inside, gradients stay on their rank
    rehearsing: Context = nullcontext  # inside, they are thrown away
    compiled: bool = False
    sharded: bool = False  # no rank can do a forward pass without the others


@dataclass(frozen=True, slots=True, kw_only=True)
class Flops:
    """Of all cards together; None is unknown."""

    per_step: float
    measured: float | None  # that `nanopace tune` found matrix products to reach here


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
    release: StepInBackward | None  # then weights change in the backward pass, and not after it
    batches: Batches
    validation: Evaluator
    training: Evaluator | None  # nanoGPT's second pass
    checkpointer: Checkpointer | NoCheckpointer
    flops: Flops
    best: tuple[int, float] | None = None  # step and validation loss of the best checkpoint
    recent: list[float] = field(default_factory=list)  # losses since the last evaluation

    def describe(self, step: int) -> dict[str, Any]:
        """What the checkpoint of a step says of the run."""
        plan = self.plan
        return {
            **describe(plan.shape, step=step, config=plan.config.as_dict(), tokenizer=plan.corpus.tokenizer),
            "corpus": plan.fingerprint,
            "corpus_sha256": plan.corpus.hashes,
            "windows": plan.windows_before(step),
            "versions": {"nanopace": __version__, "python": platform.python_version(), "torch": torch.__version__},
        }
