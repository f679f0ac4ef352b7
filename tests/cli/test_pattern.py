"""`--pattern` on the command line: explain, compare, and the pattern suggested when a log is refused."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path

import pytest

from nanopace import open_run
from nanopace.cli.main import main

from .refused import refused

pytest.importorskip("re2", reason="needs google-re2")

Capture = pytest.CaptureFixture[str]
ROW = r"(?P<iteration>\d+): (?P<loss>\S+) in (?P<ms>[\d.]+)"


def text_of(step_ms: float = 100.0, mark: str = ": ") -> str:
    return "".join(f"{at}{mark}{4 - at / 400:.4f} in {step_ms + at % 3:.2f} ms\n" for at in range(0, 400, 10))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "mine.log"
    path.write_text(text_of(), encoding="utf-8")
    return path


def test_explain(log: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["explain", str(log), "--pattern", ROW, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["source"]["rows"], found["step"]["median_ms"]) == (40, 101.0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(log.read_bytes())))
    assert main(["explain", "-", f"--pattern={ROW}"]) == 0
    assert "read with --pattern" in capsys.readouterr().out
    assert len(open_run(log, pattern=ROW).rows) == 40


def test_what_is_wrong_is_said_before_the_log_is_read(tmp_path: Path, capsys: Capture) -> None:
    said = refused(capsys, "explain", str(tmp_path / "missing.log"), "--pattern", r"(?P<ms>\d+)")
    assert said.startswith(r"--pattern (?P<ms>\d+): has no group named iteration")
    assert refused(capsys, "compare", "a.log", "b.log", "--pattern", "B=(").startswith("--pattern (: missing )")


def test_a_directory_is_refused(log: Path, capsys: Capture) -> None:
    said = refused(capsys, "explain", str(log.parent), "--pattern", ROW)
    assert said == f"--pattern reads a file, but {log.parent} is a directory"


def test_compare_by_letter(log: Path, tmp_path: Path, capsys: Capture) -> None:
    other, known = tmp_path / "other.log", tmp_path / "known.log"
    other.write_text(text_of(200.0, mark=" -> "), encoding="utf-8")
    known.write_text("".join(f"iter {at}: loss 3.0000, time 50.00ms\n" for at in range(40)), encoding="utf-8")
    arguments = ["compare", "--json", str(log), str(other), str(known)]
    arguments += ["--pattern", f"A={ROW}", "--pattern", f"B={ROW.replace(': ', ' -> ')}"]
    assert main(arguments) == 0
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    assert [(pair["median_ms"]["a"], pair["median_ms"]["b"]) for pair in pairs] == [(101.0, 201.0), (101.0, 50.0)]
    assert main(["compare", "--json", str(log), str(log), "--pattern", ROW]) == 0
    assert json.loads(capsys.readouterr().out)["median_ms"]["ratio"] == 1.0
    said = refused(capsys, "compare", str(log), str(log), "--pattern", ROW, "--pattern", f"C={ROW}")
    assert said == "C: no such run; the runs are A, B"


def test_gate(log: Path, tmp_path: Path, capsys: Capture) -> None:
    slower = tmp_path / "slower.log"
    slower.write_text(text_of(130.0), encoding="utf-8")
    assert main(["gate", str(slower), str(log), "--slower", "5%", "--pattern", ROW]) == 1
    assert main(["gate", str(log), str(slower), "--slower", "5%", "--pattern", ROW]) == 0
    assert "not slower" in capsys.readouterr().out
    assert refused(capsys, "gate", str(log), str(log), "--slower=5%", "--pattern", "(").startswith("--pattern (: ")


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_the_offer_is_taken_as_it_is_printed(log: Path, language: str, capsys: Capture) -> None:
    said = refused(capsys, "explain", str(log), "--lang", language)
    offered = shlex.split(said[said.index("--pattern") :])
    assert main(["explain", str(log), *offered, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["step"]["median_ms"] == 101.0
