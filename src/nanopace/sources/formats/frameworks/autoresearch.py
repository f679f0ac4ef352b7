"""Reads autoresearch's log: rows that overwrite each other, and a summary at the end.

What the log does not say about its figures:

- `dt` is a single step, with the GPU synchronised before and after. There is one evaluation, after the last step.
- `loss` is smoothed (0.9 of the past, bias-corrected) over the last micro-batch of each step.
- `mfu` is relative to an H100's peak (989.5 TFLOP/s) on any card, unless the program was changed: the FLOPs per token
  and the tokens per second of the same row reveal the peak.
- `training_seconds` is the sum of `dt` from step 11 on; training stops when it reaches the budget.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nanopace.medians import upper_median
from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.frameworks.joined import JoiningReader
from nanopace.sources.printed_numbers import RateBounds, half_unit, nan_as_inf, to_int

H100_TFLOPS = 989.5
_NEAR = 0.02  # deviation from a peak that rounded figures allow
_FEWEST = 5  # rows that must show it

_REAL = r"-?(?:\d{1,9}\.\d{1,9}|nan|inf)"
_ROW = re.compile(
    rf"\bstep (?P<step>\d{{1,9}}) \(\d{{1,3}}(?:\.\d{{1,2}})?%\) \| loss: (?P<loss>{_REAL}) \| .{{0,60}}?\bdt: "
    r"(?P<ms>\d{1,12}(?:\.\d{1,3})?)ms \| tok/sec: (?P<rate>\d[\d,]{0,15}(?:\.\d{1,3})?) \| "
    r"(?:mfu: (?:(?P<mfu>\d{1,6}\.\d{1,4})%?|\S{1,9}) \| )?.{0,60}?\bremaining: \d{1,9}s",
    re.ASCII,
)
_SUMMARY = re.compile(
    r"^\W{0,4}(val_bpb|training_seconds|total_seconds|num_steps|num_params_M|depth):\s{1,20}(\d{1,12}(?:\.\d{1,9})?)\s{0,9}$",
    re.ASCII,
)
_VOCABULARY = re.compile(r"^Vocab size: (\d[\d,]{0,14})$", re.ASCII)
_PARAMETERS = re.compile(r"^\s{0,4}total {5,}: (\d[\d,]{0,23})$", re.ASCII)
_FLOPS = re.compile(r"^Estimated FLOPs per token: (\d\.\d{1,15}e\+\d\d)", re.ASCII)
_SHAPE = re.compile(r"['\"](sequence_len|n_layer|n_head|n_embd)['\"]: (\d{1,9})", re.ASCII)
_NAMES = {"sequence_len": "block_size"}


@dataclass(slots=True)
class _Process:
    """What is known about the current process."""

    last: int | None = None  # step
    flops: float | None = None  # per token
    tokens: RateBounds = field(default_factory=RateBounds)
    per_mfu: list[float] = field(default_factory=list)  # tokens per second at an mfu of 1
    summary: dict[str, float] = field(default_factory=dict)


class AutoresearchReader(JoiningReader):
    """Feeds the lines of an autoresearch log to a builder."""

    opens = re.compile(r"\bstep \d{1,9} \(\d{1,3}(?:\.\d{1,2})?%\) \|", re.ASCII)
    complete = re.compile(r"\bremaining: \d{1,9}s", re.ASCII)

    def __init__(self, builder: RunBuilder, width: int = 0) -> None:
        super().__init__(builder, width)
        self._process = _Process()

    def read_row(self, text: str) -> bool:
        rows = list(_ROW.finditer(text))  # several, if the carriage returns between them were lost
        for found in rows:
            self._row(found)
        return bool(rows)

    def _row(self, found: re.Match[str]) -> None:
        process, step, ms = self._process, int(found["step"]), float(found["ms"])
        if process.last is not None and step < process.last:
            self._end_process()
            process = self._process
        process.last = step
        if ms <= 0:
            return
        mfu, rate = float(found["mfu"]) / 100 if found["mfu"] else None, float(found["rate"].replace(",", ""))
        process.tokens.add(rate, ms, half_unit(found["ms"]))
        if mfu is not None and mfu >= 0.01:
            process.per_mfu.append(rate / mfu)
        self._builder.row(Row(step, ms, nan_as_inf(float(found["loss"])), mfu))

    def read_line(self, line: str) -> bool:
        process, builder = self._process, self._builder
        if found := _SUMMARY.match(line):
            self._summary(found[1], float(found[2]))
        elif line.strip() == "FAIL":
            builder.ending("diverged")
        elif found := _VOCABULARY.match(line):
            if process.last is not None:
                self._end_process()
            builder.begin_process(fresh=True)
            builder.fact("vocab_size", to_int(found[1]))
        elif found := _PARAMETERS.match(line):
            builder.fact("parameters", to_int(found[1]))
        elif found := _FLOPS.match(line):
            process.flops = float(found[1])
            builder.fact("flops_per_token", process.flops)
        elif line.startswith("Model config: "):
            for name, value in _SHAPE.findall(line[:1000]):
                builder.fact(_NAMES.get(name, name), int(value))
        else:
            return False
        return True

    def _summary(self, name: str, value: float) -> None:
        """The evaluation comes after all steps; their number follows further down."""
        self._process.summary[name] = value
        if name == "training_seconds":
            self._builder.training_time(value)
        elif name == "num_steps" and "val_bpb" in self._process.summary:
            self._builder.evaluation(int(value), None, self._process.summary.pop("val_bpb"), metric="bpb")
            self._builder.ending("finished")

    def _end_process(self) -> None:
        """Add the facts that only all rows together reveal."""
        process, builder = self._process, self._builder
        bits = process.summary.pop("val_bpb", None)
        if bits is not None and process.last is not None:
            builder.evaluation(process.last + 1, None, bits, metric="bpb")
        process.tokens.tell(builder)
        if process.flops and len(process.per_mfu) >= _FEWEST:
            peak = process.flops * upper_median(process.per_mfu) / 1e12
            usual = abs(peak / H100_TFLOPS - 1) < _NEAR
            builder.fact("printed_peak_tflops", H100_TFLOPS if usual else peak, "inferred", "trainer")
        self._process = _Process()
