"""Real runs on the CPU in this process, and what they leave behind."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from nanopace.config import Asked
from nanopace.ledger import StepEvent
from nanopace.literals import Value
from nanopace.train.listener import Outcome
from nanopace.train.run import train

from .conftest import TINY, Recorder


class Acting(Recorder):
    """Does something in a given step."""

    def __init__(self, at: int, act: Callable[[], object]) -> None:
        super().__init__()
        self._at, self._act = at, act

    def step(self, event: StepEvent) -> None:
        self.said.append(("step", event))
        if event.iteration == self._at:
            self._act()


class Stopping(Acting):
    """Presses Ctrl-C in a given step."""

    def __init__(self, at: int) -> None:
        super().__init__(at, lambda: signal.raise_signal(signal.SIGINT))


def run(
    corpus: Path, out: Path, listener: Recorder | None = None, base: Mapping[str, Value] = TINY, **knobs: Value
) -> tuple[Outcome, Recorder]:
    listener = listener or Recorder()
    given = {**base, "dataset": str(corpus), "out_dir": str(out), **knobs}
    return train(Asked(given=given, files=("config.py",)), listener=listener, started=time.monotonic()), listener


def resume(out: Path, **knobs: Value) -> tuple[Outcome, Recorder]:
    """Only with what a person types; the rest is in the checkpoint."""
    listener = Recorder()
    given = {"init_from": "resume", "out_dir": str(out), **knobs}
    return train(Asked(given=given, auto=True), listener=listener, started=time.monotonic()), listener


def events(out: Path, name: str = "") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]
    return [each for each in found if name in ("", each["event"])]


def files(checkpoint: Path) -> dict[str, torch.Tensor]:
    return {**load_file(checkpoint / "model.safetensors"), **load_file(checkpoint / "optimizer.safetensors")}
