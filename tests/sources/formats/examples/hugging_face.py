"""A small log of each format of the Hugging Face family, as its trainer writes it."""

from __future__ import annotations

import json
import math


def _loss(step: int) -> float:
    return round(1.5 + 4 * math.exp(-step / 60), 4)


_MEAN = round(sum(_loss(step) for step in range(10, 130, 10)) / 12, 4)  # each is the mean of ten steps


def _trainer_state() -> str:
    history: list[dict[str, object]] = []
    for step in range(10, 130, 10):
        history.append(
            {"epoch": step / 100, "grad_norm": 1.25, "learning_rate": 5e-05, "loss": _loss(step), "step": step}
        )
        if step % 40 == 0:
            history.append({"epoch": step / 100, "eval_loss": _loss(step) + 0.1, "eval_runtime": 2.5, "step": step})
    history.append({"epoch": 1.2, "step": 120, "total_flos": 1e12, "train_loss": _MEAN, "train_runtime": 46.7})
    state = {"best_metric": None, "epoch": 1.2, "eval_steps": 40, "global_step": 120, "is_local_process_zero": True}
    state |= {"log_history": history, "logging_steps": 10, "max_steps": 120, "num_input_tokens_seen": 0}
    state |= {"stateful_callbacks": {"TrainerControl": {"args": {"should_save": True}, "attributes": {}}}}
    return json.dumps(state, indent=2)


def bar(step: int, total: int, seconds: float, rate: str = " 1.30s/it") -> str:
    """tqdm's bar, drawn once."""
    clock = f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
    return f"{100 * step // total:3d}%|{'█' * (10 * step // total):10s}| {step}/{total} [{clock}<00:10, {rate}]"


def _console() -> str:
    text, seconds = "Loading weights: 100%|██████████| 25/25 [00:01<00:00, 21.50it/s]\n\r" + bar(0, 120, 0), 0.0
    for step in range(1, 121):
        seconds += 1.3
        text += "\r" + bar(step, 120, seconds)
        if step % 10 == 0:
            entry = {"loss": _loss(step), "grad_norm": 1.25, "learning_rate": 5e-05, "epoch": step / 100}
            text += f"\r{' ' * 50}\r{entry}\n\r" + bar(step, 120, seconds)
        if step % 40 == 0:
            seconds += 2.5
            entry = {"eval_loss": _loss(step) + 0.1, "eval_runtime": 2.5, "epoch": step / 100}
            text += "\n\r" + bar(7, 7, 2.5, " 2.80it/s") + f"\x1b[A\r{' ' * 50}\r{entry}\n\r" + bar(step, 120, seconds)
    return text + "\r" + str({"train_runtime": round(seconds, 2), "train_loss": _MEAN, "epoch": 1.2}) + "\n"


def _llama_factory() -> str:
    lines, seconds = [], 5.0
    for step in range(10, 250, 10):
        seconds += 13
        entry: dict[str, object] = {"current_steps": step, "total_steps": 240, "loss": _loss(step), "lr": 5e-05}
        lines.append(entry | _progress(step, seconds))
        if step % 80 == 0:
            seconds += 25
            entry = {"current_steps": step, "total_steps": 240, "eval_loss": _loss(step) + 0.1}
            lines.append(entry | _progress(step, seconds))
    lines.append({"current_steps": 240, "total_steps": 240} | _progress(240, seconds))
    return "".join(json.dumps(line) + "\n" for line in lines)


def _progress(step: int, seconds: float) -> dict[str, object]:
    elapsed = f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02d}:{int(seconds) % 60:02d}"
    share = round(100 * step / 240, 2)
    return {"epoch": step / 100, "percentage": share, "elapsed_time": elapsed, "remaining_time": "0:01:00"}


def _table() -> str:
    text = "\n[120/120 02:44, Epoch 1/2]\nStep\tTraining Loss\tValidation Loss\n"
    text += "".join(f"{step}\t{_loss(step):.6f}\t{_loss(step) + 0.1:.6f}\n" for step in range(10, 130, 10))
    metrics = {"train_runtime": 166.25, "train_steps_per_second": 0.72, "train_loss": _MEAN, "epoch": 1.2}
    return text + f"TrainOutput(global_step=120, training_loss={_MEAN}, metrics={metrics})\n"


EXAMPLES: dict[str, str | bytes] = {
    "hf_trainer_state": _trainer_state(),
    "hf_console": _console(),
    "llama_factory": _llama_factory(),
    "hf_table": _table(),
}
