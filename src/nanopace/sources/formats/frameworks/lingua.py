"""Reads lingua's metrics.jsonl, and what it prints. BLT's are the same, except for the names of its losses.

What the log does not say about its figures:

- `curr_iter_time` (printed as `iter`) is the GPU time of the last micro-batch alone, without the wait for its data. The
  time of a step is the difference between the time stamps of two rows over the steps between them, so it includes
  evaluations and checkpoints. Only the first row, which has no stamp before it, uses `iter` and `data`.
- `wps` is the tokens per second of one GPU since the previous row.
- `loss/out` is the mean of the last micro-batches of all GPUs; the printed loss is of this GPU alone.
"""

from __future__ import annotations

import re

from nanopace.medians import upper_median
from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.frameworks.joined import JoiningReader
from nanopace.sources.formats.frameworks.rates import PerGpuRate
from nanopace.sources.printed_numbers import nan_as_inf, to_int
from nanopace.sources.scalars import json_object

_REAL = r"-?(?:\d{1,15}(?:\.\d{0,12})?(?:e[+-]?\d{1,3})?|nan|inf)"
_ROW = re.compile(
    rf"\bstep: (?P<step>\d{{1,12}}) {{1,4}}acc: \d{{1,9}} {{1,4}}loss: {{1,8}}(?P<loss>{_REAL}) .{{0,60}}?\bflops: "
    rf"(?P<flops>{_REAL}) {{1,4}}wps: (?P<wps>{_REAL}) {{1,4}}iter: {{1,8}}(?P<iter>{_REAL}) {{1,4}}"
    rf"data: {{1,8}}(?P<data>{_REAL}) ",
    re.ASCII,
)
_SAVED = re.compile(r"\bSaving to: (\S{1,300})")
_STEP_OF_PATH = re.compile(r"(\d{1,12})/?$", re.ASCII)
_PARAMETERS = re.compile(r"\bModel size: (\d[\d,]{0,23}) total parameters", re.ASCII)
_CARD = re.compile(r"GPU capacity: (.{1,100}?) \(\d{1,3}\) with (\d{1,6}\.\d{1,15})\s?GiB memory", re.ASCII)
_JOB = re.compile(r" - Starting job: ", re.ASCII)
_RELOADED = re.compile(r" - (?:Reloading train state|Model and optim reloaded)", re.ASCII)
_LOSSES = ("loss/out", "loss/interval_across_gpu", "loss/step_across_gpu")
_BITS = ("bpb/interval_across_gpus", "bpb/step_across_gpus")
_NEAR = 0.05  # of an integer number of GPUs
_FEWEST = 3  # rows
_LONGEST_MS = 1e12  # the longest a row may claim: 30 years


class _Steps:
    """Derives what a step took, and its tokens, from row to row."""

    def __init__(self) -> None:
        self.last: tuple[int, float | None] | None = None  # step and stamp
        self.rate = PerGpuRate()
        self.tokens: int | None = None  # per step, across all GPUs
        self.gpus: list[float] = []  # as the rates of single rows suggest

    def ms(self, step: int, at_s: float | None, alone_ms: float) -> float:
        """The time of one step since the previous row; `alone_ms` is that of the last micro-batch."""
        last, self.last = self.last, (step, at_s)
        if last is None or last[1] is None or at_s is None or step <= last[0] or at_s <= last[1]:
            return alone_ms
        return 1000 * (at_s - last[1]) / (step - last[0])


class LinguaReader(JoiningReader):
    """Reads what lingua prints."""

    opens = re.compile(r"\bstep: \d{1,12} {1,4}acc: \d", re.ASCII)
    complete = re.compile(r"\bpow: {1,8}[\d.]{1,12} W", re.ASCII)

    def __init__(self, builder: RunBuilder, width: int = 0) -> None:
        super().__init__(builder, width)
        self._steps = _Steps()

    def read_row(self, text: str) -> bool:
        found = _ROW.search(text)
        if found is None:
            return False
        step, at_s = int(found["step"]), self.stamp(text[: found.start()])
        if (last := self._steps.last) is not None and step <= last[0]:
            self._end_process()
        wps, flops = float(found["wps"]), float(found["flops"])
        ms = self._steps.ms(step, at_s, 1000 * (float(found["iter"]) + float(found["data"])))
        if not 0 < ms < _LONGEST_MS:
            return True
        self._steps.rate.add(wps, tflops=flops / 1e12)
        self._builder.row(Row(step, ms, nan_as_inf(float(found["loss"])), at_s=at_s))
        return True

    def read_line(self, line: str) -> bool:
        builder = self._builder
        if found := _SAVED.search(line):
            step = _STEP_OF_PATH.search(found[1])
            if step is not None:
                builder.checkpoint(int(step[1]), found[1])
        elif found := _PARAMETERS.search(line):
            builder.fact("parameters", to_int(found[1]))
        elif found := _CARD.search(line):
            builder.fact("gpu", found[1])
            builder.fact("gpu_memory_gb", float(found[2]))
        elif (job := _JOB.search(line)) or _RELOADED.search(line):
            if job and self._steps.last is not None:
                self._end_process()
            builder.begin_process()
        else:
            return False
        return True

    def _end_process(self) -> None:
        self._steps.rate.tell(self._builder, None)
        self._steps = _Steps()


class LinguaMetricsReader:
    """Reads metrics.jsonl: one object per row, appended by every process of a run."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._steps = _Steps()
        self._console = LinguaReader(builder)  # reads its time stamps
        self._last = ""

    def feed(self, line: str) -> bool:
        if line == self._last:
            return True
        row, self._last = json_object(line[max(0, line.find("{")) :]), line
        step, loss = _number(row, "global_step"), next((each for name in _LOSSES if (each := _number(row, name))), None)
        alone_s = _number(row, "speed/curr_iter_time")
        if step is None or alone_s is None or not step.is_integer() or not 0 <= step < 1e12:
            return False
        at_s = self._console.stamp(str(row.get("created_at", ""))[:40])
        if (last := self._steps.last) is not None and step <= last[0]:
            self._end_process()
            self._builder.begin_process()
            last = None
        ms = self._steps.ms(int(step), at_s, 1000 * (alone_s + (_number(row, "speed/data_load_time") or 0.0)))
        if not 0 < ms < _LONGEST_MS:
            return True
        self._work(row, int(step), ms, alone=last is None)
        self._builder.row(Row(int(step), ms, nan_as_inf(loss), at_s=at_s))
        return True

    def _work(self, row: dict[str, object], step: int, ms: float, *, alone: bool) -> None:
        steps, wps, flops = self._steps, _number(row, "speed/wps"), _number(row, "speed/FLOPS")
        total = _number(row, "optim/total_tokens")
        if wps and wps > 0:
            steps.rate.add(wps, tflops=None if flops is None else flops / 1e12)
        if total and step and not _number(row, "acc_step") and total % step == 0:
            steps.tokens = int(total) // step
            if wps and wps > 0 and not alone:
                steps.gpus.append(1000 * steps.tokens / ms / wps)

    def _end_process(self) -> None:
        steps, gpus = self._steps, None
        if steps.tokens:
            self._builder.fact("tokens_per_iteration", steps.tokens)
        if len(steps.gpus) >= _FEWEST:
            about = upper_median(steps.gpus)
            if round(about) and abs(about / round(about) - 1) < _NEAR / max(1, round(about)) ** 0.5:
                gpus = round(about)
                self._builder.fact("gpu_count", gpus, "inferred", "printed_rate")
        steps.rate.tell(self._builder, gpus)
        self._steps = _Steps()

    def feed_cut(self, line: str) -> bool:
        return self.feed(line)  # an incomplete object is not valid JSON

    def finish(self) -> None:
        self._end_process()


def _number(row: dict[str, object], name: str) -> float | None:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
