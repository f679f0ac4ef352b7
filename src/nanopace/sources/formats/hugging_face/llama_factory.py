"""Reads LLaMA-Factory's trainer_log.jsonl: one line of JSON per log of Hugging Face's Trainer, with the elapsed time.

    {"current_steps": 20, "total_steps": 23800, "loss": 1.978, ..., "elapsed_time": "0:01:23", "remaining_time": ...}

The time is in whole seconds since training started, and includes evaluations and saving. Some lines have no loss: the
last one, and those of evaluations. The loss is the mean of the steps since the previous line. Predictions have such
lines, too, but with neither a loss nor an epoch.
"""

from __future__ import annotations

from nanopace.errors import NotALog
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.hugging_face.console_lines import seconds
from nanopace.sources.formats.hugging_face.entries import CountedTokens
from nanopace.sources.running_clock import RunningClock
from nanopace.sources.scalars import json_object, to_count, to_number

_OF_TRAINING = ("loss", "lr", "learning_rate", "epoch")  # one of them is in every line but a prediction's
_TOGETHER_S = 2.0  # processes that start together read clocks that differ by no more


class LlamaFactoryReader:
    """A line is a row if training has advanced since the previous line."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._clock = RunningClock(builder, resolution_s=1.0)
        self._tokens = CountedTokens(builder)
        self._step, self._elapsed_s = 0, 0.0
        self._predicts = self._trains = self._has_loss = False

    def feed(self, line: str) -> bool:
        if '"current_steps"' not in line:
            return False
        entry = json_object(line)
        step, elapsed_s = to_count(entry.get("current_steps")), seconds(entry.get("elapsed_time"))
        if step is None or elapsed_s is None:
            return False
        if not any(key in entry for key in _OF_TRAINING):
            self._predicts = True
            return True
        self._trains = True
        if elapsed_s < self._elapsed_s / 2:
            self._clock.restart()
        elif step == self._step and self._elapsed_s - _TOGETHER_S <= elapsed_s < self._elapsed_s:
            return True  # of another process, which started with this one
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
        self._tokens.tell()
        if self._predicts and not self._trains:
            raise NotALog(
                "{path}: a prediction by LLaMA-Factory, not a training; there is nothing to explain",
                path=self._builder.name,
            )

    def _entry(self, step: int, elapsed_s: float, entry: dict[str, object]) -> None:
        total, val = to_count(entry.get("total_steps")), to_number(entry.get("eval_loss"))
        if total:
            self._builder.fact("max_iters", total)
        if val is not None:
            self._clock.evaluation(step, val, at_s=elapsed_s)
        elif step > self._step or elapsed_s < self._elapsed_s or step < self._step:
            self._clock.row(step, elapsed_s, to_number(entry.get("loss")))
            self._builder.rate(step, to_number(entry.get("lr", entry.get("learning_rate"))))  # renamed
            if entry.get("loss") is not None:
                self._tokens.add(step, self._tokens.read(entry))
            self._builder.caveat("whole_seconds")
        self._has_loss |= entry.get("loss") is not None
        if self._has_loss and entry.get("loss") is None and val is None:
            self._clock.flush()
            self._builder.ending("finished", step)  # written when training has ended, even before its last step
