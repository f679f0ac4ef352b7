"""Reads what `nanopace train` prints: nanoGPT's lines with more columns, and additional lines.

A row is the step alone, and evaluations and checkpoints have lines with separate times. The printed mfu is relative to
the card that ran, and not smoothed. The ledger contains all of this, and more, and more exactly; this reader is for
people who only have the log. Of lines that a terminal has wrapped, only nanoGPT's are joined.
"""

from __future__ import annotations

import re
from contextlib import suppress

from nanopace.errors import UsageError
from nanopace.run import GpuUse
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.nanogpt import NanogptReader
from nanopace.sources.printed_numbers import nan_as_inf, to_int
from nanopace.sources.processes.died import RANK

_NUMBER = r"(\d{1,12}(?:\.\d{1,12})?)"
_LOSS = r"(\d{1,9}\.\d{1,12}|nan|inf)"
HEADER = re.compile(
    r"nanopace \d\S{0,40} train: (.{1,1024}), (\d[\d,]{0,20}) tokens a step, steps (\d{1,12}) to (\d{1,12})\s*$"
)
_CHOICE = re.compile(r"  (\w[\w ]{0,59}): (.{1,200}?)(?:: .*)?$")
_EVALUATION = re.compile(
    rf"step (\d{{1,12}}): (?:train loss (?:\(last (\d{{1,12}}) steps?\) )?{_LOSS}, )?val loss {_LOSS}, "
    rf"time {_NUMBER}ms(?:, val error {_NUMBER})?(.*)"
)
_STEPS_BEHIND = re.compile(r"\blast (\d{1,12}) steps?\b")  # where older versions print it
_SAVED = re.compile(rf"saved (.{{1,1024}}), time {_NUMBER}ms, in the background {_NUMBER}ms, ")
_ITERATION = re.compile(r"step-(\d{1,12})\W*$")
_END = re.compile(
    r"(finished|interrupted) after \d{1,12} steps?\b"
    rf"(?: in (?:(\d{{1,9}}) h )?(?:(\d{{1,9}}) min )?{_NUMBER} s(?:, {_NUMBER} kWh)?\s*$)?"
)


class NanopaceReader(NanogptReader):
    """nanoGPT's reader, for our lines."""

    reads_forks = False

    def __init__(self, builder: RunBuilder, width: int = 0) -> None:
        super().__init__(builder, width)
        self._introducing = False  # the lines after the header are choices
        self._total_ms: float | None = None  # of the run's processes; None once one of them did not print its time
        self._total_kwh: float | None = None
        self._running = False  # a process has not printed its time yet

    def feed(self, line: str) -> bool:
        if line.startswith("["):
            line = RANK.sub("", line, count=1)
        introducing, self._introducing = self._introducing, False
        if introducing and (found := _CHOICE.match(line)):
            self._introducing = True
            return self._choice(found[1], found[2])
        if "nanopace" in line and (found := HEADER.search(line)):
            self._introduce(*found.groups())
        elif "val loss" in line and (found := _EVALUATION.search(line)):
            self._evaluation(*found.groups())
        elif "saved" in line and (found := _SAVED.search(line)):
            self._checkpoint(*found.groups())
        elif "after" in line and (found := _END.match(line)):
            self._end(*found.groups())
        else:
            return super().feed(line)
        return True

    def _introduce(self, out_dir: str, tokens: str, first: str, last: str) -> None:
        self._release()
        self._introducing = True
        if int(first) == 0 or not self._rows_seen:
            self._report_totals()
            self._total_ms, self._total_kwh = 0.0, 0.0
        elif self._running:
            self._total_ms = None
        self._running = True
        self._builder.begin_process(fresh=int(first) == 0)
        self._builder.fact("out_dir", out_dir)
        self._builder.fact("tokens_per_iteration", to_int(tokens))
        self._builder.fact("max_iters", int(last))

    def _choice(self, name: str, value: str) -> bool:
        """The knob and its value are facts; the reason after them is not."""
        if name == "gpu":
            self._builder.fact("gpu", value)
            return True
        from nanopace.config import KNOBS
        from nanopace.config_text import read_override

        if name in KNOBS:
            with suppress(UsageError):
                self._builder.fact(*read_override(f"{name}={value}"))
        return True

    def _evaluation(
        self,
        iteration: str,
        steps: str | None,
        train: str | None,
        val: str,
        ms: str,
        error: str | None,
        rest: str,
    ) -> None:
        self._release()
        if steps is None and (behind := _STEPS_BEHIND.search(rest)) is not None:
            steps = behind[1]
        self._builder.evaluation(
            int(iteration),
            None if train is None else nan_as_inf(float(train)),
            nan_as_inf(float(val)),
            ms=float(ms),
            val_error=None if error is None else float(error),
            train_steps=None if steps is None else int(steps),
        )

    def _checkpoint(self, path: str, ms: str, background_ms: str) -> None:
        """Add a checkpoint. The line comes some steps later, when it is on disk, so its name gives the iteration."""
        self._release()
        named = _ITERATION.search(path)
        iteration = None if named is None else int(named[1])
        self._builder.checkpoint(iteration, path, ms=float(ms), background_ms=float(background_ms))

    def _end(self, how: str, hours: str | None, minutes: str | None, seconds: str | None, kwh: str | None) -> None:
        self._release()
        if seconds is not None and self._total_ms is not None:
            self._running = False
            self._total_ms += 1000 * (3600 * int(hours or 0) + 60 * int(minutes or 0) + float(seconds))
            self._total_kwh = None if kwh is None or self._total_kwh is None else self._total_kwh + float(kwh)
        self._builder.ending("finished" if how == "finished" else "interrupted")

    def finish(self) -> None:
        super().finish()
        self._report_totals()

    def _report_totals(self) -> None:
        """Called at the end of a run: before that, a process that prints no time may still follow."""
        if not self._running and self._total_ms:
            self._builder.wall_ms(self._total_ms)
            self._builder.gpu_use(None if self._total_kwh is None else GpuUse(energy_kwh=self._total_kwh))
