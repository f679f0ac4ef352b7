"""Reads the console output of makemore.

    step 500 | loss 2.1250 | step time 12.34ms
    step 500 train loss: 2.0921 test loss: 2.1402

What the log does not say about its figures:

- The clock of a row stops before its loss is printed: evaluations and samples come after it, in no row's time.
- Every tenth step has a row, and every 500th an evaluation on at most 1,600 words of each split.
- The model may be a transformer, an RNN, an MLP or a bigram table: its settings name all of them, whichever it is.
"""

from __future__ import annotations

import re

from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.gpt2.endings import ending_of
from nanopace.sources.printed_numbers import nan_as_inf

_REAL = r"(\d{1,9}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?|nan|inf)"
_ROW = re.compile(
    rf"(?<![\w-])step (\d{{1,12}}) \| loss {_REAL} \| step time (\d{{1,12}}\.\d{{2}})ms\s{{0,8}}$", re.ASCII
)
_EVALUATION = re.compile(rf"(?<![\w-])step (\d{{1,12}}) train loss: {_REAL} test loss: {_REAL}\s{{0,8}}$", re.ASCII)
_SAVING = re.compile(r"\btest loss \S{1,24} is the best so far, saving model to (\S{1,300})")
_SETTINGS = re.compile(r"'(batch_size|max_steps|learning_rate|device)': ('?)([\w.+-]{1,24})\2", re.ASCII)
_DATASET = re.compile(r"^dataset determined that: vocab_size=(\d{1,12}), block_size=(\d{1,12})$", re.ASCII)
_PARAMETERS = re.compile(r"^model #params: (\d{1,15})$", re.ASCII)


class MakemoreReader:
    """Feeds a RunBuilder."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._last = 0  # iteration of the last evaluation

    def feed(self, line: str) -> bool:
        builder = self._builder
        if row := _ROW.search(line):
            if float(row[3]) > 0:
                builder.row(Row(int(row[1]), float(row[3]), nan_as_inf(float(row[2]))))
        elif found := _EVALUATION.search(line):
            self._last = int(found[1])
            builder.evaluation(self._last, nan_as_inf(float(found[2])), nan_as_inf(float(found[3])))
        elif saved := _SAVING.search(line):
            builder.checkpoint(self._last, saved[1])
        elif line.startswith("{'input_file':"):
            builder.begin_process(fresh=True)  # it may load a model, but counts from 0 again
            self._settings(line)
        elif sizes := _DATASET.match(line):
            builder.fact("vocab_size", int(sizes[1]))
            builder.fact("block_size", int(sizes[2]))
        elif model := _PARAMETERS.match(line):
            builder.fact("parameters", int(model[1]))
        elif (ending := ending_of(line)) is not None:
            builder.ending(ending)
        else:
            return False
        return True

    def feed_cut(self, line: str) -> bool:
        """Read the last line: a time with its unit is complete."""
        return _ROW.search(line) is not None and self.feed(line)

    def finish(self) -> None:
        """Nothing is held back."""

    def _settings(self, line: str) -> None:
        settings = {name: value for name, _, value in _SETTINGS.findall(line[:2000])}
        if settings.get("batch_size", "").isdecimal():
            self._builder.fact("batch_size", int(settings["batch_size"]))
        if settings.get("max_steps", "").isdecimal():  # -1: no end
            self._builder.fact("max_iters", int(settings["max_steps"]))
        if "device" in settings:
            self._builder.fact("device", settings["device"])
