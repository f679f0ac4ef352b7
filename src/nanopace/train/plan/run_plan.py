"""The plan of a run: every decision, made once, with its reason, in one object that all others read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import torch

from nanopace.config import TrainConfig
from nanopace.corpus.shards.corpus import Corpus
from nanopace.errors import Message
from nanopace.train.checkpoint.layout import Saved
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.formats.pretrained import Pretrained
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.plan.changed_settings import differences
from nanopace.train.plan.device import Machine
from nanopace.train.ranks import Ranks

T = TypeVar("T")


class Choice(NamedTuple, Generic[T]):
    value: T
    reason: str


_NO_FP8: Choice[tuple[str, ...]] = Choice((), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """`resolve` makes it before anything is written, `measure` adds what has to be measured on the device, and a
    rollback replaces what changes afterwards (`replan`)."""

    config: TrainConfig
    config_reasons: Mapping[str, str]  # of the settings that were chosen
    shape: ModelShape
    machine: Machine  # with the memory that this run may use
    ranks: Ranks
    corpus: Corpus
    fingerprint: str  # of the corpus, computed once: a save must not wait for the thread that verifies the data
    source: Saved | Pretrained | None  # None: from scratch
    claim: Claim  # to out_dir: it knows where this run may write now
    data_offset: int  # 0: the data order depends on the seed alone; a rollback adds 1
    micro_batch: int  # sequences: batch_size, or fewer if memory was full before
    kernels: Choice[str]  # fused, compiled or eager
    memory_steps: Choice[tuple[str, ...]]  # of the ladder
    eval_batch: Choice[int]  # sequences
    measured_tflops: float | None  # of matrix products here, as measured by `nanopace tune`
    # Set by `measure`:
    tf32: str = ""
    attention: str = ""
    attention_kernel: str = ""
    fp8: Choice[tuple[str, ...]] = _NO_FP8  # products in 8 bits

    @property
    def device(self) -> torch.device:
        return self.machine.device

    @property
    def out_dir(self) -> Path:
        return Path(self.config.out_dir)

    @property
    def resumed(self) -> Saved | None:
        return self.source if isinstance(self.source, Saved) else None

    @property
    def first_step(self) -> int:
        return 0 if self.resumed is None else self.resumed.step

    @property
    def saved_step(self) -> int | None:
        """The step that need not be saved again: that of our own checkpoint, which the run resumed from."""
        return self.resumed.step if self.resumed is not None and self.resumed.ours else None

    def windows_before(self, step: int) -> int:
        """How many windows training has read before this step. The checkpoint records its own count, because steps may
        have had another size then."""
        read = 0 if self.resumed is None else self.resumed.windows
        return read + (step - self.first_step) * self.config.gradient_accumulation_steps * self.config.batch_size

    @property
    def reasons(self) -> dict[str, str]:
        """Every choice with its reason, in the order of a run's header."""
        chosen = self.source.chosen if isinstance(self.source, Pretrained) else None
        resumed = None if self.config.eval_only else self.resumed
        no_samples = self.config.sample_interval > 0 and self.corpus.tokenizer is None
        evaluated = self.eval_batch.value
        return {
            **({} if chosen is None else {"init_from": Message.joined(": ", (str(chosen.saved.path), chosen.reason))}),
            **self.config_reasons,
            "tf32": self.tf32,
            "attention": self.attention,
            "kernels": Message.joined(": ", self.kernels),
            "memory": self.memory_steps.reason,
            "evaluation": Message(
                "{count} sequences at a time: {reason}", count=evaluated, reason=self.eval_batch.reason
            ),
            **({} if resumed is None else differences(resumed, self.config)),
            **({"fp8": self.fp8.reason} if self.config.fp8 else {}),
            **({"samples": Message("none: the corpus has no tokenizer")} if no_samples else {}),
        }
