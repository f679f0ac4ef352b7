"""Reads LLM.Q's JSON log, with one object per line. Its figures mean the same as on the console."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.gpt2.llmq import DONE, SAVING
from nanopace.sources.formats.gpt2.llmq_settings import Settings, number_of
from nanopace.sources.printed_numbers import nan_as_inf
from nanopace.sources.time_stamps import Stamps

_LONGEST_MS = 1e15  # far longer than any training


class LlmqJsonReader:
    """Feeds a RunBuilder with the log in JSON."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._settings = Settings(builder)
        self._steps: list[float] = []  # losses since the last evaluation
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
        """A closed object is complete."""
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
            for part in ("blocks", "lm_head", "attention"):
                self._settings.flop(part, float(entry[part]))
        elif kind == "cmd":
            self._settings, self._steps = Settings(self._builder), []
            self._builder.begin_process()
        elif kind == "info" and DONE.match(str(entry.get("message"))):
            self._builder.ending("finished")
        elif kind == "info" and "duration_ms" in entry and SAVING.match(str(entry["message"])):
            self._builder.checkpoint(_step(entry), str(entry["message"]).split("`")[1], ms=_ms(entry))

    def _row(self, entry: dict[str, Any]) -> None:
        if not (ms := _ms(entry)):  # the clock did not advance
            return
        loss = nan_as_inf(float(entry["loss"]))
        if tokens := number_of(entry.get("step_tokens")):
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


def _bounded(digits: str) -> int:
    return int(digits[:20])


def _without_nan(text: str) -> str:
    """The C++ program prints nan and inf; JSON needs NaN and Infinity."""
    return re.sub(r": (-?)(nan|inf)\b", lambda found: f": {found[1]}{'NaN' if found[2] == 'nan' else 'Infinity'}", text)
