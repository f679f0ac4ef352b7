"""Real matrix products, for a moment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from nanopace import diagnose, open_run
from nanopace.hardware.calibration import measured_tflops, question, read_calibration
from nanopace.train.calibrate import main, products

from .runs import run as trained


def test_the_products_are_those_of_a_step() -> None:
    """6 FLOPs for each multiplied weight and each token: 2 forward, 4 backward."""
    works = products(n_layer=3, n_embd=64, vocab_size=1000, rows=128)
    flops = sum(2 * a * b * c * work.times for work in works for a, b, c in work.sizes)
    assert flops == 6 * 128 * (3 * 12 * 64**2 + 1000 * 64)


def test_a_machine_is_measured_and_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    main(["cpu", "float32", "2", "32", "256", "64", "0.1"])
    found = read_calibration(question("cpu", torch.__version__, "float32", 2, 32, 256, 64))
    assert sorted(found.products) == ["head", "mlp_in", "mlp_out", "out", "qkv"]
    assert min(found.products.values()) <= found.model_tflops <= max(found.products.values())
    assert 0 < found.peak_tflops < 1000
    assert (found.sm_mhz, found.throttle) == (None, None)
    assert len(json.loads((tmp_path / "nanopace" / "calibration.json").read_text())) == 1


def test_a_run_tells_its_share_of_what_was_measured(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its end, and in its ledger, so that it can be explained wherever that is read."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "here"))
    before, _ = trained(corpus, tmp_path / "before", max_iters=4, dtype="float32")
    assert (before.utilisation, before.measured_tflops) == (None, None)
    main(["cpu", "float32", "2", "16", "256", "64", "0.05"])
    peak = measured_tflops("cpu", "float32")
    after, _ = trained(corpus, tmp_path / "after", max_iters=4, dtype="float32")
    assert after.measured_tflops == peak
    assert after.utilisation > 0
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert open_run(tmp_path / "before" / "ledger.jsonl").number("measured_tflops") is None
    run = open_run(tmp_path / "after" / "ledger.jsonl")
    assert run.number("measured_tflops") == peak
    (found,) = [each.numbers for each in diagnose(run).findings if each.code == "utilisation_measured"]
    assert found["card_name"] == "CPU"
    assert found["measured_share"] == pytest.approx(after.utilisation, rel=0.5)  # of all steps, and of the usual ones
