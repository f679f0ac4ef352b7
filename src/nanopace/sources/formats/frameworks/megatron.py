"""Reads logs of Megatron-LM and its relatives: Megatron-DeepSpeed, GPT-NeoX, MindSpeed.

What the log does not say about its figures:

- `elapsed time per iteration` is the mean of all iterations since the previous row.
- Until November 2023, that included evaluations and checkpoints; now the clock stops for them. Since January 2024, rows
  have a time stamp, which tells the two apart.
- Since 2026, the first iteration has a separate row, and the next row counts it once more.
- Losses are means over these iterations, without those skipped because a gradient overflowed.
- The tokens of an iteration are `global batch size` times the sequence length, which only the arguments contain.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from dataclasses import dataclass, field

from nanopace.medians import upper_median
from nanopace.run import Metric, Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.frameworks.joined import JoiningReader
from nanopace.sources.printed_numbers import nan_as_inf
from nanopace.sources.rates import printed_rate

_NEARLY_ALL = 0.9  # rows with one batch size: in the others, it was still increasing
_LEAST_ROWS = 2
_SECOND_MS = 1000.0  # how inaccurate the difference of time stamps in whole seconds is

_REAL = r"-?(?:\d{1,9}(?:\.\d{1,9})?(?:[eE][+-]?\d{1,3})?|nan|inf)"
_ROW = re.compile(
    r"\biteration\s{1,12}(?P<step>\d{1,12})\s?/\s{0,12}(?P<total>\d{1,12})\s?\|(?P<before>.{0,300}?)"
    r"elapsed time per iteration \((?P<unit>ms|s)\):\s{0,12}(?P<time>\d{1,12}(?:\.\d{1,6})?)(?:/\d[\d.]{0,15})?\s?\|"
    r"(?P<rest>.{0,1500})",
    re.ASCII,
)
_LOSS = re.compile(rf"\|\s{{0,4}}(?:lm[ _-])?loss:\s{{0,4}}({_REAL})\s?\|", re.ASCII)
_NAN = re.compile(r"number of nan iterations:\s{1,12}\d{1,12} \|", re.ASCII)
_SKIPPED = re.compile(r"number of skipped iterations:\s{1,12}(\d{1,12}) \|", re.ASCII)
_BATCH = re.compile(r"global batch size:\s{1,12}(\d{1,12}) \|", re.ASCII)
_LENGTH = re.compile(r"actual seqlen:\s{1,12}(\d{1,9}) \|", re.ASCII)
_SAMPLES = re.compile(r"consumed samples:\s{1,15}(\d{1,15}) \|", re.ASCII)
_TOKENS = re.compile(r"consumed tokens:\s{1,18}(\d{1,18}) \|", re.ASCII)
_TFLOPS = re.compile(
    r"(?:throughput per GPU \(TFLOP/s/GPU\)|\bTFLOPs|approx flops per GPU):\s{1,6}(\d{1,6}\.\d{1,4})", re.ASCII
)
_VALIDATION = re.compile(
    r"\bvalidation (?:loss|results) at (?:iteration (?P<step>\d{1,12})|the end of training)(?P<of>[^|]{0,60})\|"
    rf".{{0,200}}?\b(?:lm[ _-])?loss value:\s{{0,4}}(?P<loss>{_REAL})",
    re.ASCII,
)
_BENCHMARK = re.compile(r"\bvalidation results on [^|]{1,60}\|", re.ASCII)  # zero-shot, such as LAMBADA's accuracy
_SAVED = re.compile(r"successfully saved checkpoint (?:from|at) iteration\s{1,12}(\d{1,12})", re.ASCII)
_TIMER = re.compile(
    r"^.{0,60}?\b(evaluate|save-checkpoint) \.{3,60}: (?:\(\d{1,12}\.\d\d, )?(\d{1,12}\.\d\d)\)?$", re.ASCII
)
_WORLD = re.compile(r"\busing world size: (\d{1,7})\b", re.ASCII)
_ARGUMENT = re.compile(r"(?:^|[\s\]])(\w{3,40}) \.{3,60} (\S{1,40})\s{0,4}$", re.ASCII)
_ARGUMENTS = {  # Megatron's names, and ours
    "seq_length": "block_size",
    "num_layers": "n_layer",
    "hidden_size": "n_embd",
    "num_attention_heads": "n_head",
    "padded_vocab_size": "vocab_size",
    "micro_batch_size": "batch_size",
    "train_iters": "max_iters",
    "eval_interval": "eval_interval",
    "eval_iters": "eval_iters",
    "log_interval": "log_interval",
}
_DTYPES = {"torch.bfloat16": "bfloat16", "torch.float16": "float16", "torch.float32": "float32"}
_VOCABULARY = re.compile(r"padded vocab \(size: \d{1,9}\) with \d{1,9} dummy tokens \(new size: (\d{1,9})\)", re.ASCII)
_FRESH = re.compile(r"will (?:not load any checkpoints and will )?start from random", re.ASCII)
_RESUMED = re.compile(r"successfully loaded checkpoint from .{1,300}? at iteration \d", re.ASCII)
_FINISHED = re.compile(r"\[(?:after training is done|exiting program at iteration \d{1,12})\] datetime: ", re.ASCII)
_STOPPED = re.compile(
    r"exiting program after receiving SIGTERM|\*\*\* (?:STEP|JOB) \S{1,40} ON .{1,80} CANCELLED ", re.ASCII
)


@dataclass(slots=True)
class _Process:
    """What is known about the current process."""

    length: int | None = None  # of a sequence
    gpus: int | None = None
    batches: Counter[int] = field(default_factory=Counter)  # global batch sizes, and how many rows have each
    flops: array[float] = field(default_factory=lambda: array("d"))  # of all GPUs in an iteration, by row
    last: tuple[int, float, float | None] | None = None  # last row: iteration, time and time stamp
    rows: int = 0
    save: int | None = None  # iteration of a checkpoint whose time may follow
    evaluation_ms: float | None = None


class MegatronReader(JoiningReader):
    """Feeds the lines of a Megatron log to a builder."""

    opens = re.compile(r"\biteration\s{1,12}\d{1,12}\s?/\s{0,12}\d{1,12}\s?\|", re.ASCII)
    continues = re.compile(r"\|")
    complete = _NAN

    def __init__(self, builder: RunBuilder, width: int = 0) -> None:
        super().__init__(builder, width)
        self._process = _Process()

    # --- rows --------------------------------------------------------------------------------------------------------

    def read_row(self, text: str) -> bool:
        found = _ROW.search(text)
        if found is None:
            return False
        columns = f"|{found['before']}|{found['rest']}"
        whole = _NAN.search(columns) is not None or (_LOSS.search(columns) is not None and text.rstrip().endswith("|"))
        if whole:
            self._row(found, columns, text)
        return whole

    def read_partial(self, text: str) -> None:
        found = _ROW.search(text)
        if found is not None:
            self._row(found, f"|{found['before']}|{found['rest']}", text)

    def _row(self, found: re.Match[str], columns: str, text: str) -> None:
        step = int(found["step"])
        ms = float(found["time"]) * (1000 if found["unit"] == "s" else 1)
        if not 0 < ms < 1e12:
            return
        if (last := self._process.last) is not None and step < last[0] and step <= 1:
            self._end_process()
        self._save()
        process, builder = self._process, self._builder
        at_s = self.stamp(text[: found.start()])
        process.last, last = (step, ms, at_s), process.last
        first = last if process.rows == 1 else None
        process.rows += 1
        loss = _LOSS.search(columns)
        builder.fact("max_iters", int(found["total"]))
        alone_ms = _without_first(first, step, ms, at_s)
        builder.row(Row(step, alone_ms, nan_as_inf(float(loss[1])) if loss else None, at_s=at_s))
        builder.rate(step, printed_rate(columns))
        skipped = _SKIPPED.search(columns)
        if skipped and int(skipped[1]) == 1 and last is not None and step == last[0] + 1:
            builder.skipped(step)
        self._tokens(columns, ms)

    def _tokens(self, columns: str, ms: float) -> None:
        process = self._process
        if (batch := _BATCH.search(columns)) is not None:
            process.batches[int(batch[1])] += 1
        if (length := _LENGTH.search(columns)) is not None:
            process.length = int(length[1])
        elif process.length is None:
            tokens, samples = _TOKENS.search(columns), _SAMPLES.search(columns)
            if tokens and samples and int(samples[1]) and int(tokens[1]) % int(samples[1]) == 0:
                process.length = int(tokens[1]) // int(samples[1])
        if (tflops := _TFLOPS.search(columns)) is not None:
            process.flops.append(float(tflops[1]) * 1e9 * ms)

    # --- everything else ---------------------------------------------------------------------------------------------

    def read_line(self, line: str) -> bool:
        builder, process = self._builder, self._process
        if found := _VALIDATION.search(line):
            self._validation(found)
        elif _BENCHMARK.search(line):
            if process.last is not None:  # its results are not comparable with a loss, but it took time
                self._evaluation(process.last[0], None, "core")
        elif found := _SAVED.search(line):
            self._save()
            process.save = int(found[1])
        elif found := _TIMER.search(line):
            if found[1] == "evaluate":
                process.evaluation_ms = float(found[2])
            else:
                self._save(float(found[2]))
        elif _FINISHED.search(line):
            builder.ending("finished")
        elif _STOPPED.search(line):
            builder.ending("interrupted")
        elif _FRESH.search(line) or _RESUMED.search(line):
            fresh = _RESUMED.search(line) is None
            self._begin(fresh=fresh)
            builder.fact("init_from", "scratch" if fresh else "resume")
        elif found := _WORLD.search(line):
            self._begin()
            self._gpus(int(found[1]))
        elif found := _VOCABULARY.search(line):
            builder.fact("vocab_size", int(found[1]))
        elif found := _ARGUMENT.search(line):
            return self._argument(found[1], found[2])
        else:
            return False
        return True

    def _validation(self, found: re.Match[str]) -> None:
        process = self._process
        step = found["step"] or (process.last and process.last[0])
        if "test" in found["of"] or step is None:
            return
        self._evaluation(int(step), nan_as_inf(float(found["loss"])), "loss")

    def _evaluation(self, step: int, val: float | None, metric: Metric) -> None:
        self._save()
        self._builder.evaluation(step, None, val, metric=metric, ms=self._ms(self._process.evaluation_ms))
        self._process.evaluation_ms = None

    def _save(self, ms: float | None = None) -> None:
        """Add the last checkpoint, with its time if that was printed."""
        if self._process.save is not None:
            self._builder.checkpoint(self._process.save, ms=self._ms(ms))
            self._process.save = None

    def _ms(self, ms: float | None) -> float | None:
        """The time, unless a row includes it."""
        return None if self._builder.format.row_contains_evaluation else ms

    def _begin(self, *, fresh: bool | None = None) -> None:
        if self._process.rows:
            self._end_process()
        self._builder.begin_process(fresh=fresh)

    def _gpus(self, count: int) -> None:
        self._process.gpus = count
        self._builder.fact("gpu_count", count)
        self._builder.fact("world_size", count)

    def _argument(self, name: str, value: str) -> bool:
        if name == "params_dtype" and value in _DTYPES:
            self._begin()
            self._builder.fact("dtype", _DTYPES[value])
        elif name == "world_size" and value.isdigit():
            self._gpus(int(value[:7]))
        elif name in _ARGUMENTS and value.isdigit():
            self._begin()
            self._builder.fact(_ARGUMENTS[name], int(value[:12]))
            if name == "seq_length":
                self._process.length = int(value[:9])
        else:
            return False
        return True

    def _end_process(self) -> None:
        """Add the facts that only all rows together reveal."""
        self._save()
        process = self._process
        for batch, rows in process.batches.most_common(1):
            if process.length and rows >= _NEARLY_ALL * process.rows:
                tokens = batch * process.length
                self._builder.fact("tokens_per_iteration", tokens, "inferred", "batch_shape")
                if process.flops and process.gpus and len(process.flops) >= _LEAST_ROWS and tokens:
                    flops = upper_median(process.flops) * process.gpus / tokens
                    self._builder.fact("flops_per_token", flops, "inferred", "printed_tflops")
        self._process = _Process()


def _without_first(first: tuple[int, float, float | None] | None, step: int, ms: float, at_s: float | None) -> float:
    """The mean time since the previous row. If that is the first row of its process, and the time stamps show that the
    printed mean counts its iteration again, that is removed."""
    if first is None or first[2] is None or at_s is None or step <= first[0]:
        return ms
    steps = step - first[0]
    passed_ms, printed_ms = 1000 * (at_s - first[2]), steps * ms
    rest_ms = printed_ms + ms - first[1]
    precise = at_s % 1 or first[2] % 1
    too_long = printed_ms - passed_ms > (0 if precise else _SECOND_MS)
    if too_long and rest_ms > 0 and abs(passed_ms - rest_ms) < printed_ms - passed_ms:
        return rest_ms / steps
    return ms
