"""The lines of llm.c's programs, in all forms since April 2024."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from nanopace.run import FactValue
from nanopace.sources.rates import printed_rate

_REAL = r"-?(?:\d{1,9}(?:\.\d{1,20})?|nan|inf)"
_STEP = r"(?<![\w-])step\s{1,8}(?P<step>\d{1,12})"
_TOTAL = r"/(?P<total>\d{1,12})"
_MS = r"(?P<ms>\d{1,12}\.\d{1,9})"
_RATE = r"(?P<rate>\d{1,15}(?:\.\d{1,9})?)\stok/s"
_Z = r"\s?(?:\((?:z\s)?[+-](?:\d{1,9}(?:\.\d{1,4})?|nan|inf)z?\))?"

# The CUDA and the C program: since May 2024, with z-scores since summer; in April and May; train_gpt2.c.
_PIPES = (
    rf"{_STEP}{_TOTAL}\s\|\s(?:train\s)?loss\s{{1,12}}(?P<loss>{_REAL}){_Z}\|\snorm\s{{1,12}}{_REAL}{_Z}"
    rf"\|\slr\s[^\s|]{{1,20}}\s\|\s{_MS}\sms"
    rf"(?:\s\|\s(?P<mfu>-?\d{{1,9}}\.\d{{1,3}})%\s(?P<peak>\w{{1,9}})[\w\s]{{0,12}}?\sMFU)?(?:\s\|\s{_RATE})?"
)
_PARENTHESES = (
    rf"{_STEP}{_TOTAL}:\strain\sloss\s{{1,12}}(?P<loss>{_REAL})(?:\s\(acc\s{_REAL}\))?(?:\snorm\s{_REAL})?"
    rf"(?:\slr\s[^\s|(]{{1,20}})?\s\({_MS}\sms(?:,\s{_RATE})?\)"
)
_TOOK = rf"{_STEP}:\strain\sloss\s(?P<loss>{_REAL})\s\(took\s{_MS}\sms\)"
# train_gpt2.py: since June 2024, and in April and May.
_PYTHON = (
    rf"{_STEP}{_TOTAL}\s\|\strain\sloss\s(?P<loss>{_REAL})\s\|\snorm\s{_REAL}\s\|\slr\s[^\s|]{{1,20}}"
    rf"\s\|\s\({_MS}\sms\s\|\s{_RATE}\)"
)
_ITERATION = (
    rf"(?<![\w-])iteration\s(?P<step>\d{{1,12}}),\sloss:\s(?P<loss>{_REAL}),\stime:\s{_MS}ms"
    r"(?:,\stok/s:\s(?P<rate>\d{1,15}(?:\.\d{1,9})?))?"
)
ROWS, PYTHON_ROWS = (
    tuple(re.compile(each, re.ASCII) for each in forms)
    for forms in ((_PIPES, _PARENTHESES, _TOOK), (_PYTHON, _ITERATION))
)

EVALUATION = re.compile(rf"^\s{{0,4}}val loss ({_REAL})\s{{0,80}}$", re.ASCII)
HELLASWAG = re.compile(r"(?<!evaluating )HellaSwag: \d{1,9}/\d{1,9} = (\d\.\d{1,9})", re.ASCII)
CHECKPOINT = re.compile(
    r"^\s{0,4}Writing (?:checkpoint at step (?P<step>\d{1,12})|model to (?P<path>\S{1,500}_(?P<named>\d{8,12})\.bin))"
    r"\s{0,80}$",
    re.ASCII,
)
SKIPPED = re.compile(r"skipping update due to (?:loss|grad) z-score of ")
SENSORS = re.compile(
    r"compute (?P<utilization>\d{1,3}\.\d)% \| memory: \d{1,3}\.\d% \| fan:\s{1,4}\d{1,3}% \|\s{1,6}(?P<mhz>\d{1,5})"
    r" MHz /\s{1,6}\d{1,5} MHz \|\s{1,5}(?P<watts>\d{1,5}) W /\s{1,5}\d{1,5} W \| (?P<celsius>\d{1,3})°C / \d{1,3}°C"
    r" \| (?P<cap>[a-z ]{1,20})"
)
FINISHED = re.compile(r"total average iteration time: |final \d{1,9} iters avg: ", re.ASCII)

TABLE = re.compile(r"\|\s([\w() ]{1,21}?)\s{1,21}\|\s(\S.{0,400}?)\s{1,80}\|\s{0,80}$", re.ASCII)
ACCUMULATION = re.compile(r"=> setting grad_accum_steps=(\d{1,9})\b", re.ASCII)
TOKENS = re.compile(r"total desired batch size: (\d[\d,]{0,20})", re.ASCII)
DEVICE = re.compile(r"^using device: (cuda|mps|cpu)(:\d{1,3})?\s{0,8}$", re.ASCII)  # of each rank, in train_gpt2.py
STARTS = re.compile(r"\|\sParameter\s{1,21}\|\sValue\s|Running pytorch \d", re.ASCII)
# Incomplete, if a terminal has wrapped it.
OPENS = re.compile(
    r"(?<![\w-])step\s{1,8}\d{1,12}(?:/\d{1,12})?(?::| \|)|(?<![\w-])iteration \d{1,12}, loss: ", re.ASCII
)


class Printed(NamedTuple):
    """A row as printed."""

    start: int
    step: int
    total: int | None
    loss: float
    ms: str
    mfu: float | None  # None if the trainer does not know the card's peak (it prints -100%)
    a100: bool  # the mfu is relative to an A100's peak
    rate: str
    smoothed: bool  # the rate
    learning_rate: float | None


def read_row(text: str, forms: tuple[re.Pattern[str], ...]) -> Printed | None:
    """The row in a line, in any of its forms."""
    for form in forms:
        if (found := form.search(text)) is not None:
            named = found.groupdict()
            percent = float(named.get("mfu") or "nan")
            return Printed(
                start=found.start(),
                step=int(named["step"]),
                total=int(named["total"]) if named.get("total") else None,
                loss=float(named["loss"]),
                ms=named["ms"],
                mfu=percent / 100 if percent >= 0 else None,
                a100=named.get("peak") == "A100",
                rate=named.get("rate") or "",
                smoothed="mfu" in named,
                learning_rate=printed_rate(found[0]),
            )
    return None


def whole(text: str) -> int | None:
    """A positive integer."""
    return (int(text) or None) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _positive(text: str) -> float | None:
    try:
        return float(text) if float(text) > 0 else None
    except ValueError:
        return None


def _precision(text: str) -> str | None:
    return {"BF16": "bfloat16", "FP16": "float16", "FP32": "float32", "TF32": "float32"}.get(text.upper())


# Rows of its table that can be used as facts. Of the two contexts, the first is that of the training.
FACTS: dict[str, tuple[str, Callable[[str], FactValue | None]]] = {
    "micro batch size B": ("batch_size", whole),
    "sequence length T": ("block_size", whole),
    "learning rate (LR)": ("learning_rate", _positive),
    "warmup iterations": ("warmup_iters", whole),
    "val_loss_every": ("eval_interval", whole),
    "device": ("gpu", str),
    "peak TFlops": ("printed_peak_tflops", _positive),
    "precision": ("dtype", _precision),
    "vocab_size V": ("vocab_size", whole),
    "num_layers L": ("n_layer", whole),
    "num_heads NH": ("n_head", whole),
    "channels C": ("n_embd", whole),
    "train_num_batches": ("max_iters", whole),
    "num_processes": ("gpu_count", whole),
}
POSITIONS = ("max_sequence_length T", "channels C")
