"""When a machine is measured, and when not. How: train/test_calibrate.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nanopace.config import TrainConfig
from nanopace.hardware.calibration import Calibration, cache_directory, question
from nanopace.ledger import RunEvent
from nanopace.record import field_names
from nanopace.tune.search import calibrate_machine as module
from nanopace.tune.search.calibrate_machine import calibrate_machine

CARD = RunEvent("now", "0", {}, gpu="NVIDIA H200", torch="2.11")
FOUND = Calibration("NVIDIA H200", "2.11", "bfloat16", "2026-01-01", 790.0, 610.0, {}, 6.0)


def test_it_is_measured_once_and_only_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ran: list[list[str]] = []

    def run_module(module: str, arguments: list[str], _: Path, __: float) -> int:
        assert module == "nanopace.train.calibrate"
        ran.append(arguments)
        asked = question("NVIDIA H200", "2.11", "bfloat16", 12, 768, 50304, 10624)
        cache_directory().mkdir()
        kept = {name: getattr(FOUND, name) for name in field_names(FOUND)}
        (cache_directory() / "calibration.json").write_text(json.dumps({asked: json.dumps(kept)}))
        return 0

    monkeypatch.setattr(module, "run_module", run_module)
    config = TrainConfig()
    assert calibrate_machine(CARD, config, 5.0, tmp_path) is None
    assert not ran
    assert calibrate_machine(CARD, config, 60.0, tmp_path) == FOUND
    assert ran == [["cuda", "bfloat16", "12", "768", "50304", "10624", "6.0"]]
    assert calibrate_machine(CARD, config, 0.0, tmp_path) == FOUND
    assert len(ran) == 1
