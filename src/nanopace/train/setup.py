"""Put a run together: corpus, model, optimizer, evaluators, checkpoints. Every stretch of it is on the clock."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import torch

from nanopace.config import TrainConfig
from nanopace.corpus.shards.corpus import Split
from nanopace.corpus.shards.order import Order
from nanopace.hardware.flops import flops_per_token
from nanopace.ledger import LedgerWriter, ResumeEvent, RunEvent
from nanopace.memory_ladder import keeps_gradients
from nanopace.train.checkpoint.best import best_until
from nanopace.train.checkpoint.layout import Saved, not_a_state
from nanopace.train.checkpoint.reassemble import fill
from nanopace.train.checkpoint.rng_state import restore_random_states, seed_dropout, seed_everything
from nanopace.train.checkpoint.saver import Checkpointer
from nanopace.train.checkpoint.sharded import NoCheckpointer, ShardedCheckpointer
from nanopace.train.checkpoint.write import describe
from nanopace.train.clock.clock import Clock
from nanopace.train.fused.step_in_backward import StepInBackward
from nanopace.train.listener import Listener
from nanopace.train.loop.batches import Batches
from nanopace.train.loop.evaluate import Evaluator, Losses, pick_batch
from nanopace.train.loop.parts import Parts
from nanopace.train.loop.passes import FusedPasses, Passes, PlainPasses, autocast
from nanopace.train.models.gpt2 import GPT
from nanopace.train.models.recipes import outline
from nanopace.train.optim.optimizer import make_optimizer, optimizer_tensors, restore_optimizer
from nanopace.train.parallel import spread
from nanopace.train.plan.ladder import pick_steps
from nanopace.train.plan.origin import build_model
from nanopace.train.plan.start import Start
from nanopace.version import __version__


def build(start: Start, ledger: LedgerWriter, clock: Clock, listener: Listener) -> Parts:
    config, device, ranks = start.config, start.machine.device, start.ranks
    first_step = start.resumed.step if start.resumed else 0
    seed_everything(config.seed)
    sharding = config.parallel == "fsdp" and ranks.launched  # then no card ever holds all of it
    model = build_model(start.shape, start.source, device, piecewise=sharding)
    clock.mark("startup", first_step, "the model")
    saving, _ = pick_steps(config, start.shape, start.machine, ranks.size, start.fitting_micro_batch)
    called = spread(model, config, ranks, device, saving)
    if called.compiled:
        clock.mark("compile", first_step, "the compiler itself")
    optimizer = make_optimizer(model, config, device, saving)
    scaler = torch.amp.GradScaler(device.type, enabled=config.dtype == "float16")
    passes: Passes = PlainPasses(called.loss, optimizer, scaler, autocast(config, device))
    release: StepInBackward | None = None
    if called.fused is not None:
        passes = FusedPasses(called.fused)
        if not keeps_gradients(saving):
            release = called.fused.release = StepInBackward(optimizer, config.grad_clip, device)
    tokenizer = start.corpus.tokenizer
    checkpointer = _checkpointer(start, model, optimizer, sharded=called.sharded)
    clock.mark("startup", first_step, "the optimizer")
    validation = _evaluator(called.sequence_losses, start, start.corpus.val, config.seed)
    training = None
    if config.eval_train == "full":  # in another order than the steps': not on the windows that these begin with
        training = _evaluator(called.sequence_losses, start, start.corpus.train, ~config.seed)
    order = _order(start)
    fingerprint = start.corpus.fingerprint  # now: a save shall not wait for the thread that reads through the data
    batches = _batches(start, order, first_step)
    clock.mark("startup", first_step, "the data")
    parts = Parts(
        config=config,
        device=device,
        model=model,
        passes=passes,
        optimizer=optimizer,
        scaler=scaler,
        batches=batches,
        order=order,
        validation=validation,
        training=training,
        checkpointer=checkpointer,
        claim=start.claim,
        clock=clock,
        ledger=ledger,
        listener=listener,
        describe=lambda step: {
            **describe(start.shape, step=step, config=config.as_dict(), tokenizer=tokenizer),
            "corpus": fingerprint,
            "corpus_sha256": start.corpus.hashes,
            "windows": start.windows_before(step),
            "versions": versions(),
        },
        peak_flops=_peak_flops(start),
        flops_per_step=_flops_per_token(model, config) * config.tokens_per_iteration,
        measured_flops=_measured_flops(start),
        ranks=ranks,
        quietly=called.quietly,
        rehearsing=called.rehearsing if release is None else release.weights_frozen,
        release=release,
        sharded=called.sharded,
        first_step=first_step,
        saved_step=first_step if start.resumed is not None and start.resumed.ours else None,
        micro_batch=start.fitting_micro_batch,
        data_offset=start.order_offset,
    )
    seed_dropout(config.seed, ranks)
    if start.resumed is not None and not config.eval_only:
        _restore(parts, start.resumed)
    return parts


def introduce(start: Start, ledger: LedgerWriter, choices: Mapping[str, str]) -> None:
    """The first events of a ledger: who runs what on what."""
    config, machine = start.config, start.machine
    model = outline(start.shape)
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
            gpu_memory_gb=None if machine.card_memory_gb is None else round(machine.card_memory_gb, 2),
            gpu_sms=machine.sms,
            gpu_count=start.ranks.size if machine.device.type == "cuda" else None,
            measured_tflops=start.measured_tflops,
            world_size=start.ranks.size,
            parameters=_parameters(model),
            flops_per_token=_flops_per_token(model, config),
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


def _checkpointer(
    start: Start, model: GPT, optimizer: torch.optim.Optimizer, *, sharded: bool
) -> Checkpointer | ShardedCheckpointer | NoCheckpointer:
    """Where every rank holds everything, the first one saves it; with save_interval=-1 or eval_only nobody does."""
    kind = ShardedCheckpointer if sharded else Checkpointer if start.ranks.first else NoCheckpointer
    kind = NoCheckpointer if start.config.save_interval < 0 or start.config.eval_only else kind
    return kind(
        start.claim,
        model,
        optimizer,
        tokenizer=start.corpus.tokenizer,
        keep_last=start.config.keep_last,
        device=start.machine.device,
    )


def _evaluator(losses: Losses, start: Start, split: Split, seed: int) -> Evaluator:
    config, tokenizer = start.config, start.corpus.tokenizer
    return Evaluator(
        losses,
        split,
        block_size=config.block_size,
        batch_size=pick_batch(start.shape, config.batch_size, start.machine.device)[0],
        windows=config.eval_iters * config.batch_size,
        seed=seed,
        device=start.machine.device,
        token_bytes=None if tokenizer is None else tokenizer.token_bytes(),
        target_error=config.eval_target_error,
        ranks=start.ranks,
    )


def _order(start: Start) -> Order:
    config, tokenizer = start.config, start.corpus.tokenizer
    return Order(
        start.corpus.train,
        config.block_size,
        config.seed + start.order_offset,
        documents=config.documents,
        end_of_text=None if tokenizer is None else tokenizer.end_of_text,
    )


def _batches(start: Start, order: Order, first_step: int) -> Batches:
    config = start.config
    return Batches(
        start.corpus.train,
        order,
        micro_steps=config.gradient_accumulation_steps // start.ranks.size,
        batch_size=config.batch_size,
        block_size=config.block_size,
        device=start.machine.device,
        first_window=start.windows_before(first_step),
        part=(start.ranks.rank, start.ranks.size),
    )


def _restore(parts: Parts, saved: Saved) -> None:
    if parts.ranks.launched and saved.ours:  # each rank reads what it holds
        fill(optimizer_tensors(parts.model, parts.optimizer), saved.path, alone=False)
    else:
        averages = saved.optimizer()
        assert averages is not None, "origin.find_saved lets no checkpoint without them through"
        restore_optimizer(parts.model, parts.optimizer, averages)
    try:
        _restore_state(parts, saved)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RuntimeError):
        raise not_a_state(saved.path) from None


def _restore_state(parts: Parts, saved: Saved) -> None:
    """What a checkpoint that came from elsewhere does not know begins anew."""
    state = saved.state
    if scaler := state.get("scaler"):
        parts.scaler.load_state_dict(scaler)
    if saved.config.get("seed") == parts.config.seed:  # else other windows are evaluated: nothing to compare them with
        if "validation" in state:
            parts.validation.restore(state["validation"])
        if parts.training is not None and state.get("training") is not None:
            parts.training.restore(state["training"])
    parts.best = best_until(saved)
    parts.recent = [float(each) for each in state.get("recent", [])]
    _restore_randomness(parts, saved)


def _restore_randomness(parts: Parts, saved: Saved) -> None:
    """Each rank goes on with its own dropout. A rank that was not there draws as if it began at this step."""
    states = [saved.state["random"], *saved.state.get("random_of_others", [])] if "random" in saved.state else []
    if parts.ranks.rank < len(states):
        restore_random_states(states[parts.ranks.rank], parts.device)
    else:
        seed_dropout(parts.config.seed + saved.step, parts.ranks)


def _peak_flops(start: Start) -> float | None:
    """Of all cards together."""
    peak = start.machine.peak_flops(start.config.dtype)
    return None if peak is None else peak * start.ranks.size


def _measured_flops(start: Start) -> float | None:
    """Of all cards together; the processes of a CPU share it."""
    tflops, cards = start.measured_tflops, start.ranks.size if start.machine.device.type == "cuda" else 1
    return None if tflops is None else tflops * 1e12 * cards


def _flops_per_token(model: GPT, config: TrainConfig) -> float:
    return flops_per_token(model.parameter_count(), config.n_layer, config.n_embd, config.block_size)


def _parameters(model: GPT) -> int:
    """As nanoGPT counts them; of other recipes all there are."""
    return model.parameter_count() if model.shape.recipe == "gpt2" else sum(each.numel() for each in model.parameters())


def _code_hash() -> str:
    """Of everything that trains: two runs with the same hash ran the same code."""
    digest = hashlib.sha256()
    package = Path(__file__).parent.parent
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
