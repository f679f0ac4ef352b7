"""Reads nanochat's log, in all forms since October 2025: pretraining, midtraining and fine-tuning.

What the log does not say about its figures:

- `dt` is a single step. The clock stops for evaluations, samples and checkpoints, and waits for the GPU before and
  after: the log does not contain what these cost, except for the tasks of the CORE metric, each printed with its time.
- `loss` is smoothed (0.9 of the past, bias-corrected) over the last micro-batch of each step on the first GPU. It lags
  about ten steps behind and looks smoother than the real loss.
- `mfu` is not smoothed. It is per GPU: all FLOPs over the peak of all GPUs. The peak was an H100's (989 TFLOP/s) on any
  card, until a line with the card's name and peak was added in January 2026.
- `tok/sec` was too low by the accumulation factor in the first two weeks. It is used only if the header, which has the
  tokens of a step, is missing and a row has a column that was added later.
- `total time` is the sum of `dt` from step 11 on.
- slowrun, which trains as nanochat does, leaves it out. It counts steps from 1 and evaluates after the row.

Base training, midtraining and fine-tuning are separate programs; a speedrun's log contains them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import TYPE_CHECKING

from nanopace.run import Row, Span, Stage
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats import nanochat_lines as lines
from nanopace.sources.formats.broken_line import BrokenLine
from nanopace.sources.head.card_lines import card_of
from nanopace.sources.printed_numbers import RateBounds, half_unit, nan_as_inf, to_int
from nanopace.sources.processes.died import ENDINGS, RANK

if TYPE_CHECKING:
    from nanopace.sources.printed_numbers import Floats

H100_TFLOPS = 989.0


@dataclass(slots=True)
class _Process:
    """What is known about the current process."""

    top_seen: bool = False  # the part of the header where the card's line would be
    card_seen: bool = False
    no_peak: bool = False  # no card, or one unknown to the trainer: its mfu is 0
    gpus_seen: bool = False
    modern: bool = False  # its header has a line that was added after midtraining had gone
    command: Stage | None = None  # the program, from the command that started it
    rank_tokens: int = 0  # of one micro-batch on one GPU
    knobs: dict[str, float] = field(default_factory=dict)  # of slowrun
    tokens: int = 0  # per step
    rate: RateBounds = field(default_factory=RateBounds)
    # Until 26 October 2025, the printed tokens per second were those of one micro-batch; only a column that was added
    # later shows that they are right.
    rate_is_right: bool = False
    form: Stage | None = None  # from the form of its rows
    stepped: bool = False
    next_step: int = 0
    tasks_ms: float = 0.0  # of the CORE metric, so far


class NanochatReader:
    """Passes the lines of a nanochat log to a builder."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._broken = BrokenLine(lines.OPENS, most_pieces=lines.MOST_PIECES, longest=lines.LONGEST_LINE)
        self._process = _Process()
        self._machine: dict[str, int | float] = {}  # facts that hold for every process
        self._old_tuning = False  # a program was seen that came and went with midtraining

    def feed(self, line: str) -> bool:
        if not line or line.isspace():
            return False
        line = line[-lines.LONGEST_LINE :]  # cut off a progress bar that did not end its line
        if line.startswith("["):
            line = RANK.sub("", line, count=1)
        if self._read(line):
            self._broken.close()
            return True
        joined = self._broken.joined(line)
        if joined and self._read(joined):
            self._broken.close()
            return True
        self._broken.add(line)
        return False

    def feed_cut(self, line: str) -> bool:
        """Only a step line can be known to be complete: by the unit of its last figure."""
        step = lines.STEP.search((self._broken.text + line)[-lines.LONGEST_LINE :])
        if step:
            self._step(step)
        return step is not None

    @property
    def expects_more(self) -> bool:
        """Whether the next step must be read as a line: it may start a process, or its mfu may mean nothing."""
        return not self._process.stepped or self._process.no_peak

    def has_form(self, *, total: bool, epoch: bool) -> bool:
        """Whether a step with these columns belongs to the current process."""
        return self._process.form == lines.stage_of_form(total=total, epoch=epoch)

    def feed_steps(
        self, rows: Iterable[Row], ms: Floats, per_s: Floats, minutes: float, lrm: float, *, rate_is_right: bool
    ) -> None:
        """Take consecutive steps of one form, with times of two decimals. `minutes`: the training so far; `lrm`: that
        of the last step."""
        self._broken.close()
        for row in rows:
            self._builder.row(row)
            self._process.next_step = row.last_iteration + 1
        self._builder.rate(self._process.next_step - 1, lrm)
        self._builder.training_time(60 * minutes)
        self._process.rate.add_all(per_s, ms, 0.005)
        self._process.rate_is_right |= rate_is_right

    def finish(self) -> None:
        """Nothing is held back except parts of lines."""
        self._end_process()

    def _read(self, line: str) -> bool:
        if line.startswith(lines.BEGIN_OF_TEXT):
            self._sample(line)
        elif step := lines.STEP.search(line):
            self._step(step)
        elif evaluation := lines.EVALUATION.search(line):
            self._evaluation(evaluation)
        elif evaluation := lines.SLOWRUN_EVALUATION.search(line):
            bits, loss = float(evaluation[2]), nan_as_inf(float(evaluation[3]))
            self._builder.evaluation(int(evaluation[1]), None, loss, bits_per_byte=bits if isfinite(bits) else None)
        elif task := lines.TASK.search(line):
            if self._process.stepped:  # else it is of a program that only evaluates
                self._process.tasks_ms += 1000 * float(task[1])
        elif save := lines.CHECKPOINT.search(line):
            self._builder.checkpoint(int(save[2]), save[1])
            self._builder.stage(lines.stage_of_directory(save[1]))
        elif untimed := lines.UNTIMED.search(line):
            self._old_tuning |= untimed["sft"] is not None
            self._builder.untimed("sft" if untimed["sft"] else "rl")
        elif ended := lines.ENDED.search(line):
            self._builder.ending(ENDINGS.get(ended.lastgroup or "", "finished"))
        else:
            return self._header(line)
        return True

    # --- the run -----------------------------------------------------------------------------------------------------

    def _step(self, found: re.Match[str]) -> None:
        if self._process.stepped and self._process.form != lines.stage_of_row(found):
            self._begin_process()  # another program, even without a header
        process, ms = self._process, found["ms"]
        if not process.stepped:
            process.stepped = True
            process.form = lines.stage_of_row(found)
            self._first_step(found)
        if float(ms) <= 0:  # the clock did not advance
            return
        printed = None if process.no_peak else _mfu(found["mfu"])
        process.next_step = int(found["step"]) + 1
        self._builder.row(Row(int(found["step"]), float(ms), nan_as_inf(float(found["loss"])), printed))
        if found["lrm"]:
            self._builder.rate(int(found["step"]), float(found["lrm"]))
        if found["minutes"]:
            self._builder.training_time(60 * float(found["minutes"]))
        if found["rate"]:
            process.rate.add(to_int(found["rate"]), float(ms), half_unit(ms))
        if not process.rate_is_right and any(found.group("norm", "eta", "epoch", "bf16")):
            process.rate_is_right = True

    def _first_step(self, found: re.Match[str]) -> None:
        """Add facts that the form of the line reveals if the header does not."""
        builder, process = self._builder, self._process
        builder.fact("compile", True, "inferred", "trainer")
        if found["total"] is not None:
            builder.fact("max_iters", int(found["total"]))
        for name, value in self._machine.items():
            if name != "gpu_count" or not process.gpus_seen:
                builder.fact(name, value)
        builder.stage(self._stage())
        # The epoch was added days before the card's line, and the mfu's new name weeks after it. So an mfu with an
        # epoch is relative to an H100's peak only if the header is seen to have no such line.
        may_be_later = (found["bf16"] and not found["percent"]) or (found["epoch"] and not process.top_seen)
        if not process.card_seen and not process.no_peak and not may_be_later:
            builder.fact("printed_peak_tflops", H100_TFLOPS, "inferred", "trainer")

    def _stage(self) -> Stage | None:
        """The stage, from the form of the rows. If two stages print the same form, from the surrounding lines."""
        process = self._process
        if process.form is not None:
            return process.form
        return "sft" if process.modern else "mid" if self._old_tuning else process.command

    def _evaluation(self, found: re.Match[str]) -> None:
        metric, ms = lines.METRICS[found[2]], None
        if found[2] == "CORE metric":
            ms, self._process.tasks_ms = self._process.tasks_ms or None, 0.0
        self._builder.evaluation(int(found[1]), None, nan_as_inf(float(found[3])), metric=metric, ms=ms)
        if found[2] == "ChatCORE":
            self._builder.stage("sft")

    def _sample(self, line: str) -> None:
        """The first line of a text that the model generated before the step of its iteration. Before the first step, it
        comes from another program that evaluates a model."""
        if self._process.stepped:
            self._builder.sample(self._process.next_step, line.removeprefix(lines.BEGIN_OF_TEXT))

    # --- its process -------------------------------------------------------------------------------------------------

    def _begin_process(self, *, fresh: bool | None = True) -> None:
        if self._process.stepped:
            self._end_process()
            self._process = _Process()
        self._builder.begin_process(fresh=fresh)

    def _end_process(self) -> None:
        """Add the tokens of a step, which only all rows together reveal, and the evaluation that it did not finish."""
        process = self._process
        if process.tasks_ms:
            self._builder.span(Span("evaluation", process.next_step, process.tasks_ms))
        if not process.tokens:
            if process.rate_is_right:
                process.rate.tell(self._builder)
        elif (tokens := process.rate.tokens) is not None and tokens != process.tokens:
            self._builder.printed_tokens(tokens)

    def _header(self, line: str) -> bool:
        top = lines.TOP.search(line)
        if top:
            self._top(top)
        elif lines.RESUMED.search(line):
            self._begin_process(fresh=False)
            return True
        elif command := lines.stage_of_command(line):
            self._begin_process(fresh=None)
            self._process.command = command
            return True
        return (
            self._card(line)
            or self._batch(line)
            or self._plain(line)
            or self._shape(line)
            or self._read_machine(line)
            or top is not None
        )

    def _top(self, top: re.Match[str]) -> None:
        self._begin_process()
        device, world_size = top[1], top[2]
        if device or world_size:
            self._process.top_seen = True
        if device in ("cpu", "mps"):
            self._process.no_peak = True

    def _card(self, line: str) -> bool:
        found = lines.GPU.search(line)
        if not found:
            listed = card_of(line) if line.startswith("GPU ") and not self._process.stepped else None
            if listed is not None:
                self._builder.fact("gpu", listed)
            return listed is not None
        self._process.card_seen = self._process.modern = True
        self._builder.fact("gpu", found[1])
        peak = float(found[2])
        if peak < float("inf"):
            self._builder.fact("printed_peak_tflops", peak / 1e12)
        else:
            self._process.no_peak = True
        return True

    def _batch(self, line: str) -> bool:
        if found := lines.MICRO_BATCH.search(line):
            self._begin_process(fresh=None)
            self._process.rank_tokens = to_int(found[3])
            self._builder.fact("batch_size", to_int(found[1]))
            self._builder.fact("block_size", to_int(found[2]))
        elif found := lines.WORLD_MICRO_BATCH.search(line):
            if self._process.rank_tokens:
                self._process.gpus_seen = True
                self._builder.fact("gpu_count", to_int(found[1]) // self._process.rank_tokens)
        elif found := lines.BATCH.search(line):
            self._process.tokens = tokens = to_int(found[1])
            self._builder.fact("tokens_per_iteration", tokens)
            if self._process.rank_tokens:  # nanoGPT's knob counts the micro-batches of all GPUs, this line those of one
                self._builder.fact("gradient_accumulation_steps", tokens // self._process.rank_tokens)
        elif found := lines.SLOWRUN_BATCH.search(line):
            self._process.tokens = tokens = to_int(found[1])
            self._builder.fact("tokens_per_iteration", tokens)
            knobs, each = self._process.knobs, int(found[2])
            if each and (rank_tokens := int(knobs.get("batch_size", 0) * knobs.get("block_size", 0))):
                self._builder.fact("gradient_accumulation_steps", tokens // rank_tokens)
                self._builder.fact("gpu_count", tokens // rank_tokens // each)
        return found is not None

    def _plain(self, line: str) -> bool:
        for pattern, name, read in lines.PLAIN:
            if found := pattern.search(line):
                self._builder.fact(name, read(found[1]))
                self._process.gpus_seen |= name == "gpu_count"
                self._process.modern |= name == "dtype"
                return True
        return False

    def _shape(self, line: str) -> bool:
        if line.startswith("  ") and not self._process.stepped:
            for name, number in lines.SLOWRUN_KNOB.findall(line):
                knob = lines.SLOWRUN_NAMES.get(name, name)
                self._process.knobs[knob] = value = float(number)
                self._builder.fact(knob, value if "." in number else int(value))
        config = lines.CONFIG.search(line)
        if config is None:
            return False
        for name, value in lines.shape_of_config(config[1] or config[2]).items():
            if name == "flops_per_token":
                self._builder.fact(name, value, "inferred", "model_shape")
            else:
                self._builder.fact(name, value)
        return True

    def _read_machine(self, line: str) -> bool:
        found = lines.MACHINE.search(line)
        if found is None:
            return False
        self._machine["gpu_count"] = int(found[1] or found[2])
        if found[3]:
            self._machine["gpu_memory_gb"] = int(found[3]) / 1024
        return True


def _mfu(percent: str | None) -> float | None:
    """The mfu as a fraction; None if no card can reach it."""
    share = float(percent or "nan") / 100
    return share if 0 <= share < inf else None
