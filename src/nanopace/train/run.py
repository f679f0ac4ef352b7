"""One training run, from what was asked for to its outcome.

Every possible mistake in the request is checked before anything is created on disk.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import torch

from nanopace.config import Asked
from nanopace.corpus.prepare.prepare import OnProgress
from nanopace.errors import Message, UsageError
from nanopace.files import check_own
from nanopace.host_clock import process_start
from nanopace.ledger import EndEvent, LedgerWriter, NoteEvent, RunEvent
from nanopace.ledger.file import LEDGER_FILE
from nanopace.train.checkpoint.layout import checkpoint_directories, newest_intact, step_of
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.run_dir import clear, enter
from nanopace.train.clock.clock import Clock, make_clock
from nanopace.train.clock.sensors import Monitor
from nanopace.train.clock.step_events import STEP_PHASES
from nanopace.train.clock.suspensions import Stops
from nanopace.train.corrupted import corrupted
from nanopace.train.listener import Introduction, Listener, Outcome
from nanopace.train.loop.corruption import CorruptedError
from nanopace.train.loop.interrupt import Interrupt
from nanopace.train.loop.loop import Loop
from nanopace.train.loop.loss_watch import NotFiniteError
from nanopace.train.out_of_memory import FullError, is_full, make_room
from nanopace.train.plan.device import find_machine
from nanopace.train.plan.ladder import released_batch
from nanopace.train.plan.measure import measure
from nanopace.train.plan.origin import from_the_beginning
from nanopace.train.plan.resolve import RunRequest, out_dir_of, resolve
from nanopace.train.plan.run_plan import RunPlan
from nanopace.train.ranks import Ranks, Silent, elastic, joined
from nanopace.train.rollback import Rollbacks, diverged
from nanopace.train.setup import build, introduce, peak_flops
from nanopace.train.warm_start import begin_to_load_the_compiler, keep_the_compiler_out_of_optimizers


def train(
    asked: Asked, *, listener: Listener, preparing: OnProgress | None = None, started: float | None = None
) -> Outcome:
    """Train as `asked`. If the embedded corpus has to be made first, `preparing` is called with the progress.

    The wall clock counts from `started` on the monotonic clock, by default the start of the process.
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
        request = RunRequest(replace(asked, given=given), preparing if ranks.first else None, machine, ranks, claim)
        return _train(request, listener, started)


def _train(request: RunRequest, listener: Listener, started: float) -> Outcome:
    """Decide and measure first, and only then write."""
    clock = make_clock(request.machine.device, started)
    plan = resolve(request, listener)
    clock.mark("startup", 0, "the corpus and the plan")
    plan = measure(plan, clock)
    if plan.kernels.value == "compiled":
        begin_to_load_the_compiler()  # only now: its imports would have slowed down the measurements
    writes = plan.ranks.first and not plan.config.eval_only
    set_aside = plan.ranks.agree(lambda: _clear(plan) if writes else None)
    if set_aside is not None:
        listener.note(set_aside)
    path = plan.out_dir / LEDGER_FILE if writes else None  # one ledger: the first rank's
    with LedgerWriter(
        path, clock.now, began=started, on_event=listener.event, on_trouble=listener.note, home=plan.claim.writable_dir
    ) as ledger:
        run = introduce(plan, ledger)
        listener.started(_introduction(plan, run, ledger, clock))
        outcome, closed_at = _run(plan, ledger, clock, listener)
    listener.finished(outcome)
    wall_ms = (closed_at - started) * 1000
    assert abs(wall_ms - outcome.wall_ms) <= 0.01 * wall_ms + 100, "the phases do not sum to the wall clock"
    return outcome


def _clear(plan: RunPlan) -> str | None:
    return clear(plan.out_dir, plan.claim, anew=plan.resumed is None, overwrite=plan.config.overwrite)


def _introduction(plan: RunPlan, run: RunEvent, ledger: LedgerWriter, clock: Clock) -> Introduction:
    return Introduction(
        out_dir=str(plan.out_dir),
        first_step=plan.first_step,
        last_step=plan.first_step if plan.config.eval_only else plan.config.max_iters,
        tokens_per_step=plan.config.tokens_per_iteration,
        log_interval=plan.config.log_interval,
        choices=plan.reasons,
        flops_per_step=(run.flops_per_token or 0.0) * plan.config.tokens_per_iteration,
        peak_flops=peak_flops(plan),
        phase_shares=clock.shares,
        note_in_ledger=lambda text, iteration: ledger.write(NoteEvent(text, iteration)),
    )


def _run(plan: RunPlan, ledger: LedgerWriter, clock: Clock, listener: Listener) -> tuple[Outcome, float]:
    """Run until the end, and record the reason for it in the ledger, whatever happens. Also return when the last piece
    of time ended: writing and printing after that is not part of the run."""
    reason, all_here = "error", False
    loop: Loop | None = None
    rollbacks = Rollbacks(ledger)
    monitor = Monitor(ledger.append, lambda: 0 if loop is None else loop.iteration, plan.machine.uuid)
    if plan.device.type == "cuda":
        monitor.start()
    try:
        with Stops(clock.stopped), Interrupt(listener.note, clock.paused, echoed=plan.ranks.launched) as interrupt:
            while True:
                loop = Loop(build(plan, ledger, clock, listener), interrupt)
                ended = _train_once(plan, loop, rollbacks)
                if isinstance(ended, str):
                    reason, all_here = ended, True
                    break
                if ended is None:
                    reason = "diverged"
                    raise diverged(_writable_dir(plan), loop, rollbacks.failed_at)
                loop.close()
                loop, plan = None, ended
                _free_memory(plan)
    except (FullError, RuntimeError, MemoryError) as error:
        if not isinstance(error, FullError) and not is_full(error):
            raise
        reason = "out_of_memory"
        raise _out_of_memory(plan, halvable=isinstance(error, FullError) and error.halvable) from None
    except CorruptedError as error:
        assert loop is not None, "only a loop looks for it"
        reason = "corrupted"
        said = corrupted(_writable_dir(plan), plan, loop, error)
        ledger.note(said.as_message(), error.step)
        raise said from None
    except KeyboardInterrupt:
        reason = "interrupted"
        raise
    finally:
        energy_kwh = _total_energy(monitor.stop(), plan.ranks if all_here else Ranks())
        newest, failure = _last_checkpoint(plan, loop, all_here=all_here)
        saved = None if newest is None or failure is None else step_of(newest.name)
        if reason == "finished" and loop is not None and failure is not None and saved != loop.iteration:
            reason = "error"
        wall_ms = None if loop is None else loop.close()
        closed_at = clock.now()
        ledger.append(EndEvent(reason, wall_ms and round(wall_ms, 3), energy_kwh, failure=failure, saved=saved))
    outcome = Outcome(
        reason=reason,
        iteration=loop.iteration,
        wall_ms=wall_ms or 0.0,
        ledger=str(ledger.path if plan.ranks.first else plan.out_dir / LEDGER_FILE),
        checkpoint=None if newest is None else str(newest),
        out_dir=None if newest is None or failure is None else str(newest.parent.parent),
        failure=failure,
        energy_kwh=energy_kwh,
        utilisation=loop.utilisation,
        measured_tflops=plan.measured_tflops,
        logging=_logging_share(clock),
    )
    return outcome, closed_at


def _train_once(plan: RunPlan, loop: Loop, rollbacks: Rollbacks) -> str | RunPlan | None:
    """How it ended, or the plan to restart with; None if it cannot continue."""
    try:
        return loop.run()
    except NotFiniteError as error:
        failed_at = error.failed_at
    return rollbacks.after(plan, loop, failed_at)  # outside: the error is gone, with everything it kept alive


def _free_memory(plan: RunPlan) -> None:
    """Free the old model and averages before the new ones are made: a card has no room for both."""
    if plan.kernels.value == "compiled":
        torch.compiler.reset()  # compiled code keeps its model alive
    make_room(plan.device)


def _writable_dir(plan: RunPlan) -> Path:
    """Where this run may write. If nowhere, the last directory, so that the write fails with its own error."""
    try:
        return plan.claim.writable_dir()
    except OSError:
        return plan.claim.run_dir


def _out_of_memory(plan: RunPlan, *, halvable: bool) -> UsageError:
    config = plan.config
    if halvable:
        return UsageError(
            "--batch_size={batch_size}: out of memory; halve it and double --gradient_accumulation_steps",
            batch_size=config.batch_size,
        )
    fitting = released_batch(config, plan.shape, plan.machine, plan.kernels.value)
    if fitting is not None:
        return UsageError(
            "--batch_size={batch_size}: out of memory, even with one sequence at a time; --batch_size={fitting} "
            "--gradient_accumulation_steps=1 keeps no gradients and should fit",
            batch_size=config.batch_size,
            fitting=fitting,
        )
    return UsageError(
        "--batch_size={batch_size}: out of memory, even with one sequence at a time; use a smaller model or a "
        "shorter --block_size",
        batch_size=config.batch_size,
    )


def _total_energy(energy_kwh: float | None, ranks: Ranks) -> float | None:
    """The energy of all cards; None if one card's is unknown."""
    total = float(ranks.exchange([math.nan if energy_kwh is None else energy_kwh]).sum())
    return None if math.isnan(total) else total


def _last_checkpoint(plan: RunPlan, loop: Loop | None, *, all_here: bool) -> tuple[Path | None, str | None]:
    """The newest checkpoint, and why out_dir lacks one of the last step; None if it has one."""
    unsaved, newest = (None, None) if loop is None else (loop.checkpoints.unsaved, loop.checkpoints.newest)
    if unsaved is None and not plan.claim.lost:
        return newest or (None if plan.resumed is None else plan.resumed.path), None
    failure = Message("{path}: another training run has taken it over", path=plan.out_dir)
    if unsaved is not None:
        failure = unsaved.complaint
    if loop is not None and all_here and plan.ranks.first and not loop.checkpoints.rescued:
        saved, _ = newest_intact(plan.claim.run_dir)  # look again: another run may have changed the directory
        newest = None if saved is None else saved.path
    return newest, failure


def _logging_share(clock: Clock) -> float:
    steps_ms = sum(clock.totals.get(phase, 0.0) for phase in STEP_PHASES)
    return clock.totals.get("logging", 0.0) / steps_ms if steps_ms > 0 else 0.0
