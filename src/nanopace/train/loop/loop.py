"""The training loop. A step's time contains nothing but the step.

The host stays ahead of the card: it reads a step's loss only after the card has finished that step, one or two steps
later, so that neither waits for the other. Evaluations and checkpoints come between steps and are timed separately.
"""

from __future__ import annotations

import gc
import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from nanopace.errors import InputError, Message
from nanopace.ledger import SampleEvent
from nanopace.train.checkpoint.rng_state import random_states
from nanopace.train.clock.step_events import Bookkeeper
from nanopace.train.loop.corruption import CorruptedError, CorruptionWatch, save_corruption
from nanopace.train.loop.evaluate import with_train_loss
from nanopace.train.loop.evidence import save_evidence
from nanopace.train.loop.interrupt import Interrupt
from nanopace.train.loop.loss_watch import NotFiniteError
from nanopace.train.loop.parts import Parts
from nanopace.train.loop.samples import write_sample
from nanopace.train.loop.saves import CheckpointManager
from nanopace.train.loop.schedule import learning_rate
from nanopace.train.loop.step_reports import IN_FLIGHT, StepReports
from nanopace.train.loop.stepper import Stepper
from nanopace.train.optim.optimizer import set_learning_rate
from nanopace.train.out_of_memory import attempt, make_room


class Loop:
    def __init__(self, parts: Parts, interrupt: Interrupt) -> None:
        def stop_asked() -> bool:
            return interrupt.asked

        self._parts = parts
        self._config, self._clock, self._listener = parts.plan.config, parts.clock, parts.listener
        self._books = Bookkeeper(parts.clock, parts.ledger)
        self._reports = StepReports(parts, self._books, stop_asked)
        self._stepper = Stepper(parts, self._books)
        self._corruption = CorruptionWatch(parts)
        self._best = parts.best
        self._last_batches: deque[tuple[int, Tensor, Tensor]] = deque(maxlen=IN_FLIGHT + 1)
        self.checkpoints = CheckpointManager(parts, self._books, self._reports, self._state, stop_asked)
        self.iteration = parts.plan.first_step

    @property
    def micro_batch(self) -> int:
        """Sequences in a micro-batch: as many as have fitted so far."""
        return self._stepper.micro_batch

    @property
    def utilisation(self) -> float | None:
        return self._reports.utilisation

    def run(self) -> str:
        """Train until the end or an interrupt, and return which. NotFiniteError if training cannot continue."""
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
        inputs, targets = self._next_batch()
        self._last_batches.append((step, inputs, targets))
        self._clock.mark("data", step)
        if self._corruption.due(step):
            self._corruption.look(step)
            self._corruption.compute_twice(step, inputs, targets, self._stepper.micro_batch)
        if parts.release is not None:
            self._wait_for_copies(step)
        loss = self._stepper.accumulate(step, inputs, targets)
        self._clock.mark("step", step)
        if parts.release is None:
            self._wait_for_copies(step)
        self._corruption.before_update(step)
        norm = self._stepper.update(step, loss)
        self._corruption.after_update()
        self._reports.add(step, loss, norm, rate)
        self._reports.report()
        self._clock.mark("logging", step)
        self._check(step - IN_FLIGHT)

    def _next_batch(self) -> tuple[Tensor, Tensor]:
        try:
            return self._parts.batches.next()
        except InputError:  # the data is gone: keep what was learned from it
            if self._parts.plan.ranks.size == 1:  # other ranks do not know, and would not save
                self._save(self.iteration, anyway=True)
                self.close_checkpoints(last=True)
            raise

    def _wait_for_copies(self, step: int) -> None:
        """The last checkpoint may still be copying the weights, so wait before they change."""
        if self._parts.checkpointer.before_update():
            self._clock.mark("checkpoint", step)

    def _check(self, reported: int) -> None:
        """Raise NotFiniteError if there were too many faults up to step `reported`. Some ranks may know of later ones,
        but all have the reports up to that step, so all roll back after the same one."""
        failed_at = self._reports.watch.failed_at
        if failed_at is not None and failed_at <= reported:
            raise NotFiniteError(failed_at)

    # --- between steps -----------------------------------------------------------------------------------------------

    def _between_steps(self) -> None:
        """Save before evaluating, so that a crash in the evaluation costs nothing."""
        step, config = self.iteration, self._config
        evaluating = step % config.eval_interval == 0
        saving = step % config.save_interval == 0 if config.save_interval > 0 else evaluating  # below 0: none is saved
        if (saving and config.always_save_checkpoint) or self.checkpoints.due:
            self._save(step)
        if evaluating:
            self._evaluate(step)
        if config.sample_interval and step % config.sample_interval == 0:
            self._sample(step)
        self.checkpoints.collect(step)

    def _evaluate(self, step: int) -> None:
        parts = self._parts
        self._listener.phase("evaluation")
        self._reports.report(0)
        self._clock.mark("logging", step)
        parts.model.eval()
        with torch.no_grad(), self._stepper.autocast:
            event = self._stepper.evaluate(step, parts.validation)
            second = None if parts.training is None else self._stepper.evaluate(step, parts.training)
        parts.model.train()
        self._clock.mark("evaluation", step).wait()
        self._books.drain_clock()
        event = with_train_loss(event, second, self._reports.recent)
        self._reports.recent.clear()
        parts.ledger.append(replace(event, ms=round(self._books.evaluation_ms(step), 4)))
        if event.val is not None and self._is_best(event.val):
            self._record_best(step, event.val)
        gc.collect()
        self._clock.mark("other", step)
        self._listener.phase("step")

    def _sample(self, step: int) -> None:
        """Only the first rank writes a text. The others wait for it here, not in their next step."""
        parts, tokenizer = self._parts, self._parts.plan.corpus.tokenizer
        self._listener.phase("sample")
        self._reports.report(0)
        self._clock.mark("logging", step)
        text: str | None = ""
        if parts.plan.ranks.first and tokenizer is not None:
            with nullcontext() if parts.host is None else parts.host.model_on_host():
                text = attempt(lambda: write_sample(parts.model, tokenizer, self._config.seed))
        if text is None:
            make_room(parts.plan.device)
            parts.ledger.note(Message("step {step}: no sample, since memory is full", step=step), step)
        elif text:
            parts.ledger.append(SampleEvent(step, text))
        parts.plan.ranks.wait()
        self._clock.mark("sample", step)
        self._listener.phase("step")

    def _is_best(self, loss: float) -> bool:
        return math.isfinite(loss) and (self._best is None or loss < self._best[1])

    def _record_best(self, step: int, loss: float) -> None:
        self._best = (step, loss)
        if not self._config.always_save_checkpoint:
            self._save(step)
        if step == self.checkpoints.step:
            self._parts.checkpointer.mark_best(step, loss)

    def _save(self, step: int, *, anyway: bool = False) -> None:
        """A checkpoint must not contain what check_every would find."""
        self._corruption.look(step)
        self.checkpoints.save(step, anyway=anyway)

    def _state(self, step: int) -> dict[str, object]:
        """What a checkpoint holds in addition to weights and optimizer."""
        parts = self._parts
        return {
            **parts.describe(step),
            **_random_states(parts),
            "scaler": parts.scaler.state_dict(),
            "best": self._best,
            "recent": list(self._reports.recent),
            "micro_batch": self._stepper.micro_batch,
            "memory_steps": list(self._stepper.memory_steps),
            "data_offset": parts.plan.data_offset,
            "validation": parts.validation.state(),
            "training": None if parts.training is None else parts.training.state(),
        }

    # --- the end ------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Report the last steps, save a last checkpoint, and evaluate unless the previous step did."""
        self._reports.report(0)
        self._clock.mark("logging", self.iteration)
        if not self._reports.stopping:
            self._check(self.iteration)
        if not self._config.eval_only:
            self._save(self.iteration, anyway=True)
            recently = (self.iteration - 1) % self._config.eval_interval == 0
            if not self._reports.stopping and not recently:
                self._evaluate(self.iteration)
            every = self._config.sample_interval
            if every and not self._reports.stopping and (self.iteration - 1) % every:
                self._sample(self.iteration)
        self.close_checkpoints(last=True)

    def close_checkpoints(self, *, last: bool = False) -> None:
        self.checkpoints.close(self.iteration, last=last)

    def save_evidence(self, out_dir: Path, failed_at: int) -> Path:
        """Save what is known about the failed step. All ranks have to call it; the first one writes."""
        directory = out_dir / f"evidence-step-{failed_at}"
        inputs, targets = next((a, b) for step, a, b in self._last_batches if step == failed_at)
        save_evidence(directory, self._parts, self._stepper, self._reports.watch.last, failed_at, inputs, targets)
        return directory

    def save_corruption(self, out_dir: Path, error: CorruptedError) -> Path:
        directory = out_dir / f"evidence-step-{error.step}"
        if self._parts.plan.ranks.first:
            save_corruption(directory, self._parts, error)
        return directory

    def close(self) -> float:
        """Write what is left to the ledger. Returns the process's wall clock in ms."""
        self._clock.mark("other", self.iteration)
        self._clock.finish()
        self._books.close()
        return sum(self._clock.totals.values())


def _random_states(parts: Parts) -> dict[str, object]:
    """The random states of all ranks, because each draws its own dropout."""
    first, *others = parts.plan.ranks.gather(random_states(parts.plan.device))
    return {"random": first, "random_of_others": others} if others else {"random": first}


@contextmanager
def _garbage_later() -> Iterator[None]:
    """Avoid garbage collection during steps: freeze existing objects, and collect the rest after evaluations."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
