from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nanopace.cli.commands import doctor
from nanopace.cli.main import main

Capture = pytest.CaptureFixture[str]


def asked(printed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Replaces `python -m nanopace.train.doctor` with this program: a machine of another kind."""
    program = tmp_path / "program.py"
    program.write_text(printed)
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _, **how: start([sys.executable, str(program)], **how))
    monkeypatch.setattr(doctor, "_DISK_BYTES", 1 << 20)
    monkeypatch.chdir(tmp_path)


CARD = (
    "import json\n"
    "print(json.dumps({'code': 'card', 'name': 'NVIDIA H200', 'capability': '9.0', 'driver': '570.1', 'cards': 1,"
    " 'memory_gb': 139.8, 'free_gb': FREE}))\n"
    "print(json.dumps({'code': 'speed', 'dtype': 'bfloat16', 'tflops': TFLOPS, 'peak_tflops': 989.0, 'sm_mhz': 1400.0,"
    " 'throttle': 'power_cap'}))\n"
    "print(json.dumps({'code': 'compile_fails', 'reason': 'no C compiler'}))\n"
)


@pytest.mark.slow
def test_this_machine(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "_DISK_BYTES", 1 << 20)
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert f"Python {sys.version.split()[0]}" in said
    assert "torch.compile works" in said
    assert "disk: writes" in said
    assert "BAD" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_card(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked(CARD.replace("FREE", "139.2").replace("TFLOPS", "712.0"), monkeypatch, tmp_path)
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert "ok    NVIDIA H200, 139 of 140 GB free, sm 9.0, driver 570.1" in said
    assert (
        "ok    large bfloat16 matrix products reach 712 TFLOP/s, 72.0% of the card's peak, 1,400 MHz, "
        "throttled by power_cap"
    ) in said
    assert "BAD   torch.compile fails: no C compiler" in said


def test_marks_and_units_are_the_language_s(capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    works = "import json\nprint(json.dumps({'code': 'compile', 'seconds': 6.5}))\n"
    asked(works + CARD.replace("FREE", "9.5").replace("TFLOPS", "712.0"), monkeypatch, tmp_path)
    assert main(["doctor", "--lang=fr"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert "ok         torch.compile fonctionne (6,50 s)" in said
    assert any(line.startswith("attention  NVIDIA H200, 9,5 Go libres sur 140, sm 9.0, pilote 570.1") for line in said)
    assert any(line.startswith("ÉCHEC      torch.compile") for line in said)


def test_a_card_that_others_use_and_that_is_slow(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked(CARD.replace("FREE", "20.0").replace("TFLOPS", "212.0"), monkeypatch, tmp_path)
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "warn  NVIDIA H200, 20 of 140 GB free" in said
    assert "check nvidia-smi" in said
    assert "warn  large bfloat16 matrix products reach 212 TFLOP/s" in said


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("raise ModuleNotFoundError(\"No module named 'torch'\")", "BAD   torch is not installed: pip install"),
        ("raise OSError('libcuda is broken')", "BAD   torch fails on this machine: OSError: libcuda is broken"),
        ("import os; os.abort()", "BAD   torch fails on this machine: exit code -6"),
        ("import time; time.sleep(60)", "BAD   torch hangs: no answer after 1.00 s"),
    ],
)
def test_torch_that_cannot_answer(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, line: str
) -> None:
    asked(program, monkeypatch, tmp_path)
    monkeypatch.setattr(doctor, "_PATIENCE_S", 1.0 if "sleep" in program else 60.0)
    assert main(["doctor"]) == 1
    assert line in capsys.readouterr().out


def test_a_disk_that_is_not_there(capsys: Capture) -> None:
    assert main(["doctor", "--out_dir=nowhere"]) == 2
    assert capsys.readouterr().err == "nanopace: --out_dir nowhere: no such directory\n"
