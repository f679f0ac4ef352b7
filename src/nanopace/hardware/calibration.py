"""What matrix products really reach on this machine, as train/calibrate.py measured it. Read without torch.

It lies in the user's cache directory beside what else was found out. What nobody measured is None.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from nanopace.record import Record

TOPIC = "calibration"
_LARGEST_FILE = 1 << 20  # bytes
_NUMBERS = ("peak_tflops", "model_tflops", "seconds")


class Calibration(Record):
    """Products of large square matrices, sustained, and of those that a model has: forward and backward."""

    device: str  # the card as the driver calls it, or cpu
    torch: str
    dtype: str
    date: str  # ISO 8601
    peak_tflops: float
    model_tflops: float  # all products of one step together
    products: Mapping[str, float]  # TFLOP/s by name: qkv, out, mlp_in, mlp_out, head
    seconds: float
    sm_mhz: float | None = None  # the median, meanwhile
    throttle: str | None = None  # what held the clocks back


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nanopace"


def question(device: str, torch: str, dtype: str, n_layer: int, n_embd: int, vocab_size: int, rows: int) -> str:
    """The key of a calibration: everything that its result depends on."""
    return f"{device}, torch {torch}, {dtype}, {n_layer} layers of {n_embd}, {vocab_size} tokens, {rows} rows"


def rows_for(on_a_card: bool, tokens: int, vocab_size: int) -> int:
    """Rows of the products: the tokens of a micro-batch, as far as their logits take no more than a GiB."""
    most = (1 << 29) // vocab_size if on_a_card else (1 << 24) // vocab_size
    return max(64, min(tokens, most) // 64 * 64)


def read_calibration(asked: str) -> Calibration | None:
    """The answer to `question`; None where nobody asked it yet, or what is there cannot be read."""
    return _read_all().get(asked)


def measured_tflops(device: str, dtype: str) -> float | None:
    """What large products were last measured to reach on a card of this name, to four digits, for it is no more exact;
    None where nobody did."""
    known = [each for each in _read_all().values() if each.device == device and each.dtype == dtype]
    return float(f"{max(known, key=lambda each: each.date).peak_tflops:.4g}") if known else None


def _read_all() -> dict[str, Calibration]:
    """What can be read of the file, by question."""
    try:
        file = open(cache_directory() / f"{TOPIC}.json", "rb")  # noqa: SIM115
    except (OSError, RuntimeError):  # nowhere is home
        return {}
    import json  # only who has measured pays for it

    try:
        with file:
            kept = json.loads(file.read(_LARGEST_FILE))
        return {asked: read for asked, text in kept.items() if (read := _read(json.loads(text))) is not None}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def _read(found: object) -> Calibration | None:
    if not isinstance(found, dict):
        return None
    try:
        calibration = Calibration(**found)
    except TypeError:
        return None
    numbers = [getattr(calibration, name) for name in _NUMBERS]
    texts = (calibration.device, calibration.dtype, calibration.date)
    right = all(isinstance(each, float) and each > 0 for each in numbers) and all(
        isinstance(each, str) for each in texts
    )
    return calibration if right else None
