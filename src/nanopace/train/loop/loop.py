"""The training loop: steps and nothing but steps between two marks of the clock.

The host stays ahead of the card: it asks for a step's loss only when the card is done with that step, one or two steps
later, so that nobody waits for anybody. Evaluations and checkpoints come between steps and have their own time.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from nanopace.errors import InputError
from nanopace.ledger import CheckpointEvent, NoteEvent
from nanopace.train.checkpoint.best import BEST
from nanopace.train.checkpoint.rng_state import random_states
from nanopace.train.clock.step_events import LAST_SAVE, Bookkeeper
from nanopace.train.listener import SaveReport
from nanopace.train.loop.evaluation_report import eval_event, eval_report
from nanopace.train.loop.evidence import save_evidence
from nanopace.train.loop.interrupt import Interrupt
from nanopace.train.loop.last_save import WAITS, Unsaved, waited
from nanopace.train.loop.loss_watch import NotFiniteError
from nanopace.train.loop.parts import Parts
from nanopace.train.loop.schedule import learning_rate
from nanopace.train.loop.step_reports import IN_FLIGHT, Reporter
from nanopace.train.loop.stepper import Stepper
from nanopace.train.optim.optimizer import set_learning_rate


class Loop:
    def __init__(self, parts: Parts, interrupt: Interrupt) -> None:
        self._parts = parts
        self._config, self._clock, self._listener = parts.plan.config, parts.clock, parts.listener
        self._books = Bookkeeper(parts.clock, parts.ledger)
        self._reports = Reporter(parts, self._books, lambda: interrupt.asked)
        self._asked = lambda: interrupt.asked
        self._best = parts.best
        self._saved_step = parts.plan.saved_step  # a resumed step need not be saved again
        self._whole: Path | None = None  # the newest checkpoint on the disk
        self._failed: str | None = None
        self._unsaved: Unsaved | None = None  # the last save failed
        self._rescued = False
        self._save_is_due = False  # although it is not its turn: the last one was put off
        self._stepper = Stepper(parts, self._books)
        self._fed: deque[tuple[int, Tensor, Tensor]] = deque(maxlen=IN_FLIGHT + 1)  # the last steps' tokens
        self.iteration = parts.plan.first_step

    @property
    def newest_checkpoint(self) -> Path | None:
        return self._whole

    @property
    def micro_batch(self) -> int:
        """Sequences, as many as fitted so far."""
        return self._stepper.micro_batch

    @property
    def utilisation(self) -> float | None:
        return self._reports.utilisation

    @property
    def unsaved(self) -> Unsaved | None:
        """Why the last step has no checkpoint in out_dir, if it should have one."""
        return self._unsaved

    @property
    def rescued(self) -> bool:
        """It has one elsewhere."""
        return self._rescued

    def run(self) -> str:
        """Train to the end, or until somebody interrupts, and return which. NotFiniteError: it cannot go on."""
        with self._parts.batches:
            if not self._config.eval_only:
                self._stepper.warm_up()
            return self._train()

    def _train(self) -> str:
        with _garbage_later():
            self._clock.mark("startup", self.iteration, "garbage collection")
            if self._config.eval_only:
                self._evaluate(self.iteration)
            while not self._over:
                self._between_steps()
                self.step()
                self.iteration += 1
            self._end()
        return "interrupted" if self._reports.stopping else "finished"

    @property
    def _over(self) -> bool:
        return self._config.eval_only or self._reports.stopping or self.iteration > self._config.max_iters

    # --- the step ----------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One iteration, on the clock."""
        parts, step = self._parts, self.iteration
        rate = learning_rate(self._config, step)
        set_learning_rate(parts.optimizer, rate)
        inputs, targets = self._tokens()
        self._fed.append((step, inputs, targets))
        self._clock.mark("data", step)
        if parts.release is not None:
            self._wait_for_copies(step)
        loss = self._stepper.accumulate(step, inputs, targets)
        self._clock.mark("step", step)
        if parts.release is None:
            self._wait_for_copies(step)
        norm = self._stepper.update(loss)
        self._reports.add(step, loss, norm, rate)
        self._reports.tell()
        self._clock.mark("logging", step)
        self._check(step - IN_FLIGHT)

    def _wait_for_copies(self, step: int) -> None:
        """Of the last checkpoint's, which are made of the weights as they were then."""
        if self._parts.checkpointer.before_update():
            self._clock.mark("checkpoint", step)

    def _tokens(self) -> tuple[Tensor, Tensor]:
        try:
            return self._parts.batches.next()
        except InputError:  # the data is gone, and what was learned from it shall not be
            if self._parts.plan.ranks.size == 1:  # the others know nothing of it, and would not save
                self._save(self.iteration, anyway=True)
                self.close_saves(last=True)
            raise

    def _check(self, told: int) -> None:
        """Go back if there were too many faults up to the step `told`. Some know of later ones by now, but that much
        all ranks have been told, so that all of them go back after the same step."""
        failed_at = self._reports.watch.failed_at
        if failed_at is not None and failed_at <= told:
            raise NotFiniteError(failed_at)

    # --- between steps -----------------------------------------------------------------------------------------------

    def _between_steps(self) -> None:
        """Save first: a crash in the evaluation then costs nothing."""
        step, config = self.iteration, self._config
        evaluating = step % config.eval_interval == 0
        saving = step % config.save_interval == 0 if config.save_interval > 0 else evaluating  # below 0: nobody saves
        if (saving and config.always_save_checkpoint) or self._save_is_due:
            self._save(step)
        if evaluating:
            self._evaluate(step)
        self._collect_saves()

    def _save(self, step: int, *, anyway: bool = False) -> None:
        """Put off while steps are not finite: what training goes back to shall be good. `anyway`: there is no later."""
        if step in (0, self._saved_step) or self._config.eval_only:
            return
        self._listener.phase("checkpoint")
        self._reports.tell(0)  # the losses up to here belong into it
        self._clock.mark("logging", step)
        self._save_is_due = self._reports.watch.in_doubt and not anyway
        if self._save_is_due:
            self._listener.phase("step")
            return
        self._parts.checkpointer.save(step, self._state(step))
        self._saved_step = step
        self._clock.mark("checkpoint", step)
        self._listener.phase("step")

    def _state(self, step: int) -> dict[str, object]:
        parts = self._parts
        return {
            **parts.describe(step),
            **_random_states(parts),
            "scaler": parts.scaler.state_dict(),
            "best": self._best,
            "recent": list(self._reports.recent),
            "micro_batch": self._stepper.micro_batch,
            "data_offset": parts.plan.data_offset,
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
            validation = self._stepper.evaluate(step, parts.validation)
            second = None if parts.training is None else self._stepper.evaluate(step, parts.training).loss
        parts.model.train()
        self._clock.mark("evaluation", step).wait()
        self._books.settle()
        report = eval_report(
            step,
            validation,
            second,
            self._reports.recent,
            ms=self._books.evaluation_ms(step),
            best=None if self._best is None else self._best[1],
        )
        self._reports.recent.clear()
        parts.ledger.append(eval_event(report))
        self._listener.evaluated(report)
        if report.best:
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
        if news := self._parts.plan.claim.news():  # what was saved before may be out of reach
            self._save_is_due = self._parts.plan.ranks.size == 1 or self._save_is_due
        for text in (*news, *self._parts.checkpointer.notes()):
            self._note(text)
        for result in self._parts.checkpointer.results():
            if result.failure is not None:
                before, self._failed = self._failed, f"{result.path}: {result.failure}"
                if result.path.name != BEST:
                    self._unsaved = Unsaved(result.path, result.failure)
                if before is None:  # said once, until a save succeeds again
                    self._note(f"could not save {self._failed}; training goes on and tries again at the next save")
                continue
            self._failed, self._unsaved, self._whole = None, None, result.path
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
        if not self._reports.stopping:
            self._check(self.iteration)
        if not self._config.eval_only:
            self._save(self.iteration, anyway=True)
            recently = (self.iteration - 1) % self._config.eval_interval == 0
            if not self._reports.stopping and not recently:
                self._evaluate(self.iteration)
        self.close_saves(last=True)

    def close_saves(self, *, last: bool = False) -> None:
        """Wait until all checkpoints are whole, or failed, and tell of them. Nothing can be saved after that.

        `last`: nor will there be another chance."""
        self._reports.tell(0)
        self._clock.mark("other", self.iteration)
        self._parts.checkpointer.close()
        if last:
            self._try_again()
        self._clock.mark(LAST_SAVE, self.iteration)
        self._clock.finish()
        self._collect_saves()

    def _try_again(self) -> None:
        """If the last save failed. The first rank decides whether to, and all do: each may hold a part of it."""
        ranks, checkpointer = self._parts.plan.ranks, self._parts.checkpointer
        try:
            self._collect_saves()
            for wait in WAITS:
                if not ranks.share(self._unsaved is not None and waited(wait, self._asked)):
                    break
                checkpointer.again()
                self._collect_saves()
        except KeyboardInterrupt:  # one more Ctrl-C ends the attempts, wherever it comes
            if self._unsaved is None or ranks.size > 1:  # others may wait for this rank at another place
                raise
        elsewhere, missing = self._config.rescue_dir, self._unsaved
        if ranks.share(bool(elsewhere and missing is not None)):
            checkpointer.again(lambda: self._parts.plan.claim.rescue(Path(elsewhere)))
            self._collect_saves()
            self._rescued, self._unsaved = self._unsaved is None, missing

    def save_evidence(self, out_dir: Path, failed_at: int) -> Path:
        """What is known of the step that failed. All ranks have to call it, and the first one writes."""
        directory = out_dir / f"evidence-step-{failed_at}"
        inputs, targets = next((a, b) for step, a, b in self._fed if step == failed_at)
        save_evidence(directory, self._parts, self._stepper, self._reports.watch.last, failed_at, inputs, targets)
        return directory

    def close(self) -> float:
        """The books are closed; the wall clock of the process in ms."""
        self._clock.mark("other", self.iteration)
        self._clock.finish()
        self._books.close()
        return sum(self._clock.totals.values())


def _random_states(parts: Parts) -> dict[str, object]:
    """Of every rank: each draws its own dropout."""
    first, *others = parts.plan.ranks.gather(random_states(parts.plan.device))
    return {"random": first, "random_of_others": others} if others else {"random": first}


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
