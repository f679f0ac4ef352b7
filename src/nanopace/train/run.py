"""One training run, from what was asked for to its outcome.

Nothing is created on the disk before everything that can be wrong has been checked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import torch

from nanopace.config import KNOBS, TrainConfig
from nanopace.corpus.corpora import EMBEDDED
from nanopace.corpus.prepare import Told, ensure
from nanopace.corpus.shards import Corpus, open_corpus
from nanopace.errors import InputError, UsageError
from nanopace.ledger import EndEvent, LedgerWriter
from nanopace.ledger.file import LEDGER_FILE
from nanopace.literals import Value
from nanopace.train.attention import pick_attention
from nanopace.train.checkpoint import BEST
from nanopace.train.checkpoint_files import Saved, checkpoint_directories, remove_checkpoint, sweep
from nanopace.train.clock import Clock, make_clock, process_start
from nanopace.train.device import Machine, find_machine, set_tf32
from nanopace.train.interrupt import Interrupt
from nanopace.train.listener import Introduction, Listener, Outcome
from nanopace.train.loop import Loop
from nanopace.train.monitor import Monitor
from nanopace.train.origin import find_pretrained, find_saved, fitted_settings, settings_of
from nanopace.train.plan import make_plan, shape_of
from nanopace.train.pretrained import Pretrained
from nanopace.train.setup import Start, build, introduce
from nanopace.train.warm_start import begin_to_load_the_compiler, keep_compiled


def train(
    given: Mapping[str, Value],
    *,
    from_file: bool,
    listener: Listener,
    preparing: Told | None = None,
    started: float | None = None,
) -> Outcome:
    """`given` are the knobs that a config file or flags set; `from_file`: there was a file.

    Should the embedded corpus have to be made first, `preparing` hears of it. The wall clock counts from `started`, on
    the monotonic clock: from the start of the process, unless told otherwise.
    """
    started = process_start() if started is None else started
    listener.phase("startup")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UsageError("train: one process trains on one device so far; start it without torchrun")
    wanted = given.get("device")
    machine = find_machine(None if wanted is None else str(wanted))
    clock = make_clock(machine.device, started)
    start = _settle(given, machine, listener, from_file=from_file, preparing=preparing)
    config = start.config
    if config.compile:
        keep_compiled()
        begin_to_load_the_compiler()
    clock.mark("startup", 0, "the corpus and the plan")
    dtype = getattr(torch, config.dtype)
    choices = {
        **start.plan.reasons,
        "tf32": set_tf32(machine),
        "attention": pick_attention(start.shape, config.batch_size, machine.device, dtype),
    }
    clock.mark("startup", 0, "trying attention kernels")
    _make_room(start)
    with LedgerWriter(start.out_dir / LEDGER_FILE, began=started) as ledger:
        introduce(start, ledger, choices)
        listener.started(
            Introduction(
                out_dir=str(start.out_dir),
                first_step=start.resumed.step if start.resumed else 0,
                last_step=config.max_iters,
                tokens_per_step=config.tokens_per_iteration,
                log_interval=config.log_interval,
                choices=choices,
            )
        )
        outcome = _run(start, ledger, clock, listener)
    listener.finished(outcome)
    if outcome.checkpoint is None and outcome.failure is not None:
        raise InputError("{path}: nothing could be saved: {reason}", path=start.out_dir, reason=outcome.failure)
    wall_ms = (time.monotonic() - started) * 1000
    assert abs(wall_ms - outcome.wall_ms) <= 0.01 * wall_ms + 100, "the phases do not sum to the wall clock"
    return outcome


def _run(start: Start, ledger: LedgerWriter, clock: Clock, listener: Listener) -> Outcome:
    """Whatever happens, the ledger ends with why."""
    reason = "error"
    loop: Loop | None = None
    monitor = Monitor(ledger.append, lambda: 0 if loop is None else loop.iteration, start.machine.uuid)
    if start.machine.device.type == "cuda":
        monitor.start()
    try:
        parts = build(start, ledger, clock, listener)
        with Interrupt(listener.note) as interrupt, parts.batches:
            loop = Loop(parts, interrupt)
            reason = loop.run()
    except torch.OutOfMemoryError:
        reason = "out_of_memory"
        raise UsageError(
            "--batch_size={batch_size}: the card's memory is full; halve it and double --gradient_accumulation_steps",
            batch_size=start.config.batch_size,
        ) from None
    except KeyboardInterrupt:
        reason = "interrupted"
        raise
    finally:
        energy_kwh = monitor.stop()
        wall_ms = None if loop is None else loop.close()
        ledger.append(EndEvent(reason, wall_ms=wall_ms and round(wall_ms, 3), energy_kwh=energy_kwh))
    newest = loop.newest_checkpoint or (start.resumed and start.resumed.path)
    return Outcome(
        reason=reason,
        iteration=loop.iteration,
        wall_ms=wall_ms or 0.0,
        ledger=str(start.out_dir / LEDGER_FILE),
        checkpoint=None if newest is None else str(newest),
        failure=loop.failure,
        energy_kwh=energy_kwh,
    )


def _settle(
    given: Mapping[str, Value], machine: Machine, listener: Listener, *, from_file: bool, preparing: Told | None
) -> Start:
    """Everything that can be decided and checked before out_dir is touched."""
    out_dir, init_from = Path(str(given.get("out_dir", "out"))), str(given.get("init_from", "scratch"))
    if init_from != "resume" and not given.get("overwrite"):
        _check_free(out_dir)
    source: Saved | Pretrained | None = None
    asked = dict(given)
    if init_from == "resume":
        source = find_saved(out_dir, listener)
        asked = settings_of(source, given, machine)
    elif init_from != "scratch":
        source = find_pretrained(init_from)
        asked = fitted_settings(source, given)
    decides = not from_file and init_from != "resume"
    if decides:
        asked.setdefault("dataset", EMBEDDED)
    corpus = open_corpus(ensure(str(asked.get("dataset", KNOBS["dataset"].default)), preparing))
    plan = make_plan(asked, corpus, machine, machine_decides=decides)
    shape = shape_of(plan.config, "gelu" if source is None else source.shape.activation)
    corpus.check(shape.vocab_size, shape.block_size)
    _check_source(source, corpus, plan.config)
    return Start(plan=plan, machine=machine, corpus=corpus, shape=shape, source=source, out_dir=out_dir)


def _check_source(source: Saved | Pretrained | None, corpus: Corpus, config: TrainConfig) -> None:
    """Weights only mean something with the tokenizer that they were trained with."""
    if source is None:
        return
    theirs = source.tokenizer_hash if isinstance(source, Saved) else source.tokenizer and source.tokenizer.hash
    ours = corpus.tokenizer and corpus.tokenizer.hash
    if theirs and ours and theirs != ours:
        raise InputError(
            "{corpus}: was made with another tokenizer than {path}; prepare it with that one",
            corpus=corpus.directory,
            path=source.path,
        )
    if isinstance(source, Saved):
        if source.state["corpus"] != corpus.fingerprint:
            raise InputError(
                "{corpus}: is not the data that {path} was trained on; a run goes on with the same data",
                corpus=corpus.directory,
                path=source.path,
            )
        if source.step > config.max_iters:
            raise UsageError(
                "{path}: the run is finished after {steps} steps; a larger --max_iters goes on",
                path=source.path,
                steps=source.step,
            )


def _check_free(out_dir: Path) -> None:
    if (out_dir / LEDGER_FILE).exists() or checkpoint_directories(out_dir):
        raise UsageError(
            "--out_dir={out_dir}: holds a run; --init_from=resume goes on with it, --overwrite=True replaces it",
            out_dir=out_dir,
        )


def _make_room(start: Start) -> None:
    """The first thing that touches the disk."""
    try:
        (start.out_dir / "checkpoints").mkdir(parents=True, exist_ok=True)
        sweep(start.out_dir)
        if start.resumed is None:
            for directory in checkpoint_directories(start.out_dir):
                remove_checkpoint(directory)
            for name in (LEDGER_FILE, BEST):
                (start.out_dir / name).unlink(missing_ok=True)
    except OSError as error:
        raise InputError("{path}: cannot be written: {reason}", path=start.out_dir, reason=error.strerror) from None
