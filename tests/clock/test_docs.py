"""The example in the documentation runs, and its ledger can be explained and compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nanopace.cli.main import main

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "clock.md"


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    text = DOCUMENT.read_text("utf-8")
    example = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(example, str(DOCUMENT), "exec"), {"__name__": "__main__"})  # noqa: S102  # our own text
    assert main(["explain", "out/ledger.jsonl"]) == 0
    said = capsys.readouterr().out
    assert "50 rows, iterations 0 to 49" in said
    assert "waiting for data" in said
    assert "best validation" in said
    assert main(["explain", "out"]) == 0
    assert main(["compare", "out/ledger.jsonl", "out/ledger.jsonl"]) == 0
