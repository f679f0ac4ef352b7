"""Reads torchtitan's log, since spring 2024.

What the log does not say about its figures:

- A row covers all steps since the clock was last reset, by the previous row or a validation. `tps` (`wps` in 2024) is
  the tokens of those steps over that time, per GPU, so a step takes its tokens divided by its rate. If the log does not
  say how many tokens a step has, the time stamps of the rows do.
- That time includes checkpoints. Their seconds are printed, and are subtracted.
- The first row includes what came before it: building the model, loading a checkpoint, compiling.
- With pipeline parallelism, only the last stage has the loss. The others print -1 or, later, -2.
- `mfu` is relative to a peak printed above; for an unknown card, torchtitan uses an A100's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.frameworks import torchtitan_lines as lines
from nanopace.sources.formats.frameworks.joined import JoiningReader
from nanopace.sources.formats.frameworks.rates import PerGpuRate
from nanopace.sources.printed_numbers import RateBounds, nan_as_inf, to_int
from nanopace.sources.processes.died import RANK

_MOST_WAITING = 64  # rows without a loss or a time, before it is clear that there is none


class _Printed(NamedTuple):
    step: int
    loss: float | None
    mfu: float | None
    rate: int
    at_s: float | None
    ms: float | None  # per step
    rank: int | None
    fetched: bool  # data


@dataclass(slots=True)
class _Process:
    """What is known about the current process."""

    gpus: int | None = None
    tokens: int | None = None  # per step, across all GPUs
    since_s: float | None = None  # the time stamp at which its clock was reset
    since_step: int | None = None
    saved_ms: float = 0.0  # of checkpoints since then
    last: str = ""  # last row
    estimate: RateBounds = field(default_factory=RateBounds)  # for one GPU
    rate: PerGpuRate = field(default_factory=PerGpuRate)
    loss_rank: int | None = None
    has_loss: bool = False
    without_loss: bool = False  # so many rows have no loss that none will


class TorchtitanReader(JoiningReader):
    """Feeds the lines of a torchtitan log to a builder."""

    opens = re.compile(r"(?<!validate )\bstep:\s{1,8}\d{1,12}(?:/\d{1,12}[^|]{0,15})?\s", re.ASCII)
    continues = re.compile(r"\b(?:mfu|tflops|[tw]ps|memory|loss):", re.ASCII)
    complete = re.compile(r"\bmfu:\s{0,8}(?:\d{1,6}\.\d\d%|N/A)", re.ASCII)

    def __init__(self, builder: RunBuilder, width: int = 0) -> None:
        super().__init__(builder, width)
        self._process = _Process()
        self._waiting: list[_Printed] = []
        self._fetched = False  # data, since the last row

    def read_row(self, text: str) -> bool:
        found = lines.ROW.search(text)
        if found is not None and found["mfu"]:  # otherwise a terminal may have wrapped it, even within its rate
            self._row(found, text)
        return found is not None and found["mfu"] is not None

    def read_partial(self, text: str) -> None:
        """Read a row without an mfu: from spring 2024, or a fork's."""
        found = lines.ROW.search(text)
        if found is not None:
            self._row(found, text)

    def _row(self, found: re.Match[str], text: str) -> None:
        process, step = self._process, int(found["step"])
        if found[0] == process.last:
            return  # two handlers print it
        loss = float(found["loss"])
        rank = RANK.search(text, 0, found.start())
        if loss < 0 and process.has_loss:
            if rank is not None and process.loss_rank is not None and int(rank[1]) != process.loss_rank:
                self._builder.row_of_rank(process.loss_rank, int(rank[1]))
            return
        if loss >= 0 and not process.has_loss and self._waiting:
            process.since_s = process.since_step = None  # from another rank
        if process.since_step is not None and process.last and step <= process.since_step:
            self._end_process()  # the next excerpt: nothing known so far holds
            process = self._process
        process.last = found[0]
        at_s = self.stamp(text[: found.start()])
        rate = to_int(found["rate"])
        printed = _Printed(
            step,
            None if loss < 0 else nan_as_inf(loss),
            float(found["percent"]) / 100 if found["percent"] else None,
            rate,
            at_s,
            self._ms_of_step(step, rate, at_s),
            None if rank is None else int(rank[1]),
            self._fetched,
        )
        self._fetched = False
        process.since_s, process.since_step, process.saved_ms = at_s, step, 0.0
        process.rate.add(rate, float(found["tflops"].replace(",", "")) if found["tflops"] else None)
        self._give(printed)

    def _ms_of_step(self, step: int, rate: int, at_s: float | None) -> float | None:
        process = self._process
        steps = step - process.since_step if process.since_step is not None else 1 if step == 1 else 0
        ms = None
        if process.tokens and process.gpus and rate:
            ms = 1000 * process.tokens / process.gpus / rate
        elif at_s is not None and process.since_s is not None and steps > 0 and at_s > process.since_s:
            ms = 1000 * (at_s - process.since_s) / steps
            if process.last and process.rate.rows > 1:  # the first row's clock started before its first time stamp
                process.estimate.add(rate, ms, half_ms=1.0 / steps)
        if ms is not None and steps > 0 and 0 < process.saved_ms < ms * steps:
            ms -= process.saved_ms / steps
        return ms

    # --- rows that have to wait --------------------------------------------------------------------------------------

    def _give(self, row: _Printed) -> None:
        """Pass a row to the builder once its time is known, and whether another rank has the loss."""
        process = self._process
        if row.loss is not None and not process.has_loss:
            process.has_loss, process.loss_rank = True, row.rank
            if any(each.loss is None for each in self._waiting):
                self._waiting = [each for each in self._waiting if each.loss is not None]
        self._waiting.append(row)
        decided = process.has_loss or process.without_loss
        if (decided and row.ms is not None) or len(self._waiting) >= _MOST_WAITING:
            process.without_loss |= not process.has_loss
            self._flush()

    def read_fetch(self) -> None:
        self._fetched = True

    def _flush(self) -> None:
        """A row without a time gets it from the others' tokens and its rate."""
        tokens = next((each.ms * each.rate for each in reversed(self._waiting) if each.ms is not None), None)
        for row in self._waiting:
            if row.fetched:
                self._builder.fetch()
            ms = tokens / row.rate if row.ms is None and tokens and row.rate else row.ms
            if ms is None:
                self._builder.untimed_row(row.step, row.loss)
            else:
                self._builder.row(Row(row.step, ms, row.loss, row.mfu, at_s=row.at_s))
        self._waiting.clear()

    # --- everything else ---------------------------------------------------------------------------------------------

    def read_line(self, line: str) -> bool:
        if found := lines.VALIDATION.search(line):
            self._validation(int(found[1]), float(found[2]), self.stamp(line[: found.start()]))
        elif found := lines.SAVED.search(line):
            self._process.saved_ms += 1000 * float(found[1])
            if self._process.since_step is not None:
                self._builder.checkpoint(self._process.since_step, ms=1000 * float(found[1]))
        elif "Training completed" in line:
            self._flush()
            self._builder.ending("finished")
        else:
            return self._header(line)
        return True

    def _validation(self, step: int, loss: float, at_s: float | None) -> None:
        """A validation resets the clock, so no row includes it."""
        process = self._process
        if loss < 0:
            return
        ms = None
        if at_s is not None and process.since_s is not None and step == process.since_step:
            ms = 1000 * (at_s - process.since_s) - process.saved_ms
        self._builder.evaluation(step, None, nan_as_inf(loss), ms=ms if ms and ms > 0 else None, at_s=at_s)
        process.since_s, process.since_step, process.saved_ms = at_s, step, 0.0

    def _header(self, line: str) -> bool:
        builder, process = self._builder, self._process
        begins = lines.HEADER.search(line) is not None
        if begins and process.last:
            self._end_process()
            process = self._process
        if begins:
            builder.begin_process()
        if found := lines.MESH.search(line):
            self._gpus([int(degree) for degree in lines.DEGREE.findall(found[1])])
        elif found := lines.MESH_2024.search(line):
            self._gpus([int(degree) for degree in found[1].replace(" ", "").split(",") if degree])
        elif found := lines.PARAMETERS.search(line):
            builder.fact("parameters", to_int(found[1]))
        elif found := lines.PEAK.search(line):
            builder.fact("printed_peak_tflops", float(found[1]) / 1e12)
        elif found := lines.CARD.search(line):
            builder.fact("gpu", found[1])
            builder.fact("gpu_memory_gb", float(found[2]))
        elif "with torch.compile" in line and "Compiling " in line:
            builder.fact("compile", True)
        else:
            starts = lines.STARTS.search(line)
            return self._start(starts, line) or self._batch(line) or begins
        return True

    def _gpus(self, degrees: list[int]) -> None:
        if degrees and min(degrees) > 0:
            self._process.gpus = gpus = prod(degrees)
            self._builder.fact("gpu_count", gpus)
            self._builder.fact("world_size", gpus)

    def _start(self, found: re.Match[str] | None, line: str) -> bool:
        if found is None:
            return False
        step = int(found[1])
        if self._process.last:
            self._end_process()
        self._builder.begin_process(fresh=step <= 1)
        self._process.since_step, self._process.since_s = max(0, step - 1), self.stamp(line[: found.start()])
        self._batch(line)
        return True

    def _batch(self, line: str) -> bool:
        """How many tokens a step has, in the wordings of three years."""
        found = lines.BATCH.search(line)
        if found is None:
            return False
        builder = self._builder
        builder.fact("max_iters", int(found["steps"]))
        local, whole, length = (int(size[1]) if (size := each.search(line)) else None for each in lines.SIZES)
        if length is not None:
            builder.fact("block_size", length)
        if local is not None:
            builder.fact("batch_size", local)
        per_step = int(found["per_step"] or 0) or (whole or 0) * (length or 0)
        if per_step:
            self._process.tokens = per_step
            builder.fact("tokens_per_iteration", per_step)
        return True

    def _end_process(self) -> None:
        """Add the facts that only all rows together reveal."""
        self._flush()
        process = self._process
        if process.tokens is None and process.gpus and (tokens := process.estimate.tokens):
            self._builder.fact("tokens_per_iteration", tokens * process.gpus, "inferred", "printed_rate")
        process.rate.tell(self._builder, process.gpus)
        self._process = _Process()
