"""One training run, from what was asked for to its outcome.

Nothing is created on the disk before everything that can be wrong has been checked.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import torch

from nanopace.config import Asked
from nanopace.corpus.prepare.prepare import OnProgress
from nanopace.errors import UsageError
from nanopace.files import check_own
from nanopace.ledger import EndEvent, LedgerWriter, NoteEvent
from nanopace.ledger.file import LEDGER_FILE
from nanopace.train.checkpoint.layout import checkpoint_directories, newest_whole, step_of
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.run_dir import clear, enter
from nanopace.train.clock.clock import Clock, make_clock, process_start
from nanopace.train.clock.sensors import Monitor
from nanopace.train.clock.step_events import STEP_PHASES
from nanopace.train.clock.suspensions import Stops
from nanopace.train.formats.pretrained import Pretrained
from nanopace.train.fused.attention import pick_attention
from nanopace.train.kernels.fp8 import pick_products
from nanopace.train.listener import Introduction, Listener, Outcome
from nanopace.train.loop.evaluate import pick_batch
from nanopace.train.loop.interrupt import Interrupt
from nanopace.train.loop.loop import Loop
from nanopace.train.loop.loss_watch import NotFiniteError
from nanopace.train.out_of_memory import FullError, is_full, make_room
from nanopace.train.plan.changed_settings import differences
from nanopace.train.plan.device import find_machine, pick_kernels, set_tf32
from nanopace.train.plan.ladder import pick_steps, released_batch
from nanopace.train.plan.origin import from_the_beginning
from nanopace.train.plan.resolve import Wishes, out_dir_of, settle
from nanopace.train.plan.start import Start
from nanopace.train.ranks import Ranks, Silent, elastic, joined
from nanopace.train.rollback import Rollbacks, diverged
from nanopace.train.setup import build, introduce
from nanopace.train.warm_start import (
    begin_to_load_the_compiler,
    keep_compiled,
    keep_the_compiler_out_of_optimizers,
)


def train(
    asked: Asked,
    *,
    listener: Listener,
    preparing: OnProgress | None = None,
    started: float | None = None,
) -> Outcome:
    """Should the embedded corpus have to be made first, `preparing` hears of it. The wall clock counts from `started`,
    on the monotonic clock: from the start of the process, unless told otherwise.
    """
    started = process_start() if started is None else started
    keep_the_compiler_out_of_optimizers()
    ranks = Ranks.of(os.environ)
    listener = listener if ranks.first else Silent()
    listener.phase("startup")
    given = asked.given
    wanted = given.get("device")
    machine = find_machine(ranks.device(None if wanted is None else str(wanted)))
    if machine.device.type == "cuda":
        torch.cuda.set_device(machine.device)  # Triton launches where torch is
    backend = given.get("backend")
    if ranks.first and not given.get("eval_only"):
        check_own(out_dir_of(given) / LEDGER_FILE)
    with joined(ranks, machine.device, None if backend is None else str(backend)), Claim(out_dir_of(given)) as claim:
        if not given.get("eval_only"):  # which only reads
            ranks.agree(lambda: enter(out_dir_of(given), claim) if ranks.first else None)
            given = elastic(given, ranks, bool(checkpoint_directories(out_dir_of(given))))
            given = from_the_beginning(given, out_dir_of(given), machine)
        wishes = Wishes(replace(asked, given=given), preparing if ranks.first else None, machine, ranks, claim)
        return _train(wishes, listener, started)


def _train(wishes: Wishes, listener: Listener, started: float) -> Outcome:
    machine, ranks = wishes.machine, wishes.ranks
    clock = make_clock(machine.device, started)
    start = settle(wishes, listener)
    config = start.config
    clock.mark("startup", 0, "the corpus and the plan")
    dtype = getattr(torch, config.dtype)
    choices = {
        **_origin(start),
        **start.plan.reasons,
        "tf32": set_tf32(machine),
        "attention": pick_attention(start.shape, config.batch_size, machine.device, dtype),
    }
    clock.mark("startup", 0, "trying attention kernels")
    kernels, why = pick_kernels(config, start.shape, machine.device, ranks.size)
    choices["kernels"] = f"{kernels}: {why}"
    choices["memory"] = pick_steps(config, start.shape, start.machine, ranks.size, start.fitting_micro_batch)[1]
    batch, why = pick_batch(start.shape, config.batch_size, machine.device)
    choices["evaluation"] = f"{batch} sequences at a time: {why}"
    if start.resumed is not None and not config.eval_only:
        choices |= differences(start.resumed, config)
    if config.compile:
        keep_compiled()
    if config.fp8:
        rows = config.batch_size * config.block_size
        choices["fp8"] = pick_products(start.shape, rows, machine.device)[1]
        clock.mark("startup", 0, "trying products in 8 bits")
    if kernels == "compiled":
        begin_to_load_the_compiler()  # only now: its imports would slow down what is being tried
    writes = ranks.first and not config.eval_only
    set_aside = ranks.agree(lambda: _clear(start, wishes.claim) if writes else None)
    if set_aside is not None:
        listener.note(set_aside)
    path = start.out_dir / LEDGER_FILE if writes else None  # one ledger: the first rank's
    with LedgerWriter(path, clock.now, began=started, tell=listener.note, home=start.claim.directory) as ledger:
        introduce(start, ledger, choices)
        first_step = start.resumed.step if start.resumed else 0
        listener.started(
            Introduction(
                out_dir=str(start.out_dir),
                first_step=first_step,
                last_step=first_step if config.eval_only else config.max_iters,
                tokens_per_step=config.tokens_per_iteration,
                log_interval=config.log_interval,
                choices=choices,
                take_down=lambda text, iteration: ledger.append(NoteEvent(text, iteration)),
            )
        )
        outcome = _run(start, ledger, clock, listener)
    listener.finished(outcome)
    wall_ms = (clock.now() - started) * 1000
    assert abs(wall_ms - outcome.wall_ms) <= 0.01 * wall_ms + 100, "the phases do not sum to the wall clock"
    return outcome


def _origin(start: Start) -> dict[str, str]:
    """Which checkpoint of another run this one begins with, where there were several."""
    chosen = start.source.chosen if isinstance(start.source, Pretrained) else None
    return {} if chosen is None else {"init_from": f"{chosen.saved.path}: {chosen}"}


def _clear(start: Start, claim: Claim) -> str | None:
    return clear(start.out_dir, claim, anew=start.resumed is None, overwrite=start.config.overwrite)


def _run(start: Start, ledger: LedgerWriter, clock: Clock, listener: Listener) -> Outcome:
    """Whatever happens, the ledger ends with why."""
    reason, all_here = "error", False
    loop: Loop | None = None
    rollbacks = Rollbacks(ledger, listener)
    monitor = Monitor(ledger.append, lambda: 0 if loop is None else loop.iteration, start.machine.uuid)
    if start.machine.device.type == "cuda":
        monitor.start()
    try:
        with Stops(clock.stopped), Interrupt(listener.note, clock.paused, echoed=start.ranks.launched) as interrupt:
            while True:
                loop = Loop(build(start, ledger, clock, listener), interrupt)
                ended = _train_once(start, loop, rollbacks)
                if isinstance(ended, str):
                    reason, all_here = ended, True
                    break
                if ended is None:
                    reason = "diverged"
                    raise diverged(_home(start), loop, rollbacks.failed_at)
                loop.close()
                loop, start = None, ended
                _forget(start)
    except (FullError, RuntimeError, MemoryError) as error:
        if not isinstance(error, FullError) and not is_full(error):
            raise
        reason = "out_of_memory"
        raise _too_large(start, halvable=isinstance(error, FullError) and error.halvable) from None
    except KeyboardInterrupt:
        reason = "interrupted"
        raise
    finally:
        energy_kwh = _of_all_cards(monitor.stop(), start.ranks if all_here else Ranks())
        newest, failure = _saved(start, loop, all_here=all_here)
        saved = None if newest is None or failure is None else step_of(newest.name)
        if reason == "finished" and loop is not None and failure is not None and saved != loop.iteration:
            reason = "error"
        wall_ms = None if loop is None else loop.close()
        ledger.append(EndEvent(reason, wall_ms and round(wall_ms, 3), energy_kwh, failure=failure, saved=saved))
    return Outcome(
        reason=reason,
        iteration=loop.iteration,
        wall_ms=wall_ms or 0.0,
        ledger=str(ledger.path if start.ranks.first else start.out_dir / LEDGER_FILE),
        checkpoint=None if newest is None else str(newest),
        out_dir=None if newest is None or failure is None else str(newest.parent.parent),
        failure=failure,
        energy_kwh=energy_kwh,
        utilisation=loop.utilisation,
        measured_tflops=start.measured_tflops,
        logging=_on_top_of_steps(clock),
    )


def _saved(start: Start, loop: Loop | None, *, all_here: bool) -> tuple[Path | None, str | None]:
    """The newest checkpoint, and why out_dir does not hold that of the last step, if it does not."""
    unsaved, newest = (None, None) if loop is None else (loop.unsaved, loop.newest_checkpoint)
    if unsaved is None and not start.claim.lost:
        return newest or (None if start.resumed is None else start.resumed.path), None
    failure = f"{start.out_dir}: another training has it by now" if unsaved is None else str(unsaved)
    if loop is not None and all_here and start.ranks.first and not loop.rescued:
        saved, _ = newest_whole(start.claim.home)  # as it is now: others may have been there
        newest = None if saved is None else saved.path
    return newest, failure


def _home(start: Start) -> Path:
    """Where this run may write, or what comes nearest to it: then writing fails."""
    try:
        return start.claim.directory()
    except OSError:
        return start.claim.home


def _on_top_of_steps(clock: Clock) -> float:
    steps_ms = sum(clock.totals.get(phase, 0.0) for phase in STEP_PHASES)
    return clock.totals.get("logging", 0.0) / steps_ms if steps_ms > 0 else 0.0


def _train_once(start: Start, loop: Loop, rollbacks: Rollbacks) -> str | Start | None:
    """How it ended, or where to begin again; None: it cannot go on."""
    try:
        return loop.run()
    except NotFiniteError as error:
        failed_at = error.failed_at
    return rollbacks.after(start, loop, failed_at)  # the error is gone, and with it all that it kept alive


def _of_all_cards(energy_kwh: float | None, ranks: Ranks) -> float | None:
    """Unknown if that of one card is."""
    total = float(ranks.exchange([math.nan if energy_kwh is None else energy_kwh]).sum())
    return None if math.isnan(total) else total


def _forget(start: Start) -> None:
    """Model and averages of before have gone, before those of now are made: a card has no room for both."""
    if pick_kernels(start.config, start.shape, start.machine.device, start.ranks.size)[0] == "compiled":
        torch.compiler.reset()  # what was compiled holds on to its model
    make_room(start.machine.device)


def _too_large(start: Start, *, halvable: bool) -> UsageError:
    config = start.config
    if halvable:
        return UsageError(
            "--batch_size={batch_size}: the card's memory is full; halve it and double --gradient_accumulation_steps",
            batch_size=config.batch_size,
        )
    fitting = released_batch(config, start.shape, start.machine, start.ranks.size)
    if fitting is not None:
        return UsageError(
            "--batch_size={batch_size}: memory is full, also with one sequence at a time; with "
            "--batch_size={fitting} --gradient_accumulation_steps=1 no gradients are kept, and it should fit",
            batch_size=config.batch_size,
            fitting=fitting,
        )
    return UsageError(
        "--batch_size={batch_size}: memory is full, also with one sequence at a time; "
        "a smaller model or a shorter --block_size needs less",
        batch_size=config.batch_size,
    )
