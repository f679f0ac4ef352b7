"""Reads LLM.Q's console output.

What the log does not say about its figures:

- The time is that of the step alone, in whole milliseconds; from 100 s on, in whole seconds. Evaluations have separate
  times; those of checkpoints are in the JSON, and on the next line of the console.
- `train` in an evaluation line is the mean loss of the steps since the previous one.
- `tps` is for all GPUs, and truncated after its last digit.
- `sol` is not an mfu: it compares the step with a time in which only matrix products run, each at the peak of its
  precision.
"""

from __future__ import annotations

import re

from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.gpt2.endings import ending_of
from nanopace.sources.formats.gpt2.llmq_settings import Settings
from nanopace.sources.formats.gpt2.rate import StepTokens
from nanopace.sources.printed_numbers import nan_as_inf

_LOSS = r"(-?(?:\d{1,9}\.\d{1,12}|nan|inf))"
_TIME = r"time:\s{0,8}(\d{1,12})\s{1,2}(ms|s)"
_TPS = r"tps\s{1,8}(\d{1,12})(k?)"
_HEAD = r"step\s{1,8}(\d{1,12})\s\[\s{0,4}\d{1,6}(?:\.\d)?%\]\s\|"
_ROW = re.compile(
    rf"\[T\]\s{_HEAD}\s{_TIME}\s\|\snorm\s{{1,12}}\S{{1,24}}\s\|\sloss\s{{1,12}}{_LOSS}(?:\s\|\s{_TPS})?", re.ASCII
)
_EVALUATION = re.compile(rf"\[V\]\s{_HEAD}\s{_TIME}\s\|\seval\s{{1,12}}{_LOSS}\s\|\strain\s{{1,12}}{_LOSS}", re.ASCII)
SAVING = re.compile(r"^saving checkpoint to `([^`]{1,500})`", re.ASCII)
_SAVED = re.compile(r"^\s{1,4}done in (\d{1,12}) (ms|s)\s{0,8}$", re.ASCII)
_OPTION = re.compile(r"^  ([\w-]{1,30}?)\s{0,30}: (\S.{0,300}?)\s{0,80}$", re.ASCII)
_DEVICE = re.compile(r"^  Device \d{1,4}: (\S.{0,100}?)\s{0,80}$", re.ASCII)
_MEMORY = re.compile(r"^  Memory: \d{1,9} MiB / (\d{1,9}) MiB", re.ASCII)
_FLOP = re.compile(r"^  (Blocks|LM-Head|Attention):\s{1,8}(\d{1,9}\.\d) ([GM])FLOP", re.ASCII)
DONE = re.compile(r"^Done\. validation loss ")

_UNIT_MS = {"ms": 1.0, "s": 1000.0}
_PARTS = {"Blocks": "blocks", "LM-Head": "lm_head", "Attention": "attention"}


class LlmqReader:
    """Feeds a RunBuilder with the console."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._settings = Settings(builder)
        self._rate = StepTokens()
        self._steps = 0  # since the last evaluation
        self._next = 0  # iteration
        self._saving: str | None = None  # the checkpoint being written
        self._rows_seen = False
        self._in_options = False

    def feed(self, line: str) -> bool:
        if found := _ROW.search(line):
            self._row(*found.groups())
        elif found := _EVALUATION.search(line):
            self._evaluation(*found.groups())
        elif found := SAVING.match(line):
            self._saving = found[1]
        elif found := _SAVED.match(line):
            self._saved(float(found[1]) * _UNIT_MS[found[2]])
        elif DONE.match(line):
            self._builder.ending("finished")
        elif (ending := ending_of(line)) is not None:
            self._builder.ending(ending)
        else:
            return self._header(line)
        return True

    def feed_cut(self, line: str) -> bool:
        """Read a last line without its end: a loss has six decimals."""
        found = _ROW.search(line)
        whole = found is not None and len(found[4].partition(".")[2]) >= 6
        return whole and self.feed(line)

    def finish(self) -> None:
        self._end_process()

    def _row(self, step: str, time: str, unit: str, loss: str, tps: str | None, thousands: str | None) -> None:
        self._rows_seen, self._in_options = True, False
        ms = float(time) * _UNIT_MS[unit]
        if not ms > 0:
            return
        self._next, self._steps = int(step) + 1, self._steps + 1
        if int(step) == 0:
            self._end_process()
            self._rate, self._steps = StepTokens(), 1
        self._builder.row(Row(int(step), ms, nan_as_inf(float(loss))))
        if tps:
            # Both are truncated: the truth is between the figure and the next one.
            each = 1000.0 if thousands else 1.0
            error = 0.0 if unit == "ms" else 500.0
            self._rate.bound(ms + error, error, (float(tps) + 0.5) * each, 0.5 * each)

    def _evaluation(self, step: str, time: str, unit: str, val: str, train: str) -> None:
        steps, self._steps = self._steps, 0
        self._builder.evaluation(
            int(step),
            nan_as_inf(float(train)) if steps else None,
            nan_as_inf(float(val)),
            ms=float(time) * _UNIT_MS[unit],
            train_steps=steps or None,
        )

    def _saved(self, ms: float) -> None:
        path, self._saving = self._saving, None
        if path is not None:
            self._builder.checkpoint(self._next, path, ms=ms)

    def _header(self, line: str) -> bool:
        if line.startswith("["):
            if line.startswith("[Options]"):
                self._begin_process()
            self._in_options = line.startswith("[Options]")
            return line.startswith(("[Options]", "[System ", "[Dataset]", "[Allocator State]", "[Speed of Light]"))
        if self._in_options and (found := _OPTION.match(line)):
            self._settings.option(found[1], found[2])
        elif found := _DEVICE.match(line):
            self._builder.fact("gpu", found[1])
        elif found := _MEMORY.match(line):
            self._builder.fact("gpu_memory_gb", round(int(found[1]) / 1024, 2))
        elif found := _FLOP.match(line):
            self._settings.flop(_PARTS[found[1]], float(found[2]) * (1e9 if found[3] == "G" else 1e6))
        else:
            return False
        return True

    def _begin_process(self) -> None:
        if self._rows_seen:
            self._end_process()
            self._settings, self._rate = Settings(self._builder), StepTokens()
            self._rows_seen, self._steps = False, 0
        self._builder.begin_process()

    def _end_process(self) -> None:
        if not self._settings.knows_tokens:
            self._rate.tell(self._builder)
