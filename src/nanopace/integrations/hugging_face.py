"""nanopace's clock for the Trainer of Hugging Face's transformers.

    from nanopace.integrations.hugging_face import NanopaceCallback

    trainer = Trainer(model, args, train_dataset=..., callbacks=[NanopaceCallback()])

The Trainer calls most hooks when something is over. So the time since the previous hook counts as what just ended: an
evaluation, a save, logging, or the wait for the next step's batches. The Trainer does not report the loss of each step,
only the mean since it last logged. If that covers more than one step, the ledger says so in a note.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from transformers.trainer_callback import TrainerCallback

from nanopace.clock import Clock
from nanopace.clock.phases import Phase, Step
from nanopace.errors import Message
from nanopace.integrations.harmless import harmless
from nanopace.integrations.start import started_clock


class NanopaceCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Writes `ledger.jsonl` to the Trainer's output_dir, or to `path`. `facts` are arguments for the Clock."""

    def __init__(self, path: str | os.PathLike[str] | None = None, **facts: Any) -> None:
        self._path, self._facts = path, facts
        self._clock: Clock | None = None
        self._step: Step | None = None
        self._optimizer: Phase | None = None
        self._logged = 0  # steps done when the Trainer last logged
        self._tokens = 0  # tokens seen by then
        self._told_of_means = False

    @harmless
    def on_train_begin(self, args: Any, state: Any, control: Any, **of_trainer: Any) -> None:  # noqa: ARG002
        if self._clock is not None:
            self._clock.close(None)  # left from a training that failed
        self._clock = self._step = self._optimizer = None
        self._logged, self._tokens = state.global_step, getattr(state, "num_input_tokens_seen", 0)
        if not state.is_world_process_zero:
            return
        model = of_trainer.get("model")
        path = Path(args.output_dir) if self._path is None else self._path
        facts = {"trainer": "transformers", "resume": state.global_step, "config": _knobs(args, state, model)}
        self._clock = started_clock(path, model, facts, self._facts)

    @harmless
    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        if self._clock is not None:
            self._clock.passed(self._clock.phase("other"))

    @harmless
    def on_step_begin(self, *_: Any, **__: Any) -> None:
        if self._clock is not None:
            self._clock.passed(self._clock.data())
            self._step = self._clock.step()
            self._step.__enter__()

    @harmless
    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        if self._clock is not None:
            self._optimizer = self._clock.phase("optimizer")
            self._optimizer.__enter__()

    @harmless
    def on_optimizer_step(self, *_: Any, **__: Any) -> None:
        if self._optimizer is not None:
            self._optimizer.__exit__(None, None, None)

    @harmless
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        if self._step is not None:
            seen = getattr(state, "num_input_tokens_seen", 0)
            self._step.tokens = seen - self._tokens or None  # counted only if the arguments ask for it
            self._tokens = seen
            self._step.__exit__(None, None, None)

    @harmless
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:  # noqa: ARG002
        if self._clock is None or self._step is None or not logs or "loss" not in logs:
            return
        steps, self._logged = state.global_step - self._logged, state.global_step
        self._step.loss, self._step.lr = logs["loss"], logs.get("learning_rate")
        self._step.grad_norm = logs.get("grad_norm")
        if steps > 1 and not self._told_of_means:
            self._told_of_means = True
            self._clock.note(
                Message("each loss is the mean of the last {steps} steps, as the Trainer reports it", steps=steps)
            )
        self._clock.passed(self._clock.phase("logging"))

    @harmless
    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:  # noqa: ARG002
        if self._clock is not None:
            self._clock.passed(self._clock.evaluation(val=(metrics or {}).get("eval_loss")))

    @harmless
    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        if self._clock is not None:
            self._clock.passed(self._clock.checkpoint(Path(args.output_dir) / f"checkpoint-{state.global_step}"))

    @harmless
    def on_train_end(self, *_: Any, **__: Any) -> None:
        if self._clock is not None:
            self._clock.close()
        self._clock = None


def _knobs(args: Any, state: Any, model: Any) -> dict[str, object]:
    """The Trainer's arguments under nanoGPT's names, where both mean the same. Arguments left open are absent."""
    processes = getattr(args, "world_size", 1)
    precision = "bfloat16" if args.bf16 else "float16" if args.fp16 else getattr(model, "dtype", None)
    knobs: dict[str, object] = {
        "batch_size": args.per_device_train_batch_size * max(1, getattr(args, "n_gpu", 1)),
        "gradient_accumulation_steps": args.gradient_accumulation_steps * processes,
        "learning_rate": args.learning_rate,
        "max_iters": state.max_steps,
        "device": args.device.type,
    }
    if precision is not None:
        knobs["dtype"] = str(precision).removeprefix("torch.")
    if getattr(args, "torch_compile", False):
        knobs["compile"] = True  # if False, the model may still be compiled
    return knobs
