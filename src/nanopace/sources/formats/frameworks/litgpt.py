"""Reads litgpt's log, and lit-gpt's from 2023: pretraining and fine-tuning.

What the log does not say about its figures:

- `iter` counts micro-batches. If a step has several, `step` counts the steps, and "(step)" marks those with an update.
  `iter time` is one micro-batch, including its update if it has one, without validation or checkpoint.
- Since 2024, `loss` is the mean over a step; before that, it was that of the micro-batch alone.
- Pretraining ends with a wrong "Tok/sec": it divides by the moment at which training began, not by the time it took.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.frameworks.joined import JoiningReader
from nanopace.sources.printed_numbers import nan_as_inf, to_int

_WRONG = 0.05  # of a rate, which is rounded like the time

_REAL = r"(?:\d{1,9}\.\d{1,9}|nan|inf)"
_ROW = re.compile(
    r"\biter {1,9}(?P<iter>\d{1,12})(?: \|)? step {1,9}(?P<step>\d{1,12})(?::| \|) loss(?: train:?)?:? {1,4}(?P<loss>"
    + _REAL
    + r")"
    r".{0,80}?\biter time: {1,6}(?P<ms>\d{1,12}\.\d\d) ?ms(?P<update> \((?:optimizer\.)?step\))?"
    r"(?P<pretraining>,? remaining time: )?",
    re.ASCII,
)
_VALIDATION = re.compile(
    rf"\b(?:iter|step) (\d{{1,12}}): val loss ({_REAL}), val time: (\d{{1,12}}\.\d\d) ?ms", re.ASCII
)
_FINAL = re.compile(rf"Final evaluation \| val loss: ({_REAL}) \|", re.ASCII)
_SAVED = re.compile(r"Saving (?:LoRA weights|adapter v?\d? ?weights|checkpoint|weights) to '(.{1,300}?)'", re.ASCII)
_PARAMETERS = re.compile(r"\b(?:Total parameters|Number of trainable parameters): (\d[\d,]{0,23})", re.ASCII)
_TOP = re.compile(r"^\{'(?:access_token|checkpoint_dir|data|devices)'|Time to instantiate model: ", re.ASCII)
_RESUMED = re.compile(r"Resuming training from ", re.ASCII)
_SETTINGS = re.compile(
    r"\b(micro_batch_size|max_seq_length|block_size|num_nodes|devices)'?[=:] ?(\d{1,12})\b", re.ASCII
)
_TOKENS = re.compile(r"- Total tokens {1,30}: {1,3}(\d[\d,]{0,23})", re.ASCII)
_TIME = re.compile(r"- Training Time {1,30}: {1,3}(\d{1,12}\.\d\d) s", re.ASCII)
_RATE = re.compile(r"- Tok/sec {1,30}: {1,3}(\d{1,15}\.\d\d) tok/s", re.ASCII)


@dataclass(slots=True)
class _Process:
    """What is known about the current process."""

    settings: dict[str, int]
    last: int = 0  # last micro-batch with a row
    updates: tuple[int, int] | None = None  # the first micro-batch with an update, and its step
    per_step: int | None = None  # micro-batches per step
    tokens: int | None = None  # of the whole training
    seconds: float | None = None
    pretraining: bool = False
    resumed: bool = False  # if so, its tokens include those of earlier processes


class LitgptReader(JoiningReader):
    """Feeds the lines of a litgpt log to a builder."""

    opens = re.compile(r"\biter {1,9}\d{1,12}(?: \|)? step {1,9}\d{1,12}", re.ASCII)
    continues = re.compile(r"^[ (\w.]{0,18}\)|iter time|\bms\b|remaining time", re.ASCII)
    complete = re.compile(r"\biter time: {1,6}\d{1,12}\.\d\d ?ms", re.ASCII)

    def __init__(self, builder: RunBuilder, width: int = 0) -> None:
        super().__init__(builder, width)
        self._process = _Process({})

    def read_row(self, text: str) -> bool:
        found = _ROW.search(text)
        whole = found is not None and (found["update"] or found["pretraining"])
        if found is not None and whole:
            self._row(found)
        return bool(whole)

    def read_partial(self, text: str) -> None:
        """Fine-tuning, without an update."""
        if (found := _ROW.search(text)) is not None:
            self._row(found)

    def _row(self, found: re.Match[str]) -> None:
        process, iteration, ms = self._process, int(found["iter"]), float(found["ms"])
        if process.last and iteration <= process.last:
            self._end_process()
            process = self._process
        process.last = iteration
        process.pretraining |= found["pretraining"] is not None
        if found["update"]:
            self._update(iteration, int(found["step"]))
        if ms > 0:
            self._builder.row(Row(iteration, ms, nan_as_inf(float(found["loss"]))))

    def _update(self, iteration: int, step: int) -> None:
        """Derive the micro-batches per step from two updates."""
        process = self._process
        if process.updates is None or process.updates[1] >= step:
            process.updates = (iteration, step)
            return
        per_step, rest = divmod(iteration - process.updates[0], step - process.updates[1])
        process.per_step = per_step if not rest else None

    def read_line(self, line: str) -> bool:
        process, builder = self._process, self._builder
        if found := _VALIDATION.search(line):
            ms = float(found[3])
            builder.evaluation(int(found[1]), None, nan_as_inf(float(found[2])), ms=ms if ms > 0 else None)
        elif found := _FINAL.search(line):
            builder.evaluation(process.last, None, nan_as_inf(float(found[1])))
            builder.ending("finished")
        elif found := _SAVED.search(line):
            builder.checkpoint(process.last, found[1])
        elif "remaining time: " in line:  # of a row that a terminal has wrapped
            process.pretraining = True
        elif found := _TOKENS.search(line):
            process.tokens = to_int(found[1])
        elif found := _TIME.search(line):
            process.seconds = float(found[1])
            builder.ending("finished")
        elif found := _RATE.search(line):
            self._check_rate(float(found[1]))
        else:
            return self._header(line)
        return True

    def _check_rate(self, printed: float) -> None:
        tokens, seconds = self._process.tokens, self._process.seconds
        if tokens and seconds and not self._process.resumed and abs(printed * seconds / tokens - 1) > _WRONG:
            self._builder.caveat(
                "rate_wrong", printed=printed, tokens=tokens, training_s=seconds, rate=round(tokens / seconds)
            )

    def _header(self, line: str) -> bool:
        top, resumed = _TOP.search(line), _RESUMED.search(line)
        if top or resumed:
            if self._process.last:
                self._end_process()
            self._builder.begin_process(fresh=False if resumed else None)
            self._process.resumed |= resumed is not None
        for name, value in _SETTINGS.findall(line[:2000]):
            self._process.settings[name] = int(value)
        if (found := _PARAMETERS.search(line)) and found[0].startswith("Total"):
            self._builder.fact("parameters", to_int(found[1]))
        return bool(top or resumed or found)

    def _end_process(self) -> None:
        """Add what only the rows reveal: whether it is pretraining, where all sequences have the same length."""
        process, builder = self._process, self._builder
        settings = process.settings
        batch, devices = settings.get("micro_batch_size"), settings.get("devices")
        length = settings.get("max_seq_length") or settings.get("block_size")
        if batch is not None:
            builder.fact("batch_size", batch)
        if devices is not None:
            builder.fact("gpu_count", devices * settings.get("num_nodes", 1))
        if process.pretraining and length is not None:
            builder.fact("block_size", length)
            if batch is not None and devices is not None:
                tokens = batch * length * devices * settings.get("num_nodes", 1)
                builder.fact("tokens_per_iteration", tokens, "inferred", "batch_shape")
        if process.per_step is not None and process.per_step > 1:
            builder.caveat("iterations_are_micro_batches", per_step=process.per_step)
        self._process = _Process({})
