"""Put a run together: corpus, model, optimizer, evaluators, checkpoints. Every stretch of it is on the clock."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import torch

from nanopace.config import TrainConfig
from nanopace.corpus.order import Order
from nanopace.corpus.shards import Corpus, Split
from nanopace.hardware.flops import flops_per_token
from nanopace.ledger import LedgerWriter, ResumeEvent, RunEvent
from nanopace.train.batches import Batches
from nanopace.train.checkpoint import Checkpointer
from nanopace.train.checkpoint_files import Saved, describe
from nanopace.train.clock import Clock
from nanopace.train.device import Machine
from nanopace.train.evaluate import Evaluator, Losses, largest_batch
from nanopace.train.listener import Listener
from nanopace.train.model import GPT, ModelShape
from nanopace.train.optimizer import make_optimizer, restore_optimizer
from nanopace.train.origin import build_model
from nanopace.train.parts import Parts
from nanopace.train.plan import Plan
from nanopace.train.pretrained import Pretrained
from nanopace.train.randomness import restore_random_states, seed_everything
from nanopace.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What is settled before anything is built or written."""

    plan: Plan
    machine: Machine
    corpus: Corpus
    shape: ModelShape
    source: Saved | Pretrained | None  # None: from scratch
    out_dir: Path

    @property
    def config(self) -> TrainConfig:
        return self.plan.config

    @property
    def resumed(self) -> Saved | None:
        return self.source if isinstance(self.source, Saved) else None


def build(start: Start, ledger: LedgerWriter, clock: Clock, listener: Listener) -> Parts:
    config, device = start.config, start.machine.device
    first_step = start.resumed.step if start.resumed else 0
    seed_everything(config.seed)
    model = build_model(start.shape, start.source, device)
    clock.mark("startup", first_step, "the model")
    optimizer = make_optimizer(model, config, device)
    scaler = torch.amp.GradScaler(device.type, enabled=config.dtype == "float16")
    tokenizer = start.corpus.tokenizer
    checkpointer = Checkpointer(
        start.out_dir, model, optimizer, tokenizer=tokenizer, keep_last=config.keep_last, device=device
    )
    clock.mark("startup", first_step, "the optimizer")
    loss, sequence_losses = _compiled(model, config)
    if config.compile:
        clock.mark("compile", first_step, "the compiler itself")
    validation = _evaluator(sequence_losses, start, start.corpus.val)
    training = _evaluator(sequence_losses, start, start.corpus.train) if config.eval_train == "full" else None
    batches = _batches(start, first_step)
    clock.mark("startup", first_step, "the data")
    parts = Parts(
        config=config,
        device=device,
        model=model,
        loss=loss,
        optimizer=optimizer,
        scaler=scaler,
        batches=batches,
        validation=validation,
        training=training,
        checkpointer=checkpointer,
        clock=clock,
        ledger=ledger,
        listener=listener,
        describe=lambda step: {
            **describe(start.shape, step=step, config=config.as_dict(), tokenizer=tokenizer),
            "corpus": start.corpus.fingerprint,
            "windows": step * config.gradient_accumulation_steps * config.batch_size,
            "versions": versions(),
        },
        peak_flops=start.machine.peak_flops(config.dtype),
        flops_per_step=_flops_per_step(model, config),
        first_step=first_step,
    )
    if start.resumed is not None:
        _restore(parts, start.resumed)
    return parts


def introduce(start: Start, ledger: LedgerWriter, choices: Mapping[str, str]) -> None:
    """The first events of a ledger: who runs what on what."""
    config, machine = start.config, start.machine
    ledger.append(
        RunEvent(
            started=datetime.now().astimezone().isoformat(timespec="seconds"),
            nanopace=__version__,
            config=config.as_dict(),
            monotonic_s=time.monotonic(),
            python=platform.python_version(),
            torch=torch.__version__,
            code_hash=_code_hash(),
            gpu=machine.name,
            gpu_memory_gb=None if machine.memory_gb is None else round(machine.memory_gb, 2),
            gpu_sms=machine.sms,
            gpu_count=1 if machine.device.type == "cuda" else None,
            world_size=1,
            tokens_per_iteration=config.tokens_per_iteration,
            choices=dict(choices),
            corpus=start.corpus.fingerprint,
            tokenizer=None if start.corpus.tokenizer is None else start.corpus.tokenizer.hash,
        )
    )
    if start.resumed is not None:
        ledger.append(ResumeEvent(start.resumed.step, str(start.resumed.path)))


def versions() -> dict[str, str]:
    return {"nanopace": __version__, "python": platform.python_version(), "torch": torch.__version__}


def _compiled(model: GPT, config: TrainConfig) -> tuple[GPT, Losses]:
    """The two functions that a run calls. Shapes never change, so they are compiled for these alone."""
    if not config.compile:
        return model, model.sequence_losses
    return torch.compile(model, dynamic=False), torch.compile(model.sequence_losses, dynamic=False)  # type: ignore[return-value]


def _evaluator(losses: Losses, start: Start, split: Split) -> Evaluator:
    config, tokenizer = start.config, start.corpus.tokenizer
    return Evaluator(
        losses,
        split,
        block_size=config.block_size,
        batch_size=largest_batch(start.shape, config.batch_size, start.machine.device),
        windows=config.eval_iters * config.batch_size,
        seed=config.seed,
        device=start.machine.device,
        token_bytes=None if tokenizer is None else tokenizer.token_bytes(),
        target_error=config.eval_target_error,
    )


def _batches(start: Start, first_step: int) -> Batches:
    config, tokenizer = start.config, start.corpus.tokenizer
    split = start.corpus.train
    end_of_text = None if tokenizer is None else tokenizer.end_of_text
    order = Order(split, config.block_size, config.seed, documents=config.documents, end_of_text=end_of_text)
    return Batches(
        split,
        order,
        micro_steps=config.gradient_accumulation_steps,
        batch_size=config.batch_size,
        block_size=config.block_size,
        device=start.machine.device,
        first_step=first_step,
    )


def _restore(parts: Parts, saved: Saved) -> None:
    averages = saved.optimizer(str(parts.device))
    assert averages is not None, "origin.find_saved lets no checkpoint without them through"
    restore_optimizer(parts.model, parts.optimizer, averages)
    parts.scaler.load_state_dict(saved.state["scaler"])
    parts.validation.restore(saved.state["validation"])
    if parts.training is not None and saved.state["training"] is not None:
        parts.training.restore(saved.state["training"])
    best = saved.state["best"]
    parts.best = None if best is None else (int(best[0]), float(best[1]))
    parts.recent = list(saved.state["recent"])
    restore_random_states(saved.state["random"], parts.device)


def _flops_per_step(model: GPT, config: TrainConfig) -> float:
    each = flops_per_token(model.parameter_count(), config.n_layer, config.n_embd, config.block_size)
    return each * config.tokens_per_iteration


def _code_hash() -> str:
    """Of everything that trains: two runs with the same hash ran the same code."""
    digest = hashlib.sha256()
    package = Path(__file__).parent.parent
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
