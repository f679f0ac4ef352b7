"""The training loop: steps and nothing but steps between two marks of the clock.

The host stays ahead of the card: it asks for a step's loss only when the card is done with that step, one or two steps
later, so that nobody waits for anybody. Evaluations and checkpoints come between steps and have their own time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from nanopace.ledger import CheckpointEvent, EvalEvent, NoteEvent
from nanopace.train.bookkeeping import LAST_SAVE, Bookkeeper
from nanopace.train.evaluate import Estimate
from nanopace.train.interrupt import Interrupt
from nanopace.train.listener import EvalReport, SaveReport
from nanopace.train.optimizer import set_learning_rate
from nanopace.train.parts import Parts
from nanopace.train.randomness import random_states
from nanopace.train.reporting import Reporter
from nanopace.train.schedule import learning_rate
from nanopace.train.stepper import Stepper


class Loop:
    def __init__(self, parts: Parts, interrupt: Interrupt) -> None:
        self._parts, self._interrupt = parts, interrupt
        self._config, self._clock, self._listener = parts.config, parts.clock, parts.listener
        self._books = Bookkeeper(parts.clock, parts.ledger)
        self._reports = Reporter(parts, self._books)
        self._best = parts.best
        self._saved_step = parts.first_step if parts.first_step else None  # a resumed step need not be saved again
        self._whole: Path | None = None  # the newest checkpoint on the disk
        self._failed: str | None = None
        self._stepper = Stepper(parts, self._books)
        self.iteration = parts.first_step

    @property
    def newest_checkpoint(self) -> Path | None:
        return self._whole

    @property
    def failure(self) -> str | None:
        """Why the newest checkpoint could not be written, if it could not."""
        return self._failed

    def run(self) -> str:
        """Train to the end, or until somebody interrupts. Returns which."""
        self._stepper.warm_up()
        with _garbage_later():
            self._clock.mark("startup", self.iteration, "garbage collection")
            while self.iteration <= self._config.max_iters and not self._interrupt.asked:
                self._between_steps()
                if self._config.eval_only:
                    break
                self.step()
                self.iteration += 1
            self._end()
        return "interrupted" if self._interrupt.asked else "finished"

    # --- the step ----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One iteration, on the clock."""
        parts, step = self._parts, self.iteration
        rate = learning_rate(self._config, step)
        set_learning_rate(parts.optimizer, rate)
        inputs, targets = parts.batches.next()
        self._clock.mark("data", step)
        loss = self._stepper.accumulate(inputs, targets)
        self._clock.mark("step", step)
        if parts.checkpointer.before_update():
            self._clock.mark("checkpoint", step)
        norm = self._stepper.update()
        self._reports.add(step, loss, norm, rate)
        self._reports.tell()
        self._clock.mark("logging", step)

    # --- between steps -----------------------------------------------------------------------------------------------

    def _between_steps(self) -> None:
        """Save first: a crash in the evaluation then costs nothing."""
        step, config = self.iteration, self._config
        evaluating = step % config.eval_interval == 0
        saving = step % config.save_interval == 0 if config.save_interval else evaluating
        if saving and config.always_save_checkpoint:
            self._save(step)
        if evaluating:
            self._evaluate(step)
        self._collect_saves()

    def _save(self, step: int) -> None:
        if step in (0, self._saved_step):
            return
        self._listener.phase("checkpoint")
        self._reports.tell(0)  # the losses up to here belong into it
        self._clock.mark("logging", step)
        self._parts.checkpointer.save(step, self._state(step))
        self._saved_step = step
        self._clock.mark("checkpoint", step)
        self._listener.phase("step")

    def _state(self, step: int) -> dict[str, object]:
        parts = self._parts
        return {
            **parts.describe(step),
            "random": random_states(parts.device),
            "scaler": parts.scaler.state_dict(),
            "best": self._best,
            "recent": list(self._reports.recent),
            "validation": parts.validation.state(),
            "training": None if parts.training is None else parts.training.state(),
        }

    def _evaluate(self, step: int) -> None:
        self._listener.phase("evaluation")
        self._reports.tell(0)
        self._clock.mark("logging", step)
        parts = self._parts
        parts.model.eval()
        with torch.no_grad(), self._stepper.autocast:
            validation = parts.validation.evaluate()
            second = None if parts.training is None else parts.training.evaluate().loss
        parts.model.train()
        self._clock.mark("evaluation", step).wait()
        self._books.settle()
        best = self._best is None or validation.loss.mean < self._best[1]
        train = second or (Estimate.of(np.array(self._reports.recent)) if self._reports.recent else None)
        report = EvalReport(
            iteration=step,
            val=validation.loss.mean,
            val_error=validation.loss.error,
            windows=validation.loss.count,
            ms=self._books.evaluation_ms(step),
            train=None if train is None else train.mean,
            train_error=None if train is None else train.error,
            train_steps=None if train is None or second is not None else train.count,
            bits_per_byte=validation.bits_per_byte,
            change=None if validation.change is None else validation.change.mean,
            change_error=None if validation.change is None else validation.change.error,
            best=best,
        )
        self._reports.recent.clear()
        parts.ledger.append(_eval_event(report))
        self._listener.evaluated(report)
        if best:
            self._keep_best(step, report.val)
        gc.collect()
        self._clock.mark("other", step)
        self._listener.phase("step")

    def _keep_best(self, step: int, loss: float) -> None:
        self._best = (step, loss)
        if not self._config.always_save_checkpoint:
            self._save(step)
        if step == self._saved_step:
            self._parts.checkpointer.mark_best(step, loss)

    def _collect_saves(self) -> None:
        """Tell of the checkpoints that are whole by now, or failed."""
        for result in self._parts.checkpointer.results():
            if result.failure is not None:
                self._failed = f"{result.path}: {result.failure}"
                self._note(f"could not save {self._failed}; training goes on and tries again at the next save")
                continue
            self._failed, self._whole = None, result.path
            self._books.settle()
            stall = self._books.checkpoint_ms(result.step)
            report = SaveReport(
                iteration=result.step,
                path=str(result.path),
                stall_ms=stall,
                background_ms=result.background_ms,
                bytes=result.bytes,
            )
            self._parts.ledger.append(
                CheckpointEvent(
                    result.step, str(result.path), round(stall, 4), round(result.background_ms, 3), result.bytes
                )
            )
            self._listener.saved(report)

    def _note(self, text: str) -> None:
        """Something that a person should see, now and in the ledger."""
        self._parts.ledger.append(NoteEvent(text, self.iteration))
        self._listener.note(text)

    # --- the end ------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """The last steps' rows, a last checkpoint, a last evaluation unless there was one a step ago."""
        self._reports.tell(0)
        self._clock.mark("logging", self.iteration)
        if not self._config.eval_only:
            self._save(self.iteration)
            recently = (self.iteration - 1) % self._config.eval_interval == 0
            if not self._interrupt.asked and not recently:
                self._evaluate(self.iteration)
        self._clock.mark("other", self.iteration)
        self._parts.checkpointer.close()
        self._clock.mark(LAST_SAVE, self.iteration)
        self._clock.finish()
        self._collect_saves()

    def close(self) -> float:
        """The books are closed; the wall clock of the process in ms."""
        self._clock.mark("other", self.iteration)
        self._clock.finish()
        self._books.close()
        return sum(self._clock.totals.values())


def _eval_event(report: EvalReport) -> EvalEvent:
    return EvalEvent(
        report.iteration,
        report.train,
        report.val,
        ms=round(report.ms, 4),
        val_error=report.val_error,
        train_error=report.train_error,
        train_steps=report.train_steps,
        windows=report.windows,
        bits_per_byte=report.bits_per_byte,
        change=report.change,
        change_error=report.change_error,
    )


@contextmanager
def _garbage_later() -> Iterator[None]:
    """No collection in a step: what is there now is kept for good, and the rest is collected after evaluations."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
