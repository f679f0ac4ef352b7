"""What the Trainer prints, with tqdm itself and a made-up clock: bars at once, dicts when a buffer is flushed."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import pytest

tqdm_std = pytest.importorskip("tqdm.std")

FIRST_LOSS = 9.0


def loss_of(step: int) -> float:
    """Another one for every step, so that a row shows which dict it is of."""
    return round(FIRST_LOSS - step / 4096, 6)


@dataclass(frozen=True, slots=True)
class Training:
    """A process. What it logs at a step, it prints as a dict."""

    total: int = 60
    logging_steps: int = 5
    eval_steps: int = 0
    save_steps: int = 0
    eval_batches: int = 3
    batch_s: float = 0.07  # of an evaluation
    eval_on_start: bool = False
    logs_more: bool = False  # compute_loss logs as well, before the bar shows the step
    per_epoch: float = 100.0  # steps
    step_s: float = 1.0
    first: int = 0  # the step it resumes from
    killed_at: int = 0  # this step
    version: int = 5
    buffer: int = 8192  # characters of standard output; 0: none
    cuts: bool = False  # a dict where the buffer is full, as Python did up to 3.7
    flushed_at: frozenset[int] = frozenset()  # steps, by something else

    def with_(self, **changes: Any) -> Training:
        return replace(self, **changes)

    def epoch(self, step: int) -> object:
        exact = step / self.per_epoch if step else 0
        return round(exact, 2) if self.version == 4 else f"{exact:.4g}"


class Console(io.StringIO):
    """The file that both streams are written to."""


class Stdout:
    encoding = "utf-8"

    def __init__(self, console: Console, training: Training) -> None:
        self._console, self._training, self._kept = console, training, ""

    def write(self, text: str) -> None:
        if len(self._kept) + len(text) <= self._training.buffer:
            self._kept += text
            return
        if self._training.cuts and self._training.buffer:
            whole = self._kept + text
            end = len(whole) // self._training.buffer * self._training.buffer
            self._console.write(whole[:end])
            self._kept = whole[end:]
            return
        self.flush()
        self._kept = text
        if len(text) > self._training.buffer:
            self.flush()

    def flush(self) -> None:
        self._console.write(self._kept)
        self._kept = ""

    def isatty(self) -> bool:
        return False


class Stderr(Stdout):
    def write(self, text: str) -> None:
        self._console.write(text)


class Clock:
    now = 1e9

    def time(self) -> float:
        return self.now


def printed(*trainings: Training) -> str:
    """The log of processes, one after the other."""
    console, clock = Console(), Clock()
    for training in trainings:
        out, err = Stdout(console, training), Stderr(console, training)
        with (
            mock.patch.object(sys, "stdout", out),
            mock.patch.object(sys, "stderr", err),
            mock.patch.object(tqdm_std, "time", clock.time),
        ):
            _train(training, clock, out)
            if not training.killed_at:
                out.flush()
        if training.killed_at:
            console.write("Killed\n")
    return console.getvalue()


def _train(training: Training, clock: Clock, out: Stdout) -> None:
    bar = _bar(training.total)
    begun, at = clock.now, 0
    if training.eval_on_start:
        _evaluate(training, 0, bar, clock)
    for step in range(training.first + 1, training.total + 1):
        clock.now += training.step_s
        if training.logs_more:
            bar.write(str(_entry(training, {"aux_loss": 0.5}, step - 1)))
        bar.update(step - at)
        at = step
        if step == training.killed_at:
            with mock.patch.object(bar, "sp", None):
                bar.close()
            return
        if step % training.logging_steps == 0:
            bar.write(str(_entry(training, {"loss": loss_of(step), "grad_norm": 1.25, "learning_rate": 5e-5}, step)))
        if training.eval_steps and step % training.eval_steps == 0:
            _evaluate(training, step, bar, clock)
        if training.save_steps and step % training.save_steps == 0:
            for _ in _bar(1, desc="Writing model shards", of=range(1)):
                clock.now += 0.01
        if step in training.flushed_at:
            out.flush()
    runtime = round(clock.now - begun, 4)
    bar.write(str(_entry(training, {"train_runtime": runtime, "train_loss": 3.5}, training.total)))
    bar.close()


def _evaluate(training: Training, step: int, bar: Any, clock: Clock) -> None:
    batches = _bar(training.eval_batches, leave=False)
    for _ in range(training.eval_batches):
        clock.now += training.batch_s
        batches.update(1)
    runtime = round(training.batch_s * training.eval_batches, 4)
    bar.write(str(_entry(training, {"eval_loss": loss_of(step), "eval_runtime": runtime}, step)))
    batches.close()


def _entry(training: Training, values: dict[str, float], step: int) -> dict[str, object]:
    entry: dict[str, object] = {**values, "epoch": training.epoch(step)}
    return entry if training.version == 4 else {key: str(value) for key, value in entry.items()}


def _bar(total: int, desc: str | None = None, of: range | None = None, *, leave: bool = True) -> Any:
    with mock.patch.object(tqdm_std.tqdm, "monitor_interval", 0):
        return tqdm_std.tqdm(of, total=total, desc=desc, leave=leave, ncols=100)
