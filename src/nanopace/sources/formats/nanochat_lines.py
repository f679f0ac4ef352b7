"""The lines that nanochat's programs print, in all forms since October 2025."""

from __future__ import annotations

import re
from collections.abc import Callable

from nanopace.hardware.flops import flops_per_token
from nanopace.run import FactValue, Metric, Stage
from nanopace.sources.printed_numbers import to_int
from nanopace.sources.processes.died import ENDING

LONGEST_LINE = 1000  # a checkpoint's path makes the longest one
MOST_PIECES = 40  # a terminal of 25 columns

_REAL = r"(-?\d{1,15}(?:\.\d{1,15})?|nan|inf)"
_TIME = r"(\d{1,12}\.\d{1,6})"
_INT = r"(\d[\d,]{0,23})"
_MORE = r"(?:\|[^|]{0,80}){0,4}?"  # columns that are not needed, or that a fork added
# Spaces are optional everywhere: a terminal that wraps a line at a space may swallow it.
STEP = re.compile(
    rf"""
    \bstep\s*(?P<step>\d{{1,12}})\s*(?:/\s*(?P<total>\d{{1,12}})\s*)?\([\d.]{{1,9}}%\)\s*
    \|\s*loss:\s*(?P<loss>{_REAL})\s*
    (?:\|\s*(?P<norm>grad)\s*norm:\s*[^\s|]{{1,20}}\s*)?           # November 2025 to January 2026
    (?:{_MORE}\|\s*lrm:\s*(?P<lrm>\d{{1,3}}\.\d{{1,6}})\s*)?             # the learning rate over its maximum
    {_MORE}\|\s*dt:\s*(?P<ms>{_TIME})\s*ms\s*
    (?:{_MORE}\|\s*tok/sec:\s*(?P<rate>\d[\d,]{{0,19}})\s*)?
    (?:{_MORE}\|\s*(?P<bf16>bf16_)?mfu:\s*(?P<mfu>{_REAL})\s*(?P<percent>%)?\s*)?  # bf16_ since February 2026
    (?:{_MORE}\|\s*(?P<epoch>epoch):[^|]{{1,80}})?                  # since January 2026
    (?(percent)|{_MORE}\|\s*total\s*time:\s*(?P<minutes>\d{{1,9}}(?:\.\d{{1,6}})?)\s*m)  # slowrun's rows end before it
    (?:\s*\|\s*(?P<eta>eta):)?                                     # since January 2026, from the twelfth step on
    """,
    re.VERBOSE | re.ASCII,
)
EVALUATION = re.compile(rf"\bStep (\d{{1,12}}) \| (Validation bpb|CORE metric|ChatCORE): {_REAL}", re.ASCII)
SLOWRUN_EVALUATION = re.compile(
    rf"\bStep (\d{{1,12}}) \| (?:Epoch \d{{1,9}} \| )?Val BPB: {_REAL} \| Val Loss: {_REAL}", re.ASCII
)
METRICS: dict[str, Metric] = {"Validation bpb": "bpb", "CORE metric": "core", "ChatCORE": "core"}
# One of the tasks that make up the CORE metric, which is printed after the last of them.
TASK = re.compile(r"\baccuracy: -?\d\.\d{1,9} \| centered: -?\d\.\d{1,9} \| time: (\d{1,9}\.\d{1,6})s", re.ASCII)
CHECKPOINT = re.compile(r"Saved\s*model\s*(?:file|parameters)\s*to:\s*(.{0,400}?model_(\d{1,12})\.pt)", re.ASCII)
BEGIN_OF_TEXT = "<|bos|>"  # the start of any text that the model generates
# Rows without a time: of fine-tuning until January 2026, and of reinforcement learning.
UNTIMED = re.compile(r"^Step \d{1,12}/\d{1,12} \| (?:(?P<sft>Training loss: )|(?P<rl>Average reward: ))", re.ASCII)

# Identifies the program: by its checkpoint directory, or by its command if the shell echoes it.
_STAGES: dict[str, Stage] = {
    "base": "base",
    "mid": "mid",
    "chatsft": "sft",
    "chatrl": "rl",
    "base_train": "base",
    "mid_train": "mid",
    "chat_sft": "sft",
    "chat_rl": "rl",
}
_DIRECTORY = re.compile(r"\b(base|mid|chatsft|chatrl)_checkpoints\b", re.ASCII)
_COMMAND = re.compile(r"\s-m\s+scripts\.(base_train|mid_train|chat_sft|chat_rl)\b", re.ASCII)

# The top of a script's output: a new process, and a new run unless it says that it resumes.
TOP = re.compile(
    r"Autodetected device type: (\w+)|Distributed\s*world\s*size:\s*(\d{1,6})|^GPU: .+ \| Peak FLOPS"
    r"|^--- Hyperparameters ---|^Vocab size: \d|^Target examples per step: \d|^Calculated number of steps: \d",
    re.ASCII,
)
RESUMED = re.compile(r"^Resuming optimization from step \d", re.ASCII)
GPU = re.compile(r"^GPU:\s*(.{1,100}?)\s*\|\s*Peak\s*FLOPS\s*\(BF16\):\s*(\d\.\d\de\+\d\d|inf)", re.ASCII)
# What shell scripts print about the machine before they start anything.
MACHINE = re.compile(r"^Detected (?:(\d{1,4}) GPU|.{0,60}\bgpus=(\d{1,4}), vram_mib=(\d{3,7})\b)", re.ASCII)
MICRO_BATCH = re.compile(rf"Tokens / micro-batch / rank: {_INT} x {_INT} = {_INT}", re.ASCII)
WORLD_MICRO_BATCH = re.compile(rf"Tokens / micro-batch: {_INT}", re.ASCII)
BATCH = re.compile(rf"Total batch size {_INT} =>", re.ASCII)
SLOWRUN_BATCH = re.compile(rf"^Batch size: {_INT} tokens, grad accum: (\d{{1,9}}) steps", re.ASCII)
SLOWRUN_KNOB = re.compile(
    r"\b(n_layer|n_embd|n_head|seq_len|device_batch_size|weight_decay|dropout)=(\d{1,9}(?:\.\d{1,9})?)", re.ASCII
)
SLOWRUN_NAMES = {"seq_len": "block_size", "device_batch_size": "batch_size"}
# The model's config: as JSON with a line per entry or, if a model is loaded, as a dict on one line.
CONFIG = re.compile(r"""^\s*("\w{1,20}": \d{1,12}),$|Building\s*model\s*with\s*config:\s*(\{[^}]{1,500}\})""", re.ASCII)
_SHAPE = re.compile(r"""["'](sequence_len|vocab_size|n_layer|n_head|n_kv_head|n_embd)["']:\s*(\d{1,12})""", re.ASCII)
_PLAIN_MODEL = 6  # entries in a config, until attention windows were added in January 2026
ENDED = re.compile(
    rf"(?P<finished>^(?:Peak memory usage|Total training time|Minimum validation bpb): )|{ENDING}", re.ASCII
)
# A line that may continue on the next one.
OPENS = re.compile(r"\bstep\s*\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - |Saved\s*model\s|^GPU: ", re.ASCII)


# Lines with one figure that can be used as a fact.
PLAIN: tuple[tuple[re.Pattern[str], str, Callable[[str], FactValue]], ...] = tuple(
    (re.compile(pattern, re.ASCII), name, read)
    for pattern, name, read in (
        (rf"^Vocab size: {_INT}", "vocab_size", to_int),
        (r"^num_layers: (\d{1,9})", "n_layer", to_int),
        (r"^model_dim: (\d{1,9})", "n_embd", to_int),
        (r"^num_heads: (\d{1,9})", "n_head", to_int),
        (rf"^Number of parameters: {_INT}", "parameters", to_int),
        (rf"^total {{5,}}: {_INT}", "parameters", to_int),  # the last line under "Parameter counts:"
        (rf"^Parameters: {_INT} \(", "parameters", to_int),
        (r"^(?:Estimated )?FLOPs per token: (\d\.\d{1,15}e\+\d\d)", "flops_per_token", float),
        (rf"number of iterations(?: from target [^:]{{1,9}}(?::param ratio)?)?: {_INT}", "max_iters", to_int),
        (r"Distributed\s*world\s*size:\s*(\d{1,6})", "gpu_count", to_int),
        (r"^COMPUTE_DTYPE: torch\.(\w{1,20})", "dtype", str),
    )
)


def shape_of_config(config: str) -> dict[str, int | float]:
    """Facts from a model's config, or from one line of it.

    A complete config also gives the FLOPs per token, which only base training prints: until heads shared keys or had
    windows, nanochat counted them as nanoGPT does.
    """
    shape = {name: int(value) for name, value in _SHAPE.findall(config)}
    facts: dict[str, int | float] = {name: value for name, value in shape.items() if name != "n_kv_head"}
    if "sequence_len" in facts:
        facts["block_size"] = facts.pop("sequence_len")
    if len(shape) == _PLAIN_MODEL == config.count(":") and shape["n_head"] == shape["n_kv_head"]:
        layers, width = shape["n_layer"], shape["n_embd"]
        multiplied = 12 * layers * width * width + shape["vocab_size"] * width
        facts["flops_per_token"] = flops_per_token(multiplied, layers, width, shape["sequence_len"])
    return facts


def stage_of_row(found: re.Match[str]) -> Stage | None:
    return stage_of_form(total=found["total"] is not None or found["minutes"] is None, epoch=found["epoch"] is not None)


def stage_of_form(*, total: bool, epoch: bool) -> Stage | None:
    """Only base training prints its total; only midtraining had neither that nor an epoch."""
    return "base" if total else None if epoch else "mid"


def stage_of_directory(path: str) -> Stage | None:
    """The stage that saves its checkpoints in this directory."""
    found = _DIRECTORY.findall(path)
    return _STAGES[found[-1]] if found else None


def stage_of_command(line: str) -> Stage | None:
    """The stage of the program that a command line starts."""
    found = _COMMAND.search(line)
    return _STAGES[found[1]] if found else None
