"""What matrix products really reach on this machine, measured by train/calibrate.py. Read without torch.

The results are in the user's cache directory. None: not measured.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from nanopace.record import Record

TOPIC = "calibration"
_LARGEST_FILE = 1 << 20  # bytes: a few hundred answers
_NUMBERS = ("peak_tflops", "model_tflops", "seconds")


class Calibration(Record):
    """Sustained speed of large square matrix products, and of a model's products: forward and backward."""

    device: str  # the card's name from the driver, or cpu
    torch: str
    dtype: str
    date: str  # ISO 8601
    peak_tflops: float
    model_tflops: float  # all products of one step together
    products: Mapping[str, float]  # TFLOP/s by name: qkv, out, mlp_in, mlp_out, head
    seconds: float
    sm_mhz: float | None = None  # median during the measurement
    throttle: str | None = None  # what reduced the clocks


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nanopace"


def question(device: str, torch: str, dtype: str, n_layer: int, n_embd: int, vocab_size: int, rows: int) -> str:
    """The key of a calibration: everything that its result depends on."""
    return f"{device}, torch {torch}, {dtype}, {n_layer} layers of {n_embd}, {vocab_size} tokens, {rows} rows"


def rows_for(on_a_card: bool, tokens: int, vocab_size: int) -> int:
    """Rows of the products: the tokens of a micro-batch, as long as their logits fit in a GiB."""
    most = (1 << 29) // vocab_size if on_a_card else (1 << 24) // vocab_size
    return max(64, min(tokens, most) // 64 * 64)


def read_calibration(asked: str) -> Calibration | None:
    """The calibration for `question`, or None if it was not measured or cannot be read."""
    return _read_all().get(asked)


def measured_tflops(device: str, dtype: str) -> float | None:
    """What large products last reached on a card of this name, to four digits; None if not measured."""
    known = [each for each in _read_all().values() if each.device == device and each.dtype == dtype]
    return float(f"{max(known, key=lambda each: each.date).peak_tflops:.4g}") if known else None


def remembered(topic: str) -> dict[str, str]:
    """The answers on a topic in the cache, by question; none if the file cannot be read."""
    try:
        file = open(cache_directory() / f"{topic}.json", "rb")  # noqa: SIM115
    except (OSError, RuntimeError):  # there is no home directory
        return {}
    import json  # not needed if nothing was measured

    try:
        with file:
            answers = json.loads(file.read(_LARGEST_FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(answers, dict):
        return {}
    return {question: answer for question, answer in answers.items() if isinstance(answer, str)}


def _read_all() -> dict[str, Calibration]:
    """All readable calibrations in the file, by question."""
    return {asked: read for asked, text in remembered(TOPIC).items() if (read := _read(text)) is not None}


def _read(text: str) -> Calibration | None:
    import json

    try:
        calibration = Calibration(**json.loads(text))
    except (TypeError, ValueError, RecursionError):
        return None
    numbers = [getattr(calibration, name) for name in _NUMBERS]
    texts = (calibration.device, calibration.dtype, calibration.date)
    right = all(isinstance(each, float) and each > 0 for each in numbers) and all(
        isinstance(each, str) for each in texts
    )
    return calibration if right else None
