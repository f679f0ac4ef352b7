"""LLM.Q's console and its log in JSON, which has an object in each line.

What the figures mean, which the log does not say:

- The time is that of the step alone, in whole milliseconds; from 100 s on in whole seconds. Evaluations have their own
  times; checkpoints have them in the JSON, and on the console in the line that follows.
- `train` beside an evaluation is the mean loss of the steps since the one before.
- `tps` is of all GPUs, and cut off behind its last digit.
- `sol` is no mfu: it is the share of a time in which only the matrix products run, each at the peak of its precision.
"""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from typing import Any

from nanopace.run import FactValue, Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.gpt2.endings import ending_of
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
_SAVING = re.compile(r"^saving checkpoint to `([^`]{1,500})`", re.ASCII)
_DONE = re.compile(r"^\s{1,4}done in (\d{1,12}) (ms|s)\s{0,8}$", re.ASCII)
_OPTION = re.compile(r"^  ([\w-]{1,30}?)\s{0,30}: (\S.{0,300}?)\s{0,80}$", re.ASCII)
_DEVICE = re.compile(r"^  Device \d{1,4}: (\S.{0,100}?)\s{0,80}$", re.ASCII)
_MEMORY = re.compile(r"^  Memory: \d{1,9} MiB / (\d{1,9}) MiB", re.ASCII)
_FLOP = re.compile(r"^  (Blocks|LM-Head|Attention):\s{1,8}(\d{1,9}\.\d) ([GM])FLOP", re.ASCII)
_DONE_TRAINING = re.compile(r"^Done\. validation loss ")

_KNOBS = {  # as nanoGPT has them
    "micro-batch": "batch_size",
    "seq-len": "block_size",
    "total-batch": "tokens_per_iteration",
    "steps": "max_iters",
    "eval-every-n-steps": "eval_interval",
    "learning-rate": "learning_rate",
    "num-layers": "n_layer",
    "num-heads": "n_head",
    "hidden-size": "n_embd",
    "vocab-size": "vocab_size",
}


class _Settings:
    """What both logs tell before the first row."""

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder
        self._options: dict[str, int] = {}
        self._flop: dict[str, float] = {}
        self.knows_tokens = False

    def option(self, name: str, value: object) -> None:
        if name == "matmul-dtype" and isinstance(value, str):
            precision = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}.get(value.upper())
            if precision:
                self._builder.fact("dtype", precision)
            return
        number = _number(value)
        if number is None or not number > 1e-9:
            return
        self.knows_tokens |= name == "total-batch"
        known: FactValue = int(number) if number == int(number) else number
        if name in _KNOBS:
            self._builder.fact(_KNOBS[name], known)
        if isinstance(known, int):
            self._options[name] = known
        batch, context, steps, total = (
            self._options.get(each) for each in ("micro-batch", "seq-len", "grad-accumulation", "total-batch")
        )
        if batch and context and steps and total and not total % (batch * context * steps):
            gpus = total // (batch * context * steps)
            self._builder.fact("gpu_count", gpus)
            self._builder.fact("gradient_accumulation_steps", steps * gpus)

    def flop(self, part: str, count: float) -> None:
        """Of a token, forward and backward; attention is counted by half, since it is causal."""
        self._flop[part] = count
        causal = sum(self._flop.values())
        if len(self._flop) == len(_PARTS) and 0 < causal < math.inf:
            self._builder.fact("flops_per_token", causal + self._flop["attention"], "inferred", "model_shape")
            self._builder.fact("flops_per_token_causal", causal, "inferred", "model_shape")


class LlmqReader:
    """Feeds a RunBuilder with the console."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._settings = _Settings(builder)
        self._rate = StepTokens()
        self._steps = 0  # since the last evaluation
        self._next = 0  # iteration
        self._saving: str | None = None  # the checkpoint that is being written
        self._rows_seen = False
        self._in_options = False

    def feed(self, line: str) -> bool:
        if found := _ROW.search(line):
            self._row(*found.groups())
        elif found := _EVALUATION.search(line):
            self._evaluation(*found.groups())
        elif found := _SAVING.match(line):
            self._saving = found[1]
        elif found := _DONE.match(line):
            self._saved(float(found[1]) * (1.0 if found[2] == "ms" else 1000.0))
        elif _DONE_TRAINING.match(line):
            self._builder.ending("finished")
        elif (ending := ending_of(line)) is not None:
            self._builder.ending(ending)
        else:
            return self._header(line)
        return True

    def feed_cut(self, line: str) -> bool:
        """A last line without its end: a loss has six decimals."""
        found = _ROW.search(line)
        whole = found is not None and len(found[4].partition(".")[2]) >= 6
        return whole and self.feed(line)

    def finish(self) -> None:
        self._end_process()

    def _row(self, step: str, time: str, unit: str, loss: str, tps: str | None, thousands: str | None) -> None:
        self._rows_seen, self._in_options = True, False
        per_ms = 1.0 if unit == "ms" else 1000.0
        ms = float(time) * per_ms
        if not ms > 0:
            return
        self._next, self._steps = int(step) + 1, self._steps + 1
        if int(step) == 0:
            self._end_process()
            self._rate, self._steps = StepTokens(), 1
        self._builder.row(Row(int(step), ms, nan_as_inf(float(loss))))
        if tps:
            # Both are cut off: the truth is between the figure and one more.
            each = 1000.0 if thousands else 1.0
            error = 0.0 if unit == "ms" else 500.0
            self._rate.bound(ms + error, error, (float(tps) + 0.5) * each, 0.5 * each)

    def _evaluation(self, step: str, time: str, unit: str, val: str, train: str) -> None:
        steps, self._steps = self._steps, 0
        self._builder.evaluation(
            int(step),
            nan_as_inf(float(train)) if steps else None,
            nan_as_inf(float(val)),
            ms=float(time) * (1.0 if unit == "ms" else 1000.0),
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
            self._settings, self._rate = _Settings(self._builder), StepTokens()
            self._rows_seen, self._steps = False, 0
        self._builder.begin_process()

    def _end_process(self) -> None:
        if not self._settings.knows_tokens and (tokens := self._rate.plausible) is not None:
            self._builder.fact("tokens_per_iteration", tokens, "inferred", "printed_rate")


_LONGEST_MS = 1e15  # far beyond any training
_PARTS = {"Blocks": "blocks", "LM-Head": "lm_head", "Attention": "attention"}


class LlmqJsonReader:
    """Feeds a RunBuilder with the log in JSON."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._settings = _Settings(builder)
        self._steps: list[float] = []  # losses since the last evaluation
        from nanopace.sources.time_stamps import Stamps

        self._stamps = Stamps()

    def feed(self, line: str) -> bool:
        text = line.strip().rstrip(",")
        if not text.startswith('{"log": '):
            return text in ("[", "]")
        entry: dict[str, Any] | None = None
        with suppress(ValueError, RecursionError):
            entry = json.loads(_without_nan(text), parse_int=_bounded)
        if not isinstance(entry, dict):
            return False
        with suppress(KeyError, TypeError, ValueError, OverflowError):
            self._entry(entry)
        return True

    def feed_cut(self, line: str) -> bool:
        """An object that is closed is complete."""
        return line.rstrip().endswith(("}", "]")) and self.feed(line)

    def finish(self) -> None:
        """Nothing is held back."""

    def _entry(self, entry: dict[str, Any]) -> None:
        kind = entry["log"]
        if kind == "step":
            self._row(entry)
        elif kind == "eval":
            self._evaluation(entry)
        elif kind == "option":
            self._settings.option(str(entry["name"]), entry["value"])
        elif kind == "gpu-model":
            self._builder.fact("gpu", str(entry["name"])[:100])
            self._builder.fact("gpu_memory_gb", round(float(entry["memory"]) / 2**30, 2))
        elif kind == "sol":
            for part in _PARTS.values():
                self._settings.flop(part, float(entry[part]))
        elif kind == "cmd":
            self._builder.begin_process()
        elif kind == "info" and _DONE_TRAINING.match(str(entry.get("message"))):
            self._builder.ending("finished")
        elif kind == "info" and "duration_ms" in entry and _SAVING.match(str(entry["message"])):
            self._builder.checkpoint(_step(entry), str(entry["message"]).split("`")[1], ms=_ms(entry))

    def _row(self, entry: dict[str, Any]) -> None:
        if not (ms := _ms(entry)):  # the clock stood still
            return
        loss = nan_as_inf(float(entry["loss"]))
        if tokens := _number(entry.get("step_tokens")):
            self._builder.fact("tokens_per_iteration", int(tokens))
        self._builder.row(Row(_step(entry), ms, loss, at_s=self._stamps.read(str(entry.get("time", ""))[:40])))
        self._steps.append(loss or 0.0)

    def _evaluation(self, entry: dict[str, Any]) -> None:
        losses, self._steps = self._steps, []
        self._builder.evaluation(
            _step(entry),
            sum(losses) / len(losses) if losses else None,
            nan_as_inf(float(entry["loss"])),
            ms=_ms(entry),
            train_steps=len(losses) or None,
            at_s=self._stamps.read(str(entry.get("time", ""))[:40]),
        )


def _step(entry: dict[str, Any]) -> int:
    step = int(entry["step"])
    if not 0 <= step < 10**12:
        raise ValueError(step)
    return step


def _ms(entry: dict[str, Any]) -> float:
    ms = float(entry["duration_ms"])
    if not 0 <= ms < _LONGEST_MS:
        raise ValueError(ms)
    return ms


def _number(value: object) -> float | None:
    with suppress(TypeError, ValueError, OverflowError):
        number = float(value)  # type: ignore[arg-type]
        return number if abs(number) < 1e15 else None
    return None


def _bounded(digits: str) -> int:
    return int(digits[:20])


def _without_nan(text: str) -> str:
    """The C++ prints nan and inf as they are, JSON knows them as NaN and Infinity."""
    return re.sub(r": (-?)(nan|inf)\b", lambda found: f": {found[1]}{'NaN' if found[2] == 'nan' else 'Infinity'}", text)
