"""nanochat's log, in every form that it had since October 2025: pretraining, midtraining and fine-tuning.

What the figures mean, which the log does not say:

- `dt` is one step alone. The clock is stopped for evaluations, samples and checkpoints, and the GPU is waited for on
  both sides: what these cost is not in the log.
- `loss` is smoothed (0.9 of the past, corrected for its start) over the last micro-batch of each step on the first GPU.
  It lags some ten steps behind and looks calmer than the loss of a step is.
- `mfu` is not smoothed. It is that of one GPU: all FLOPs over the peak of all GPUs. The peak was that of an H100 (989
  TFLOP/s) whatever the card, until a line with the card's name and its own peak came in January 2026.
- `tok/sec` was too low by the accumulation factor in the first two weeks, so we never use it: batch and `dt` tell it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from nanopace.run import FactValue, Format, Metric, Row
from nanopace.sources.build import RunBuilder, kept_loss
from nanopace.sources.process import ENDING, ENDINGS, RANK

H100_TFLOPS = 989.0
_LONGEST_LINE = 1000  # a checkpoint's path is in the longest one

_REAL = r"(-?\d{1,15}(?:\.\d{1,15})?|nan|inf)"
_TIME = r"(\d{1,12}\.\d{1,6})"
_INT = r"(\d[\d,]{0,23})"
# Spaces are optional everywhere, because a terminal that breaks a line at one may swallow it.
_STEP = re.compile(
    rf"""
    \bstep\s*(\d{{1,12}})\s*(?:/\s*(\d{{1,12}})\s*)?\([\d.]{{1,9}}%\)\s*
    \|\s*loss:\s*{_REAL}\s*
    (?:\|\s*grad\s*norm:\s*[^\s|]{{1,20}}\s*)?      # November 2025 to January 2026
    \|\s*lrm:\s*[\d.]{{1,9}}\s*
    \|\s*dt:\s*{_TIME}\s*ms\s*
    \|\s*tok/sec:\s*[\d,]{{1,20}}\s*
    \|\s*(bf16_)?mfu:\s*{_REAL}\s*                # bf16_ since February 2026
    (?:\|\s*(epoch):[^|]{{1,80}})?                # since January 2026
    \|\s*total\s*time:\s*[\d.]{{1,15}}\s*m        # an eta may follow, since January 2026
    """,
    re.VERBOSE | re.ASCII,
)
_EVALUATION = re.compile(rf"\bStep (\d{{1,12}}) \| (Validation bpb|CORE metric|ChatCORE): {_REAL}", re.ASCII)
_CHECKPOINT = re.compile(r"Saved\s*model\s*(?:file|parameters)\s*to:\s*(.{0,400}?model_(\d{1,12})\.pt)", re.ASCII)
_METRICS: dict[str, Metric] = {"Validation bpb": "bpb", "CORE metric": "core", "ChatCORE": "core"}

# The top of what a script prints: a new process, and a new run unless it says that it resumes.
_TOP = re.compile(
    r"Autodetected device type: (\w+)|Distributed\s*world\s*size:\s*(\d{1,6})|^GPU: .+ \| Peak FLOPS"
    r"|^Vocab size: \d|^Target examples per step: \d|^Calculated number of steps: \d",
    re.ASCII,
)
_RESUMED = re.compile(r"^Resuming optimization from step \d", re.ASCII)
_GPU = re.compile(r"^GPU:\s*(.{1,100}?)\s*\|\s*Peak\s*FLOPS\s*\(BF16\):\s*(\d\.\d\de\+\d\d|inf)", re.ASCII)
_MICRO_BATCH = re.compile(rf"Tokens / micro-batch / rank: {_INT} x {_INT} = {_INT}", re.ASCII)
_WORLD_MICRO_BATCH = re.compile(rf"Tokens / micro-batch: {_INT}", re.ASCII)
_BATCH = re.compile(rf"Total batch size {_INT} =>", re.ASCII)
# The model's config: as JSON with a line for each entry, or, where a model is loaded, as a dict in one line.
_CONFIG = re.compile(
    r"""^\s*("\w{1,20}": \d{1,12}),$|Building\s*model\s*with\s*config:\s*(\{[^}]{1,500}\})""", re.ASCII
)
_SHAPE = re.compile(r"""["'](sequence_len|vocab_size|n_layer|n_head|n_embd)["']:\s*(\d{1,12})""", re.ASCII)
_ENDED = re.compile(
    rf"(?P<finished>^(?:Peak memory usage|Total training time|Minimum validation bpb): )|{ENDING}", re.ASCII
)
# A line whose rest may be on the next one.
_OPENS = re.compile(r"\bstep\s*\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - |Saved\s*model\s|^GPU: ", re.ASCII)


def _whole(text: str) -> int:
    return int(text.replace(",", ""))


# Lines with one figure that is a fact as it stands.
_PLAIN: tuple[tuple[re.Pattern[str], str, Callable[[str], FactValue]], ...] = tuple(
    (re.compile(pattern, re.ASCII), name, read)
    for pattern, name, read in (
        (rf"^Vocab size: {_INT}", "vocab_size", _whole),
        (r"^num_layers: (\d{1,9})", "n_layer", _whole),
        (r"^model_dim: (\d{1,9})", "n_embd", _whole),
        (r"^num_heads: (\d{1,9})", "n_head", _whole),
        (rf"^Number of parameters: {_INT}", "parameters", _whole),
        (rf"^total {{5,}}: {_INT}", "parameters", _whole),  # the last line under "Parameter counts:"
        (r"^Estimated FLOPs per token: (\d\.\d{1,15}e\+\d\d)", "flops_per_token", float),
        (rf"number of iterations(?: from target [^:]{{1,9}}(?::param ratio)?)?: {_INT}", "max_iters", _whole),
        (r"Distributed\s*world\s*size:\s*(\d{1,6})", "gpu_count", _whole),
        (r"^COMPUTE_DTYPE: torch\.(\w{1,20})", "dtype", str),
    )
)
_SHAPE_NAMES = {"sequence_len": "block_size"}


@dataclass(slots=True)
class _Process:
    """What is known of the process whose lines are read."""

    top_seen: bool = False  # the part of the header in which the card's line would be
    card_seen: bool = False
    no_peak: bool = False  # no card, or one that the trainer does not know: its mfu is a mere 0
    rank_tokens: int = 0  # of one micro-batch on one GPU
    stepped: bool = False


class NanochatReader:
    """Feeds the lines of a nanochat log to a builder."""

    format: Format = "nanochat"

    def __init__(self, builder: RunBuilder) -> None:
        builder.describe("nanochat", row_contains_evaluation=False)
        self._builder = builder
        self._open = ""  # the beginning of a line that a terminal broke
        self._process = _Process()

    def feed(self, line: str) -> bool:
        line = line[-_LONGEST_LINE:]  # before a longer one, a progress bar did not end its line
        if line.startswith("["):
            line = RANK.sub("", line, count=1)
        if self._understand(line):
            self._open = ""
            return True
        joined = self._open + line if self._open else ""
        if joined and self._understand(joined):
            self._open = ""
            return True
        self._open = line if _OPENS.search(line) else joined
        if len(self._open) > _LONGEST_LINE:
            self._open = ""
        return False

    def feed_cut(self, line: str) -> bool:
        """Only a step line says that it is whole: by the unit of its last figure."""
        step = _STEP.search((self._open + line)[-_LONGEST_LINE:])
        if step:
            self._step(step)
        return step is not None

    def finish(self) -> None:
        """Nothing is held back but halves of lines."""

    def _understand(self, line: str) -> bool:
        if step := _STEP.search(line):
            self._step(step)
        elif evaluation := _EVALUATION.search(line):
            self._evaluation(evaluation)
        elif save := _CHECKPOINT.search(line):
            self._builder.checkpoint(int(save[2]), save[1])
        elif ended := _ENDED.search(line):
            self._builder.ending(ENDINGS.get(ended.lastgroup or "", "finished"))
        else:
            return self._header(line)
        return True

    # --- the run -----------------------------------------------------------------------------------------------------

    def _step(self, found: re.Match[str]) -> None:
        step, total, loss, ms, bf16, mfu, epoch = found.groups()
        process = self._process
        if not process.stepped:
            process.stepped = True
            self._first_step(total, bf16=bf16 is not None, epoch=epoch is not None)
        printed = None if process.no_peak else float(mfu) / 100
        if float(ms) > 0:  # a clock that stood still tells nothing
            self._builder.row(Row(int(step), float(ms), kept_loss(float(loss)), printed))

    def _first_step(self, total: str | None, *, bf16: bool, epoch: bool) -> None:
        """What the form of the line tells, where the header does not."""
        self._builder.fact("compile", True, "inferred", "trainer")
        if total is not None:
            self._builder.fact("max_iters", int(total))
        # The epoch came days before the card's line, and the new name of the mfu weeks after it: an mfu with an epoch
        # is of an H100's peak only where we see that the header has no such line.
        process = self._process
        if not process.card_seen and not process.no_peak and not bf16 and (process.top_seen or not epoch):
            self._builder.fact("printed_peak_tflops", H100_TFLOPS, "inferred", "trainer")

    def _evaluation(self, found: re.Match[str]) -> None:
        metric = _METRICS[found[2]]
        self._builder.evaluation(int(found[1]), None, kept_loss(float(found[3])), metric=metric)

    # --- its header --------------------------------------------------------------------------------------------------

    def _header(self, line: str) -> bool:
        if top := _TOP.search(line):
            self._begin(top)
        elif _RESUMED.search(line):
            self._builder.begin_process(fresh=False)
            return True
        return self._card(line) or self._batch(line) or self._plain(line) or self._shape(line) or top is not None

    def _begin(self, top: re.Match[str]) -> None:
        if self._process.stepped:
            self._process = _Process()
        self._builder.begin_process(fresh=True)
        device, world_size = top[1], top[2]
        if device or world_size:
            self._process.top_seen = True
        if device in ("cpu", "mps"):
            self._process.no_peak = True

    def _card(self, line: str) -> bool:
        found = _GPU.search(line)
        if not found:
            return False
        self._process.card_seen = True
        self._builder.fact("gpu", found[1])
        peak = float(found[2])
        if peak < float("inf"):
            self._builder.fact("printed_peak_tflops", peak / 1e12)
        else:
            self._process.no_peak = True
        return True

    def _batch(self, line: str) -> bool:
        if found := _MICRO_BATCH.search(line):
            self._builder.begin_process()
            self._process.rank_tokens = _whole(found[3])
            self._builder.fact("batch_size", _whole(found[1]))
            self._builder.fact("block_size", _whole(found[2]))
        elif found := _WORLD_MICRO_BATCH.search(line):
            if self._process.rank_tokens:
                self._builder.fact("gpu_count", _whole(found[1]) // self._process.rank_tokens)
        elif found := _BATCH.search(line):
            tokens = _whole(found[1])
            self._builder.fact("tokens_per_iteration", tokens)
            if self._process.rank_tokens:  # nanoGPT's knob counts the micro-batches of all GPUs, the line those of one
                self._builder.fact("gradient_accumulation_steps", tokens // self._process.rank_tokens)
        return found is not None

    def _plain(self, line: str) -> bool:
        for pattern, name, read in _PLAIN:
            if found := pattern.search(line):
                self._builder.fact(name, read(found[1]))
                return True
        return False

    def _shape(self, line: str) -> bool:
        config = _CONFIG.search(line)
        if config is None:
            return False
        for name, value in _SHAPE.findall(config[0]):
            self._builder.fact(_SHAPE_NAMES.get(name, name), int(value))
        return True
