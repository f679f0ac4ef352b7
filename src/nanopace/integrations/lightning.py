"""nanopace's clock for Lightning's Trainer.

    from nanopace.integrations.lightning import NanopaceCallback

    trainer = Trainer(..., callbacks=[NanopaceCallback()])

A step is an optimizer step with all its accumulated micro-batches. The time between two micro-batches counts as waiting
for data; the hooks do not tell more. Saving has no hook at its end, so `trainer.save_checkpoint` is wrapped during a
fit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nanopace.clock import Clock
from nanopace.clock.phases import Phase, Step
from nanopace.integrations.harmless import harmless
from nanopace.integrations.start import started_clock

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback
elif "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning.callbacks import Callback  # a Trainer only takes callbacks from its own package
else:
    from lightning.pytorch.callbacks import Callback

_PRECISIONS = {
    "32": "float32",
    "32-true": "float32",
    "bf16-mixed": "bfloat16",
    "bf16-true": "bfloat16",
    "16-mixed": "float16",
    "16-true": "float16",
}


class NanopaceCallback(Callback):
    """Writes `ledger.jsonl` to the Trainer's default_root_dir, or to `path`.

    `val`: the name under which the module logs its validation loss. `facts` are arguments for the Clock.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, val: str = "val_loss", **facts: Any) -> None:
        self._path, self._val, self._facts = path, val, facts
        self._clock: Clock | None = None
        self._step: Step | None = None  # the current step
        self._between: Phase | None = None  # the wait between two of its micro-batches
        self._evaluation: Any = None
        self._done = 0  # optimizer steps done
        self._unwrap: Callable[[], object] | None = None

    @harmless
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._end(None)  # left from a fit that failed
        self._done = trainer.global_step
        if not trainer.is_global_zero:
            return
        path = trainer.default_root_dir if self._path is None else self._path
        facts = {"trainer": "lightning", "resume": trainer.global_step, "config": _knobs(trainer)}
        self._clock = started_clock(path, pl_module, facts, self._facts)
        self._wrap_saving(trainer)

    @harmless
    def on_train_batch_start(self, *_: Any) -> None:
        if self._clock is None:
            return
        if self._between is not None:
            self._between.__exit__(None, None, None)
            self._between = None
        if self._step is None:
            self._clock.passed(self._clock.data())
            self._step = self._clock.step()
            self._step.__enter__()

    @harmless
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:  # noqa: ARG002
        if self._clock is None or self._step is None:
            return
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:  # Lightning has divided it by the number of micro-batches
            self._step.loss = loss if self._step.loss is None else self._step.loss + loss
        if trainer.global_step > self._done:
            self._done = trainer.global_step
            if trainer.optimizers:
                self._step.lr = trainer.optimizers[0].param_groups[0].get("lr")
            self._step.__exit__(None, None, None)
            self._step = None
        else:
            self._between = self._clock.data()
            self._between.__enter__()

    @harmless
    def on_validation_start(self, *_: Any) -> None:
        if self._clock is not None:
            if self._between is not None:
                self._between.__exit__(None, None, None)
            self._evaluation = self._clock.evaluation()
            self._evaluation.__enter__()

    @harmless
    def on_validation_end(self, trainer: Any, *_: Any) -> None:
        if self._evaluation is not None:
            self._evaluation.val = trainer.callback_metrics.get(self._val)
            self._evaluation.__exit__(None, None, None)
            self._evaluation = None

    @harmless
    def on_train_epoch_end(self, *_: Any) -> None:
        if self._clock is not None:
            self._clock.passed(self._clock.phase("other"))

    @harmless
    def on_train_end(self, *_: Any) -> None:
        self._end("finished")

    @harmless
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:  # noqa: ARG002
        if self._clock is not None:
            self._clock.__exit__(type(exception), exception, None)
        self._end(None)

    @harmless
    def teardown(self, *_: Any, **__: Any) -> None:
        self._end(None)

    def _end(self, reason: str | None) -> None:
        if self._unwrap is not None:
            self._unwrap()
        if self._clock is not None:
            self._clock.close(reason)
        self._clock = self._step = self._between = self._evaluation = self._unwrap = None

    def _wrap_saving(self, trainer: Any) -> None:
        clock, save = self._clock, trainer.save_checkpoint
        assert clock is not None

        def timed(filepath: Any, *args: Any, **kwargs: Any) -> Any:
            with clock.checkpoint(filepath):
                return save(filepath, *args, **kwargs)

        trainer.save_checkpoint = timed
        self._unwrap = lambda: trainer.__dict__.pop("save_checkpoint", None)


def _knobs(trainer: Any) -> dict[str, object]:
    """The Trainer's arguments under nanoGPT's names, where both mean the same."""
    knobs: dict[str, object] = {
        "gradient_accumulation_steps": trainer.accumulate_grad_batches * trainer.world_size,
        "device": trainer.strategy.root_device.type,
    }
    if trainer.max_steps > 0:
        knobs["max_iters"] = trainer.max_steps
    if (precision := _PRECISIONS.get(str(trainer.precision))) is not None:
        knobs["dtype"] = precision
    return knobs
