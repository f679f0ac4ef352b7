"""What a run starts from: settled before anything is built or written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nanopace.config import TrainConfig
from nanopace.corpus.shards.corpus import Corpus
from nanopace.train.checkpoint.layout import Saved
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.formats.pretrained import Pretrained
from nanopace.train.models.gpt2 import ModelShape
from nanopace.train.plan.device import Machine
from nanopace.train.plan.plan import Plan
from nanopace.train.ranks import Ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What is settled before anything is built or written."""

    plan: Plan
    machine: Machine
    corpus: Corpus
    shape: ModelShape
    source: Saved | Pretrained | None  # None: from scratch
    claim: Claim  # to out_dir: it knows where this run may write by now
    out_dir: Path
    ranks: Ranks
    data_offset: int | None = None  # which order of the data; None: the one that the checkpoint says, or the first
    measured_tflops: float | None = None  # that `nanopace tune` found matrix products to reach here
    micro_batch: int | None = None  # sequences, where memory was full; None: as the checkpoint says, or batch_size

    @property
    def config(self) -> TrainConfig:
        return self.plan.config

    @property
    def resumed(self) -> Saved | None:
        return self.source if isinstance(self.source, Saved) else None

    @property
    def order_offset(self) -> int:
        """0 gives the order that the seed alone gives."""
        if self.data_offset is not None:
            return self.data_offset
        return 0 if self.resumed is None else int(self.resumed.state.get("data_offset", 0))

    def windows_before(self, step: int) -> int:
        """How many windows training has read before this step. Those of a checkpoint are counted as they were read,
        whatever a step held then."""
        config, saved = self.config, self.resumed
        first_step = 0 if saved is None else saved.step
        read = 0 if saved is None else saved.windows
        return read + (step - first_step) * config.gradient_accumulation_steps * config.batch_size

    @property
    def fitting_micro_batch(self) -> int | None:
        """What fitted before. Who asks for another batch_size now wants to see for themselves."""
        if self.micro_batch is not None or self.resumed is None:
            return self.micro_batch
        if self.resumed.config.get("batch_size") != self.config.batch_size:
            return None
        fitted = int(self.resumed.state.get("micro_batch", self.config.batch_size))
        return fitted if fitted > 0 and self.config.batch_size % fitted == 0 else None
