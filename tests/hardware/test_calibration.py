"""What is stored about a machine's real peak, and what is rejected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nanopace.hardware.calibration import cache_directory, measured_tflops, question, read_calibration, rows_for

ASKED = question("NVIDIA H200", "2.11.0", "bfloat16", 12, 768, 50304, 8192)
KEPT: dict[str, object] = {
    "device": "NVIDIA H200",
    "torch": "2.11.0",
    "dtype": "bfloat16",
    "date": "2026-01-01T00:00:00+00:00",
    "peak_tflops": 790.0,
    "model_tflops": 610.0,
    "products": {"qkv": 600.0},
    "seconds": 6.0,
    "sm_mhz": 1750.0,
    "throttle": "power_cap",
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache_directory().mkdir()
    return cache_directory() / "calibration.json"


def test_what_was_measured_is_read_for_the_same_question_only(file: Path) -> None:
    assert read_calibration(ASKED) is None
    file.write_text(json.dumps({ASKED: json.dumps(KEPT)}))
    found = read_calibration(ASKED)
    assert (found.peak_tflops, found.model_tflops, found.throttle) == (790.0, 610.0, "power_cap")
    assert read_calibration(ASKED.replace("H200", "H100")) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        json.dumps({ASKED: 3}),
        json.dumps({ASKED: "{}"}),
        json.dumps({ASKED: json.dumps({**KEPT, "peak_tflops": "fast"})}),
        json.dumps({ASKED: json.dumps({**KEPT, "model_tflops": 0.0})}),
        json.dumps({ASKED: json.dumps({**KEPT, "more": 1})}),
        "[" * 100_000,
    ],
)
def test_what_cannot_be_read_is_unknown(file: Path, text: str) -> None:
    file.write_text(text)
    assert read_calibration(ASKED) is None


def test_the_last_measurement_of_a_card_is_its_peak(file: Path) -> None:
    assert measured_tflops("NVIDIA H200", "bfloat16") is None
    later = {**KEPT, "date": "2026-02-01T00:00:00+00:00", "peak_tflops": 780.0}
    file.write_text(json.dumps({"a": json.dumps(later), "b": json.dumps(KEPT)}))
    assert measured_tflops("NVIDIA H200", "bfloat16") == 780.0
    assert measured_tflops("NVIDIA H200", "float32") is None
    assert measured_tflops("NVIDIA H100", "bfloat16") is None


def test_logits_bound_the_rows() -> None:
    assert rows_for(True, 64 * 1024, 50304) == 10624
    assert rows_for(True, 1024, 50304) == 1024
    assert rows_for(False, 64 * 1024, 50304) == 320
    assert rows_for(False, 16, 256) == 64
