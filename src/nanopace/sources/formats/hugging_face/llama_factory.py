"""Reads LLaMA-Factory's trainer_log.jsonl: one line of JSON per log of Hugging Face's Trainer, with the elapsed time.

    {"current_steps": 20, "total_steps": 23800, "loss": 1.978, ..., "elapsed_time": "0:01:23", "remaining_time": ...}

The time is in whole seconds since training started, and includes evaluations and saving. Some lines have no loss: the
last one, those of evaluations, and in some versions all. The loss is the mean of the steps since the previous line.
"""

from __future__ import annotations

import json
import re

from nanopace.sources.build import RunBuilder
from nanopace.sources.running_clock import RunningClock
from nanopace.sources.scalars import to_count, to_number

_ELAPSED = re.compile(r"(?:(\d{1,6}) days?, )?(\d{1,6}):(\d\d):(\d\d)")


class LlamaFactoryReader:
    """A line is a row if training has advanced since the previous line."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._clock = RunningClock(builder, resolution_s=1.0)
        self._step, self._elapsed_s = 0, 0.0

    def feed(self, line: str) -> bool:
        if '"current_steps"' not in line:
            return False
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if not isinstance(entry, dict):
            return False
        step, elapsed_s = to_count(entry.get("current_steps")), _seconds(entry.get("elapsed_time"))
        if step is None or elapsed_s is None:
            return False
        if elapsed_s < self._elapsed_s / 2:
            self._clock.restart()
        elif elapsed_s < self._elapsed_s or step < self._step:
            self._clock.restart(None)  # another process that had already run for a while
        self._entry(step, elapsed_s, entry)
        self._step, self._elapsed_s = step, elapsed_s
        return True

    def feed_cut(self, line: str) -> bool:
        """Incomplete JSON is not used; JSON that ends with its brace is complete."""
        return self.feed(line)

    def finish(self) -> None:
        self._clock.flush()

    def _entry(self, step: int, elapsed_s: float, entry: dict[str, object]) -> None:
        total, val = to_count(entry.get("total_steps")), to_number(entry.get("eval_loss"))
        if total:
            self._builder.fact("max_iters", total)
        if val is not None:
            self._clock.evaluation(step, val, at_s=elapsed_s)
        elif step > self._step or elapsed_s < self._elapsed_s or step < self._step:
            self._clock.row(step, elapsed_s, to_number(entry.get("loss")))
            self._builder.rate(step, to_number(entry.get("lr", entry.get("learning_rate"))))  # renamed
            self._builder.caveat("whole_seconds")
        if step == total and entry.get("loss") is None and val is None and step == self._step:
            self._builder.ending("finished")  # written when training has ended


def _seconds(elapsed: object) -> float | None:
    found = _ELAPSED.fullmatch(elapsed) if isinstance(elapsed, str) else None
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return 86_400.0 * days + 3600 * hours + 60 * minutes + seconds
