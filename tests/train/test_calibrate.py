"""Real products, for moments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from nanopace.hardware.calibration import question, read_calibration
from nanopace.train.calibrate import main, products


def test_the_products_are_those_of_a_step() -> None:
    """6 FLOP for each weight that is multiplied and each token: forward 2, backward 4."""
    works = products(n_layer=3, n_embd=64, vocab_size=1000, rows=128)
    flops = sum(2 * a * b * c * work.times for work in works for a, b, c in work.sizes)
    assert flops == 6 * 128 * (3 * 12 * 64**2 + 1000 * 64)


def test_a_machine_is_measured_and_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    main(["cpu", "float32", "2", "32", "256", "64", "0.1"])
    found = read_calibration(question("cpu", torch.__version__, "float32", 2, 32, 256, 64))
    assert found is not None
    assert sorted(found.products) == ["head", "mlp_in", "mlp_out", "out", "qkv"]
    assert min(found.products.values()) <= found.model_tflops <= max(found.products.values())
    assert 0 < found.peak_tflops < 1000
    assert (found.sm_mhz, found.throttle) == (None, None)
    assert len(json.loads((tmp_path / "nanopace" / "calibration.json").read_text())) == 1
