"""Reads llama2.c's console output: nanoGPT's loop and lines, except for its rows.

    100 | loss 2.3582 | lr 5.000000e-04 | 728.63ms | mfu 12.34%

As in nanoGPT, a row includes the evaluation and the checkpoint of its iteration, its loss is that of the last
micro-batch, and its mfu is smoothed and relative to an A100's peak. It counts the FLOPs of all parameters, as nanoGPT
does: it has no position table.
"""

from __future__ import annotations

import re

from nanopace.hardware.flops import flops_per_token
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.nanogpt import NanogptReader
from nanopace.sources.printed_numbers import to_int
from nanopace.sources.rates import printed_rate

_ROW = re.compile(
    r"(?<![\w.])(\d{1,12}) \| loss (\d{1,9}\.\d{1,9}|nan|inf) \| lr \d[^\s|]{0,20} \| (\d{1,12}\.\d{1,6})\s?ms"
    r"(?: \| mfu\s{1,4}(-?\d{1,9}\.\d{1,6})%)?",
    re.ASCII,
)
_BATCH = re.compile(
    r"breaks down as: (\d{1,9}) grad accum steps \* (\d{1,9}) processes \* (\d{1,9}) batch size "
    r"\* (\d{1,9}) max seq len",
    re.ASCII,
)
_TOKENS = re.compile(r"^tokens per iteration: (\d[\d,]{0,20})\s*$", re.IGNORECASE | re.ASCII)
_PARAMETERS = re.compile(r"^total (?:optimizable|number of) parameters: (\d[\d,]{0,20})\s*$", re.IGNORECASE | re.ASCII)
_GROUP = re.compile(r"num (non-)?decayed parameter tensors: \d[\d,]{0,20}, with (\d[\d,]{0,20}) parameters", re.ASCII)
_KNOB = re.compile(r"Overriding: (dim|n_layers|n_heads|max_seq_len|vocab_size) = (\d{1,9})\s*$", re.ASCII)
_NAMES = {"dim": "n_embd", "n_layers": "n_layer", "n_heads": "n_head", "max_seq_len": "block_size"}  # nanoGPT's names
_SAVING = re.compile(r"^saving checkpoint to (\S.{0,400}?)\s*$", re.IGNORECASE)  # forks capitalise it
_FINISHED = re.compile(r"^training finished\b", re.IGNORECASE)


class Llama2cReader(NanogptReader):
    """nanoGPT's reader, with other rows."""

    def __init__(self, builder: RunBuilder, width: int = 0) -> None:
        super().__init__(builder, width)
        self._shape: dict[str, int] = {}
        self._groups: dict[str, int] = {}

    def feed(self, line: str) -> bool:
        if "| loss" in line and (row := _ROW.search(line)):
            self._take_row(row, line)
        elif found := _BATCH.search(line):
            self._batch(*map(int, found.groups()))
        elif found := _SAVING.search(line):
            self._release()
            self._builder.checkpoint(path=found[1])
        elif found := _TOKENS.search(line):
            self._builder.fact("tokens_per_iteration", to_int(found[1]))
        elif found := _PARAMETERS.search(line):
            self._groups = {"": to_int(found[1])}
        elif _FINISHED.search(line):
            self._release()
            self._builder.ending("finished")
        else:
            understood = super().feed(line)
            return self._model(line) or understood
        return True

    def feed_cut(self, line: str) -> bool:
        """Read the last line: a time with its unit is complete."""
        if row := _ROW.search(line):
            self._take_row(row, line)
            return True
        return super().feed_cut(line)

    def _take_row(self, found: re.Match[str], line: str) -> None:
        self._release()
        self._close_config()
        iteration, loss, ms, percent = found.groups(default="")
        if not float(ms) > 0:  # the clock did not advance
            return
        if self._groups:
            self._give_model()
        self._row((iteration, loss, ms, percent, "", "", ""), self._at_s(found.start(), line))
        self._builder.rate(int(iteration), printed_rate(found[0]))

    def _batch(self, steps: int, processes: int, batch: int, context: int) -> None:
        """It prints the accumulation of one process; nanoGPT's knob counts all processes."""
        self._builder.fact("gradient_accumulation_steps", steps * processes)
        self._builder.fact("gpu_count", processes)
        self._builder.fact("batch_size", batch)
        self._builder.fact("block_size", context)
        self._shape["block_size"] = context

    def _model(self, line: str) -> bool:
        """Lines that are the same, or nearly the same, in nanoGPT."""
        if found := _GROUP.search(line):
            self._groups[found[1] or "decayed"] = to_int(found[2])
        elif found := _KNOB.search(line):
            name = _NAMES.get(found[1], found[1])
            self._shape[name] = int(found[2])
            self._builder.fact(name, int(found[2]))
        return found is not None

    def _give_model(self) -> None:
        count = sum(self._groups.values())
        self._groups.clear()
        self._builder.fact("parameters", count)
        layers, width, context = (self._shape.get(name) for name in ("n_layer", "n_embd", "block_size"))
        if layers and width and context:
            flops = flops_per_token(count, layers, width, context)
            self._builder.fact("flops_per_token", flops, "inferred", "model_shape")
