"""Reads the console output of llm.c: of its CUDA and C programs, and of train_gpt2.py.

What the log does not say about its figures:

- Steps are counted from 1 (in train_gpt2.c from 0). Here they are counted from 0, as in its main.log.
- `val loss`, HellaSwag and checkpoints have no row: they belong to the next step. After the last step, there is one
  more of each.
- The CUDA program measures only the step: no figure includes evaluations, samples or checkpoints. train_gpt2.py counts
  all of them with the next step.
- `tok/s` of the CUDA program is a moving average. After a resume, it starts at a twentieth of the truth.
- The MFU is not smoothed, is of one GPU, and counts half of attention's FLOPs, since it is causal. It is relative to
  the peak that the table names; in May 2024, to an A100's. If the card is unknown, it is -100%.
- Generated text is between rules, and may be anything.
"""

from __future__ import annotations

from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.broken_line import BrokenLine
from nanopace.sources.formats.gpt2 import llmc_lines as lines
from nanopace.sources.formats.gpt2.endings import ending_of
from nanopace.sources.formats.gpt2.llmc_lines import Printed, read_row
from nanopace.sources.formats.gpt2.llmc_sensors import Sensors
from nanopace.sources.formats.gpt2.next_row import NextRow
from nanopace.sources.formats.gpt2.parameter_lines import read_groups
from nanopace.sources.formats.gpt2.rate import SmoothedStepTokens
from nanopace.sources.printed_numbers import nan_as_inf, to_int
from nanopace.sources.processes.died import RANK

A100_TFLOPS = 312.0
_MOST_PIECES = 8  # of a line that a terminal has wrapped
_LONGEST_LINE = 1000


class LlmcReader:
    """Feeds a RunBuilder."""

    forms = lines.ROWS
    opening, rule = "generating:", "---"  # before and around generated text

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._next = NextRow(builder)
        self._rate = SmoothedStepTokens()
        self._sensors = Sensors()
        self._table: dict[str, str] = {}
        self._has_groups = False  # parameter groups are printed: it is train_gpt2.py
        self._devices = 0  # that the ranks of train_gpt2.py print
        self._tokens_printed = False
        self._total: int | None = None  # steps, according to the last row
        self._sampling, self._rules = False, 0
        self._skipped = False  # the update of the next row
        self._began = False  # a process that has no row yet
        self._from_one: bool | None = None
        self._broken = BrokenLine(lines.OPENS, most_pieces=_MOST_PIECES, longest=_MOST_PIECES * _LONGEST_LINE)

    def feed(self, line: str) -> bool:
        if line.startswith("["):
            line = RANK.sub("", line, count=1)
        line = line[-_LONGEST_LINE:]  # cut off a progress bar
        if self._sampling:
            return self._sample(line)
        if self._read(line):
            self._broken.close()
            return True
        joined = self._broken.joined(line)
        if joined and (row := read_row(joined, self.forms)) is not None:
            self._broken.close()
            self._row(row)
            return True
        self._broken.add(line)
        return False

    def feed_cut(self, line: str) -> bool:
        """Read a last line without its end: a time with its unit is complete."""
        row = read_row((self._broken.text + line)[-_LONGEST_LINE:], self.forms)
        if row is not None and not self._sampling:
            self._row(row)
        return row is not None

    def finish(self) -> None:
        self._next.finish()
        self._end_process()
        self._builder.gpu_use(self._sensors.use())

    def _sample(self, line: str) -> bool:
        """Read a line between rules. If a row follows the last one, the second rule is missing."""
        if line.strip() == self.rule:
            self._rules += 1
            self._sampling = self._rules < 2
        elif lines.STARTS.match(line):
            self._sampling = False
            return self._read(line)
        elif (row := read_row(line, self.forms)) is not None and not row.start:
            follows = self._next.last is not None and row.step == self._next.last + 1 + bool(self._from_one)
            if follows and row.total == self._total:
                self._row(row)
        return True

    def _read(self, line: str) -> bool:
        if (row := read_row(line, self.forms)) is not None:
            self._row(row)
        elif found := lines.EVALUATION.search(line):
            self._next.evaluation(float(found[1]))
        elif found := lines.HELLASWAG.search(line):
            self._next.evaluation(float(found[1]), metric="core")
        elif line.strip() == self.opening:
            self._sampling, self._rules = True, int(self.opening == self.rule)
        elif found := lines.CHECKPOINT.search(line):
            self._builder.checkpoint(int(found["step"] or found["named"]), found["path"])
        elif found := lines.SENSORS.search(line):
            self._sensors.add(found)
        elif lines.SKIPPED.search(line):
            self._skipped = True
        elif lines.FINISHED.match(line):
            self._builder.ending("finished")
        elif line.startswith("[CUDA ERROR]"):
            self._builder.ending("error")
        elif line.strip() == "out of memory":  # the line after the CUDA error
            self._builder.ending("out_of_memory")
        elif (ending := ending_of(line)) is not None:
            self._builder.ending(ending)
        else:
            return self._header(line)
        return True

    # --- the run -----------------------------------------------------------------------------------------------------

    def _row(self, row: Printed) -> None:
        if self._from_one is None or self._began:
            self._first_row(row)
        self._sampling = self._began = False
        iteration = row.step - 1 if self._from_one and row.step else row.step
        if not float(row.ms) > 0:  # the clock did not advance
            return
        self._next.flush(iteration)
        self._builder.row(Row(iteration, float(row.ms), nan_as_inf(row.loss), row.mfu))
        self._builder.rate(iteration, row.learning_rate)
        if self._skipped:
            self._builder.skipped(iteration)
            self._skipped = False
        self._total = row.total
        if row.step == row.total:
            self._builder.ending("finished")
        if row.rate and row.smoothed:
            self._rate.read_smoothed(iteration, row.ms, row.rate)
        elif row.rate:
            self._rate.read(row.ms, row.rate)

    def _first_row(self, row: Printed) -> None:
        """Add the facts that its form reveals."""
        self._from_one = row.total is not None or row.step > 0
        if self._from_one:
            self._builder.caveat("counts_from_one", trainer="llm.c")
        if row.total:
            self._builder.fact("max_iters", row.total)
        if row.smoothed and row.rate:
            self._builder.caveat("rate_smoothed", trainer="llm.c")
        if row.a100:
            self._builder.fact("printed_peak_tflops", A100_TFLOPS, "inferred", "trainer")
        if row.mfu:
            self._builder.caveat("mfu_causal", trainer="llm.c")

    # --- its process -------------------------------------------------------------------------------------------------

    def _header(self, line: str) -> bool:
        if found := lines.TABLE.match(line):
            self._table_row(found[1].strip(), found[2].strip())
        elif found := lines.ACCUMULATION.search(line):
            self._begin_process()
            processes = lines.whole(self._table.get("num_processes", ""))
            if processes:  # nanoGPT's knob counts the micro-batches of all GPUs, this line those of one
                self._builder.fact("gradient_accumulation_steps", int(found[1]) * processes)
        elif found := lines.TOKENS.search(line):
            self._begin_process()
            self._give_tokens(to_int(found[1]))
        elif lines.STARTS.match(line):
            self._begin_process()
        elif found := lines.DEVICE.match(line):
            self._begin_process()
            self._device(found[1], several=found[2] is not None)
        elif groups := read_groups(line):
            self._has_groups = True
            for name, count in groups.items():
                self._builder.fact(name, count)
        else:
            return False
        return True

    def _begin_process(self, *, fresh: bool | None = None) -> None:
        if not self._began and self._from_one is not None:
            self._next.finish()
            self._end_process()
            self._next, self._rate, self._table = NextRow(self._builder), SmoothedStepTokens(), {}
            self._has_groups = False
            self._devices = 0
        self._began, self._skipped = True, False
        self._builder.begin_process(fresh=fresh)

    def _table_row(self, name: str, value: str) -> None:
        """Read a row of the table at the top."""
        self._begin_process()
        self._table[name] = value
        if name == "weight init method":
            self._begin_process(fresh=value != "intermediate checkpoint")
        elif name == "total batch size":
            self._give_tokens(to_int(value) if value.isdigit() else 0)
        elif name == "num_parameters":
            self._parameters(value)
        elif (known := lines.FACTS.get(name)) is not None:
            fact, read = known
            if (number := read(value)) is not None:
                self._builder.fact(fact, number)

    def _device(self, device: str, *, several: bool) -> None:
        """Each rank prints its device, with a number if there are several. A single one may be all that was kept."""
        self._devices += 1
        self._builder.fact("device", device)
        if self._devices > 1 or not several:
            self._builder.fact("gpu_count", self._devices)

    def _give_tokens(self, tokens: int) -> None:
        if tokens > 0:
            self._tokens_printed = True
            self._builder.fact("tokens_per_iteration", tokens)

    def _parameters(self, value: str) -> None:
        """It counts the position table and the padded vocabulary."""
        positions, width = (lines.whole(self._table.get(name, "")) for name in lines.POSITIONS)
        count = lines.whole(value)
        if count and positions and width and count > positions * width:
            self._builder.fact("parameters", count - positions * width)

    def _end_process(self) -> None:
        if not self._tokens_printed:
            self._rate.tell(self._builder)
        if self._has_groups and self._devices < 2:
            self._builder.caveat("gpus_unknown")


class LlmcPythonReader(LlmcReader):
    """train_gpt2.py and train_llama3.py."""

    forms = lines.PYTHON_ROWS
    opening = rule = "---------------"
