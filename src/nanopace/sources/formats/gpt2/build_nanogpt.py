"""Reads the console output of build-nanogpt, and of programs typed from its video.

What the log does not say about its figures:

- `dt` starts before the validation, HellaSwag, samples and checkpoint of its step, and ends after the step, so the row
  of such a step includes them all. Checkpoints are not printed.
- The validation loss has no iteration: it belongs to the next row.
- `loss` is the mean over all micro-batches and GPUs of the step.
- The printed accumulation is that of one GPU.
- Samples are printed unchanged, over several lines: they may contain anything, even what looks like a row.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.broken_line import BrokenLine
from nanopace.sources.formats.gpt2 import build_nanogpt_lines as lines
from nanopace.sources.formats.gpt2.build_nanogpt_lines import Printed, read_row
from nanopace.sources.formats.gpt2.endings import ending_of
from nanopace.sources.formats.gpt2.next_row import NextRow
from nanopace.sources.formats.gpt2.parameter_lines import read_groups
from nanopace.sources.formats.gpt2.rate import StepTokens
from nanopace.sources.formats.nanogpt_lines import mentions_validation
from nanopace.sources.printed_numbers import nan_as_inf, to_int
from nanopace.sources.processes.died import RANK

if TYPE_CHECKING:
    from nanopace.sources.head.head import Head
    from nanopace.sources.time_stamps import Stamps

_MOST_PIECES = 8  # of a line that a terminal has wrapped
_LONGEST_LINE = 2000


class BuildNanogptReader:
    """Feeds a RunBuilder."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._next = NextRow(builder)
        self._rate = StepTokens()
        self._tokens_printed = False
        self._one_process = False  # it says that it does not run under torchrun
        self._head: Head | None = None
        self._line = 0  # number of the current line
        self._rows_seen = False
        self._sampling = False  # the following lines are generated text
        self._ranks = 0  # that print samples
        self._groups_printed = 0
        self._doubtful: Printed | None = None  # a row between samples that does not follow the last one
        self._spacing = 1
        self._broken = BrokenLine(lines.OPENS, most_pieces=_MOST_PIECES, longest=_MOST_PIECES * _LONGEST_LINE)

    # --- lines -------------------------------------------------------------------------------------------------------

    def feed(self, line: str) -> bool:
        self._line += 1
        if not line or line.isspace():
            return False
        if line.startswith("["):
            line = RANK.sub("", line, count=1)
        line = line[:_LONGEST_LINE]
        if self._read(line):
            self._broken.close()
            return True
        if self._sampling:
            return True  # generated text is a part of the log
        joined = self._broken.joined(line)
        if joined and (row := read_row(joined)) is not None:
            self._broken.close()
            self._row(row, joined)
            return True
        self._broken.add(line)
        if self._rows_seen and not self._builder.evaluations_seen and mentions_validation(line):
            self._builder.unread(self._line, line)
        return False

    def feed_cut(self, line: str) -> bool:
        """Read a last line without its end: a time with its unit is complete."""
        row = read_row((self._broken.text + line)[:_LONGEST_LINE])
        if row is not None and not self._sampling:
            self._row(row, line)
        return row is not None

    def finish(self) -> None:
        doubtful = self._doubtful
        if doubtful is not None and self._next.last is not None and doubtful.step > self._next.last:
            self._add(doubtful, None)
        self._next.finish()
        self._end_process()

    def _read(self, line: str) -> bool:
        if " sample " in line and (sample := lines.SAMPLE.search(line)) is not None:
            self._sampling = True
            self._ranks = max(self._ranks, int(sample[1]) + 1)
            self._say_what_dt_holds()
        elif ("tep" in line or "TEP" in line) and (row := read_row(line)) is not None:
            if self._sampling and not self._follows(row):
                return True
            self._row(row, line)
        elif ("oss" in line or "OSS" in line) and (found := lines.EVALUATION.fullmatch(line)):
            self._evaluation(found["step"], found["train"], found["val"])
            self._score(line)
        elif self._score(line):
            pass
        elif "heckpoint" in line and (found := lines.CHECKPOINT.match(line)):
            self._checkpoint(found["path"])
        elif (ending := ending_of(line)) is not None:
            self._builder.ending(ending)
        else:
            return self._header(line)
        return True

    # --- the run -----------------------------------------------------------------------------------------------------

    def _follows(self, row: Printed) -> bool:
        """Whether a row between samples is real. If it may come from a process that went back, the next row decides."""
        if row.start:
            return False
        if self._continues(row.step):
            return True
        self._sampling, self._doubtful = False, row
        return False

    def _continues(self, step: int) -> bool:
        last = self._next.last
        return last is None or last < step <= last + 2 * self._spacing

    def _row(self, row: Printed, line: str) -> None:
        doubtful, self._doubtful = self._doubtful, None
        behind = doubtful is not None and doubtful.step < row.step <= doubtful.step + 2 * self._spacing
        if doubtful is not None and behind and not self._continues(row.step):
            self._add(doubtful, None)
        self._add(row, self._stamps.read(line[: row.start]) if row.start else None)

    def _add(self, row: Printed, at_s: float | None) -> None:
        self._sampling = False
        if not row.ms > 0:  # the clock did not advance
            return
        self._rows_seen, self._head = True, None
        if self._next.last is not None and row.step > self._next.last:
            self._spacing = row.step - self._next.last
        self._next.flush(row.step, may_follow=True)
        if row.val is not None:
            self._builder.evaluation(row.step, None, nan_as_inf(row.val))
        self._builder.row(Row(row.step, row.ms, nan_as_inf(row.loss), row.mfu, at_s=at_s))
        self._builder.rate(row.step, row.learning_rate)
        if row.rate:
            self._rate.read(row.time, row.rate, thousands=row.rate_unit, per_ms=row.unit_ms)
            rate = float(row.rate.replace(",", "")) * row.rate_unit
            self._builder.fact("row_tokens", rate * row.ms / 1000)

    def _evaluation(self, step: str | None, train: str | None, val: str) -> None:
        losses = nan_as_inf(float(train)) if train else None, nan_as_inf(float(val))
        if step is not None:
            self._builder.evaluation(int(step), *losses)
        elif losses[1] is not None:
            self._next.evaluation(losses[1], train=losses[0])

    def _score(self, line: str) -> bool:
        """HellaSwag's, alone or beside a validation loss."""
        found = lines.HELLASWAG.search(line) if "wag" in line else None
        if found is None:
            return False
        score = float(found["score"]) / (100 if found["percent"] else 1)
        if score > 1:
            return False
        if found["step"] is not None:
            self._builder.evaluation(int(found["step"]), None, score, metric="core")
        else:
            self._next.evaluation(score, metric="core")
        self._say_what_dt_holds()
        return True

    def _checkpoint(self, path: str | None) -> None:
        named = lines.STEP_OF_PATH.search(path or "")
        if named is None:
            self._next.checkpoint(path)
        else:
            self._builder.checkpoint(int(named[1]), path)

    def _say_what_dt_holds(self) -> None:
        self._builder.caveat("evaluation_with_samples", trainer="build-nanogpt")

    @cached_property
    def _stamps(self) -> Stamps:
        from nanopace.sources.time_stamps import Stamps  # which few logs need

        return Stamps()

    # --- its process -------------------------------------------------------------------------------------------------

    def _header(self, line: str) -> bool:
        builder = self._builder
        if found := lines.BATCH.search(line):
            self._begin_process()
            self._tokens_printed, self._groups_printed = True, 0
            builder.fact("tokens_per_iteration", to_int(found[1]))
        elif found := lines.ACCUMULATION.search(line):
            if self._one_process:
                builder.fact("gradient_accumulation_steps", int(found[1]))
        elif groups := read_groups(line):
            for name, count in groups.items():
                builder.fact(name, count)
            self._groups_printed += line.lower().count("num decayed")
        elif found := lines.DEVICE.search(line):
            self._begin_process()
            self._device(found[1].lower(), several=found[2] is not None)
        elif lines.STARTS.search(line):
            self._begin_process()
        elif lines.RESUMES.search(line):
            self._begin_process(fresh=False)
        else:
            return not self._rows_seen and self._open_head().feed(line, settings=True)
        return True

    def _device(self, device: str, *, several: bool) -> None:
        """Under torchrun, the device has a number or is not printed."""
        self._builder.fact("device", device)
        self._one_process = not several
        if device == "cuda" and not several:
            self._builder.fact("gpu_count", 1, "inferred", "unnumbered_device")

    def _begin_process(self, *, fresh: bool | None = None) -> None:
        if self._rows_seen and self._head is None:
            self._next.finish()
            self._end_process()
            self._next, self._rate = NextRow(self._builder), StepTokens()
            self._tokens_printed = self._one_process = False
            self._ranks = self._groups_printed = 0
        self._sampling, self._doubtful = False, None
        self._builder.begin_process(fresh=fresh)
        self._open_head()

    def _open_head(self) -> Head:
        if self._head is None:
            from nanopace.sources.head.head import Head

            self._head = Head(self._builder)
        return self._head

    def _end_process(self) -> None:
        """Add the facts that only all rows together reveal."""
        if not self._tokens_printed:
            self._rate.tell(self._builder)
        if self._ranks > 1:
            self._builder.fact("gpu_count", self._ranks)
        elif self._tokens_printed and self._groups_printed > 1:  # one rank prints the tokens, all print the groups
            self._builder.fact("gpu_count", self._groups_printed, "inferred", "repeated_line")
        elif self._tokens_printed and not self._one_process:
            self._builder.caveat("gpus_unknown")
