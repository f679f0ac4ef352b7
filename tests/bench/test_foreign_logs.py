"""bench/foreign_logs.py agrees with the readers on the examples, and notices differences."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sources.formats.examples.gpt2 import EXAMPLES

import foreign_logs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, log in EXAMPLES.items():
        (tmp_path / f"{name}.log").write_text(log)
    (tmp_path / "notes.md").write_text("step by step\n")
    return tmp_path


def checked(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["foreign_logs.py", *arguments])
    return foreign_logs.main()


def test_they_agree(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Except for rows in a model's output, which a grep mistakes for real ones."""
    status = checked(monkeypatch, str(folder))
    said = capsys.readouterr().out
    different = {line.split()[1] for line in said.splitlines() if line.startswith("DIFFERS")}
    assert different == {"build_nanogpt.log:", "llmc.log:", "llmc_python.log:"}
    assert (status, said.splitlines()[-1]) == (1, f"{len(EXAMPLES)} logs, {len(EXAMPLES) - 3} agree")


def test_the_figures(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(monkeypatch, str(folder / "llama2c.log")) == 0
    assert "llama2c, 1 run(s),       5 rows, last      20, val 9.9200, 25.5 s" in capsys.readouterr().out


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "cut.log"
    monkeypatch.setitem(foreign_logs.TRAINERS, "llmc_log", foreign_logs.Grep(r"^x(?P<step>\d+)", timed=False))
    log.write_text("x1\nx2\n")
    assert checked(monkeypatch, str(log)) == 1
    assert capsys.readouterr().out.startswith("REFUSED  cut.log: ")
