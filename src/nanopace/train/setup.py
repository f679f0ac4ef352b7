"""Assembles a run: corpus, model, optimizer, evaluators, checkpoints. The clock counts all of it."""

from __future__ import annotations

import hashlib
import platform
import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import torch

from nanopace.config import TrainConfig
from nanopace.corpus.shards.corpus import Split
from nanopace.corpus.shards.order import Order
from nanopace.errors import Message
from nanopace.hardware.flops import flops_per_token
from nanopace.ledger import LedgerWriter, ResumeEvent, RunEvent
from nanopace.ledger.events import WITH_SAMPLES, WITHOUT_SAMPLES
from nanopace.memory_ladder import keeps_gradients, on_host
from nanopace.train.checkpoint.best import best_until
from nanopace.train.checkpoint.layout import Saved, not_a_state
from nanopace.train.checkpoint.reassemble import fill
from nanopace.train.checkpoint.rng_state import restore_random_states, seed_dropout, seed_everything
from nanopace.train.checkpoint.saver import Checkpointer
from nanopace.train.checkpoint.sharded import NoCheckpointer, ShardedCheckpointer
from nanopace.train.clock.clock import Clock
from nanopace.train.fused.step_in_backward import StepInBackward
from nanopace.train.host.arena import Arena
from nanopace.train.host.bus import Bus
from nanopace.train.host.layers import layer_stream
from nanopace.train.host.states import HostStates, arena_for
from nanopace.train.listener import Listener
from nanopace.train.loop.batches import Batches
from nanopace.train.loop.evaluate import Evaluator, Losses
from nanopace.train.loop.parts import Flops, Parts
from nanopace.train.loop.passes import FusedPasses, Passes, PlainPasses
from nanopace.train.models.gpt2 import GPT
from nanopace.train.models.recipes import meta_model
from nanopace.train.optim.optimizer import make_optimizer, optimizer_name, optimizer_tensors, restore_optimizer
from nanopace.train.parallel import parallelize
from nanopace.train.plan.device import autocast
from nanopace.train.plan.origin import build_model
from nanopace.train.plan.run_plan import RunPlan
from nanopace.train.private_torch import deterministic_algorithms
from nanopace.version import __version__


def build(plan: RunPlan, ledger: LedgerWriter, clock: Clock, listener: Listener) -> Parts:
    config, device, first_step = plan.config, plan.device, plan.first_step
    seed_everything(config.seed)
    sharding = config.parallel == "fsdp" and plan.ranks.launched  # then no card ever holds the full model
    from_host = on_host(plan.memory_steps.value)
    model = build_model(plan.shape, plan.source, device, piecewise=sharding or from_host)
    arena = arena_for(model, device, muon=optimizer_name(config) == "muon") if from_host else None
    clock.mark("startup", first_step, "the model")
    parallel = parallelize(model, plan)
    if parallel.compiled:
        clock.mark("compile", first_step, "the compiler itself")
    optimizer = make_optimizer(model, config, device, plan.memory_steps.value)
    scaler = torch.amp.GradScaler(device.type, enabled=config.dtype == "float16")
    algorithms = deterministic_algorithms if config.deterministic else nullcontext
    passes: Passes = PlainPasses(parallel.loss, optimizer, scaler, autocast(config, device), algorithms)
    release: StepInBackward | None = None
    if parallel.fused is not None:
        passes = FusedPasses(parallel.fused)
        if not keeps_gradients(plan.memory_steps.value):
            release = parallel.fused.release = StepInBackward(optimizer, config.grad_clip, device)
            parallel = replace(parallel, rehearsing=release.weights_frozen)
    host = None
    if arena is not None and parallel.fused is not None:
        bus, rows = Bus(device, clock), plan.micro_batch * config.block_size
        stream = layer_stream(parallel.fused, plan.memory_steps.value, rows, bus)
        by_cores = False if config.deterministic else None  # their sums have other bits, and a clock would choose
        host = HostStates(
            model, parallel.fused, optimizer, arena, bus, config.grad_clip, stream=stream, by_cores=by_cores
        )
        if device.type == "cuda" and not arena.pinned:
            slow = Message("the system does not allow pinned host memory: copies to and from the card are slower")
            ledger.note(slow, first_step)
    checkpointer = _checkpointer(plan, model, optimizer, sharded=parallel.sharded, arena=arena)
    clock.mark("startup", first_step, "the optimizer")
    validation = _evaluator(parallel.sequence_losses, plan, plan.corpus.val, config.seed)
    training = None
    if config.eval_train == "full":  # another seed: not the windows that training begins with
        training = _evaluator(parallel.sequence_losses, plan, plan.corpus.train, ~config.seed)
    batches = _batches(plan)
    clock.mark("startup", first_step, "the data")
    parts = Parts(
        plan=plan,
        clock=clock,
        ledger=ledger,
        listener=listener,
        model=model,
        parallel=parallel,
        optimizer=optimizer,
        scaler=scaler,
        passes=passes,
        release=release,
        host=host,
        batches=batches,
        validation=validation,
        training=training,
        checkpointer=checkpointer,
        flops=_flops(plan, model),
    )
    seed_dropout(config.seed, plan.ranks)
    if plan.resumed is not None and not config.eval_only:
        _restore(parts, plan.resumed)
    return parts


def introduce(plan: RunPlan, ledger: LedgerWriter) -> RunEvent:
    """Write the first events of a ledger: versions, config and machine."""
    config, machine = plan.config, plan.machine
    model = meta_model(plan.shape)
    run = RunEvent(
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        nanopace=__version__,
        config=config.as_dict(),
        ledger=WITH_SAMPLES if config.sample_interval else WITHOUT_SAMPLES,
        monotonic_s=time.monotonic(),
        python=platform.python_version(),
        torch=torch.__version__,
        code_hash=_code_hash(),
        gpu=machine.name,
        gpu_memory_gb=None if machine.card_memory_gb is None else round(machine.card_memory_gb, 2),
        gpu_sms=machine.sms,
        gpu_count=plan.ranks.size if machine.device.type == "cuda" else None,
        measured_tflops=plan.measured_tflops,
        world_size=plan.ranks.size,
        parameters=_parameters(model),
        flops_per_token=_flops_per_token(model, config),
        tokens_per_iteration=config.tokens_per_iteration,
        choices=plan.reasons,
        corpus=plan.fingerprint,
        tokenizer=None if plan.corpus.tokenizer is None else plan.corpus.tokenizer.hash,
    )
    ledger.append(run)
    if plan.resumed is not None:
        ledger.append(ResumeEvent(plan.resumed.step, str(plan.resumed.path)))
    return run


def _checkpointer(
    plan: RunPlan, model: GPT, optimizer: torch.optim.Optimizer, *, sharded: bool, arena: Arena | None
) -> Checkpointer | ShardedCheckpointer | NoCheckpointer:
    """If every rank holds all weights, the first one saves them; with save_interval=-1 or eval_only, none does."""
    kind = ShardedCheckpointer if sharded else Checkpointer if plan.ranks.first else NoCheckpointer
    kind = NoCheckpointer if plan.config.save_interval < 0 or plan.config.eval_only else kind
    return kind(
        plan.claim,
        model,
        optimizer,
        tokenizer=plan.corpus.tokenizer,
        keep_last=plan.config.keep_last,
        device=plan.device,
        at_home=None if arena is None else arena.holds,
    )


def _evaluator(losses: Losses, plan: RunPlan, split: Split, seed: int) -> Evaluator:
    config, tokenizer = plan.config, plan.corpus.tokenizer
    return Evaluator(
        losses,
        split,
        block_size=config.block_size,
        batch_size=plan.eval_batch.value,
        windows=config.eval_iters * config.batch_size,
        seed=seed,
        device=plan.device,
        token_bytes=None if tokenizer is None else tokenizer.token_bytes(),
        target_error=config.eval_target_error,
        ranks=plan.ranks,
    )


def _batches(plan: RunPlan) -> Batches:
    config, ranks, tokenizer = plan.config, plan.ranks, plan.corpus.tokenizer
    order = Order(
        plan.corpus.train,
        config.block_size,
        config.seed + plan.data_offset,
        documents=config.documents,
        end_of_text=None if tokenizer is None else tokenizer.end_of_text,
    )
    return Batches(
        plan.corpus.train,
        order,
        micro_steps=config.gradient_accumulation_steps // ranks.size,
        batch_size=config.batch_size,
        block_size=config.block_size,
        device=plan.device,
        first_window=plan.windows_before(plan.first_step),
        part=(ranks.rank, ranks.size),
    )


def _restore(parts: Parts, saved: Saved) -> None:
    if parts.plan.ranks.launched and saved.ours:  # each rank reads what it holds
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
    """Restore the rest of the state. Whatever a checkpoint from elsewhere lacks starts fresh."""
    state = saved.state
    if scaler := state.get("scaler"):
        parts.scaler.load_state_dict(scaler)
    if saved.config.get("seed") == parts.plan.config.seed:  # else it evaluated other windows, and is not comparable
        if "validation" in state:
            parts.validation.restore(state["validation"])
        if parts.training is not None and state.get("training") is not None:
            parts.training.restore(state["training"])
    parts.best = best_until(saved)
    parts.recent = [float(each) for each in state.get("recent", [])]
    _restore_randomness(parts, saved)


def _restore_randomness(parts: Parts, saved: Saved) -> None:
    """Each rank continues its own dropout. A rank that did not exist before is seeded for this step."""
    states = [saved.state["random"], *saved.state.get("random_of_others", [])] if "random" in saved.state else []
    if parts.plan.ranks.rank < len(states):
        restore_random_states(states[parts.plan.ranks.rank], parts.plan.device)
    else:
        seed_dropout(parts.plan.config.seed + saved.step, parts.plan.ranks)


def peak_flops(plan: RunPlan) -> float | None:
    """The peak of all cards together; None if the card is unknown."""
    peak = plan.machine.peak_flops(plan.config.dtype)
    return None if peak is None else peak * plan.ranks.size


def _flops(plan: RunPlan, model: GPT) -> Flops:
    measured, cards = plan.measured_tflops, plan.ranks.size if plan.device.type == "cuda" else 1
    return Flops(
        per_step=_flops_per_token(model, plan.config) * plan.config.tokens_per_iteration,
        measured=None if measured is None else measured * 1e12 * cards,  # processes on a CPU share its speed
    )


def _flops_per_token(model: GPT, config: TrainConfig) -> float:
    return flops_per_token(model.parameter_count(), config.n_layer, config.n_embd, config.block_size)


def _parameters(model: GPT) -> int:
    """The parameter count: nanoGPT's way for recipe gpt2, all of them for other recipes."""
    return model.parameter_count() if model.shape.recipe == "gpt2" else sum(each.numel() for each in model.parameters())


def _code_hash() -> str:
    """A hash of the package's source: two runs with the same hash ran the same code."""
    digest = hashlib.sha256()
    package = Path(__file__).parent.parent
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
