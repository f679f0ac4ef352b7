"""A step: forward and backward of every micro-batch, and the update of the weights.

Nothing here waits for the device. The device itself skips a step whose loss or gradient is not finite: the fused
optimizer reads a flag, as it does for GradScaler, and leaves weights, averages and its step count unchanged.

If memory is full, steps continue with the same sequences in smaller micro-batches: the same tokens and, except for
rounding, the same loss and gradient. No step is lost. This does not work with released gradients (step_in_backward.py):
the backward pass has already changed weights, and cannot be divided or repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from nanopace.errors import Message
from nanopace.ledger import EvalEvent, MicroBatchEvent
from nanopace.train.clock.step_events import ALONE, Bookkeeper
from nanopace.train.loop.evaluate import Evaluator
from nanopace.train.loop.parts import Parts
from nanopace.train.out_of_memory import FullError, attempt, make_room, smaller
from nanopace.train.plan.device import autocast
from nanopace.train.ranks import full_tensor

T = TypeVar("T")


class Stepper:
    """Does a step in micro-batches of as many sequences as fit."""

    def __init__(self, parts: Parts, books: Bookkeeper) -> None:
        self._parts, self._books, self._config = parts, books, parts.plan.config
        self._parameters = [each for each in parts.model.parameters() if each.requires_grad]
        self._fused = bool(parts.optimizer.defaults.get("fused"))
        self.autocast = autocast(parts.plan.config, parts.plan.device)
        self.micro_batch = parts.plan.micro_batch
        self.memory_steps = parts.plan.memory_steps.value  # with those taken since, because memory was full

    @property
    def _micro_steps(self) -> int:
        """This rank's micro-steps per step."""
        sequences = self._config.gradient_accumulation_steps // self._parts.plan.ranks.size * self._config.batch_size
        return sequences // self.micro_batch

    # --- the step ----------------------------------------------------------------------------------------------------

    def accumulate(self, step: int, inputs: Tensor, targets: Tensor) -> Tensor:
        """Forward and backward of every micro-batch. Returns their mean loss over all ranks."""
        if self._parts.host is not None:
            self._parts.host.bus.during("step", step)
        while (loss := attempt(lambda: self._accumulated(step, inputs, targets))) is None:
            # Other ranks are in the middle of this step and would wait forever; with released gradients, some layers
            # are already updated and cannot repeat it.
            if self._parts.plan.ranks.size > 1 or self._parts.release is not None:
                raise FullError(halvable=True)
            self._shrink("step", step)
        return self._parts.plan.ranks.average(loss)

    def update(self, step: int, loss: Tensor) -> Tensor:
        """Clip, step, and zero the gradients. Returns the norm before clipping. If that or the loss is not finite, the
        weights stay as they are."""
        parts = self._parts
        if parts.release is not None:  # the backward pass has done it
            return parts.release.norm
        if parts.host is not None:
            parts.host.bus.during("optimizer", step)
            norm = parts.host.update(loss)
            parts.host.bus.during("", step)  # an evaluation that waits for it is an evaluation
            return norm
        parts.passes.finish()
        if parts.scaler.is_enabled():  # it only checks gradients, so a loss that is not finite is added to one
            gradient = self._parameters[0].grad
            assert gradient is not None, "every weight has a gradient after a backward pass"
            gradient.add_(loss * 0)
        parts.scaler.unscale_(parts.optimizer)
        norm = get_total_norm([each.grad for each in self._parameters if each.grad is not None])
        if self._config.grad_clip:
            clip_grads_with_norm_(self._parameters, self._config.grad_clip, norm)
        norm = full_tensor(norm)
        self._step(loss + norm)
        parts.passes.zero_grad()
        parts.passes.refresh_copies()
        return norm

    def _step(self, finite_or_not: Tensor) -> None:
        optimizer, scaler = self._parts.optimizer, self._parts.scaler
        if scaler.is_enabled():
            scaler.step(optimizer)
            scaler.update()
        elif self._fused:
            optimizer.found_inf = (~torch.isfinite(finite_or_not)).float()  # type: ignore[attr-defined]
            optimizer.step()
            del optimizer.found_inf  # type: ignore[attr-defined]
        elif torch.isfinite(finite_or_not):  # here the host has to wait
            optimizer.step()

    def _accumulated(self, step: int, inputs: Tensor, targets: Tensor) -> Tensor:
        parts = self._parts
        inputs, targets = (each.view(-1, self.micro_batch, each.size(-1)) for each in (inputs, targets))
        count = len(inputs)
        total = torch.zeros((), device=parts.plan.device)
        for number, (micro_inputs, micro_targets) in enumerate(zip(inputs, targets, strict=True), start=1):
            last = number == count  # the ranks sync in its backward pass
            meet = partial(parts.clock.mark, "step", step, ALONE) if last and parts.plan.ranks.size > 1 else None
            with nullcontext() if last else parts.parallel.no_sync():
                total += parts.passes(micro_inputs, micro_targets, count, meet)
        return total / count

    # --- before the first one ----------------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Compile and allocate before the first step, on meaningless tokens, without changing anything."""
        parts, step = self._parts, self._parts.plan.first_step
        parts.listener.phase("compile")
        phase = "compile" if self._config.compile else "startup"
        if not self._fits():
            self._shrink("startup", step)
        parts.clock.mark(phase, step, "training step").wait()
        parts.model.eval()
        with torch.no_grad(), self.autocast, _same_random_numbers(parts.plan.device):
            self._evaluating(step, parts.validation, parts.validation.warm_up)
        parts.model.train()
        parts.clock.mark(phase, step, "evaluation").wait()
        self._books.drain_clock()
        parts.listener.phase("step")

    def _fits(self) -> bool:
        """Whether one micro-batch fits in memory on every rank."""
        fits = attempt(self._rehearse)
        self._give_up_if_sharded(fits)
        self._parts.passes.zero_grad()
        return bool(self._parts.plan.ranks.exchange([bool(fits)]).all())

    def _rehearse(self) -> bool:
        parts = self._parts
        tokens = torch.zeros((self.micro_batch, self._config.block_size), dtype=torch.long, device=parts.plan.device)
        targets = tokens.clone()  # not the same tensor, or compiled code would assume that
        with _same_random_numbers(parts.plan.device), parts.parallel.rehearsing():
            parts.passes(tokens, targets, self._micro_steps)
            captured = parts.passes.capture_graph(tokens, targets, self._micro_steps)
        if captured is not None:
            parts.ledger.note(captured, parts.plan.first_step)
        return True

    # --- when memory is full -----------------------------------------------------------------------------------------

    def _shrink(self, where: str, step: int) -> None:
        """Save more memory, then make micro-batches smaller, until one fits. The time does not count as the step's."""
        parts, config = self._parts, self._config
        fits, before = False, self.micro_batch
        while not fits:
            parts.passes.zero_grad()
            saving = parts.passes.climb()
            make_room(parts.plan.device)
            if saving is None:
                if parts.release is not None:  # a step is one micro-batch
                    raise FullError(halvable=True)
                less = smaller(self.micro_batch)
                if less is None:
                    raise FullError
                self.micro_batch = less
            else:
                self.memory_steps = (*self.memory_steps, saving)
                said = Message("step {step}: out of memory; from now on '{part}' is recomputed", step=step, part=saving)
                parts.ledger.note(said, step)
            parts.clock.mark("other", step)
            fits = self._fits()
            parts.clock.mark("compile" if config.compile else "other", step, "smaller micro-batches")
        if self.micro_batch == before:
            return
        accumulation = config.gradient_accumulation_steps * config.batch_size // self.micro_batch
        parts.ledger.append(MicroBatchEvent(step, self.micro_batch, accumulation, where))
        parts.ledger.note(
            Message(
                "step {step}: out of memory; from now on {count} micro-batches of {size} instead of {before} of "
                "{batch_size}: the same tokens, the same loss",
                step=step,
                count=accumulation,
                size=self.micro_batch,
                before=config.gradient_accumulation_steps,
                batch_size=config.batch_size,
            ),
            step,
        )

    def evaluate(self, step: int, evaluator: Evaluator) -> EvalEvent:
        return self._evaluating(step, evaluator, lambda: evaluator.evaluate(step))

    def _evaluating(self, step: int, evaluator: Evaluator, do: Callable[[], T]) -> T:
        """Halve the evaluator's batches until they fit. Losses are per window, so none of them changes."""
        while (done := attempt(do)) is None:
            self._give_up_if_sharded(done)
            make_room(self._parts.plan.device)
            batch_size = evaluator.halve()
            if batch_size is None:
                raise FullError
            accumulation = self._config.gradient_accumulation_steps * self._config.batch_size // self.micro_batch
            self._parts.ledger.append(MicroBatchEvent(step, batch_size, accumulation, "evaluation"))
            said = Message(
                "step {step}: out of memory; evaluations continue in batches of {size}", step=step, size=batch_size
            )
            self._parts.ledger.note(said, step)
        return done

    def _give_up_if_sharded(self, done: object) -> None:
        """The ranks sync in every layer, and one that waits inside a layer cannot be told to start over."""
        if done is None and self._parts.parallel.sharded:
            raise FullError(halvable=True)


def _same_random_numbers(device: torch.device) -> AbstractContextManager[None]:
    """Random draws inside this context do not affect later ones."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
