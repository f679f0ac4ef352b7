"""The output in docs/reading-a-report.md is what the commands really print."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_every_block_is_real_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")  # the tool sets them, too; here they are set back afterwards
    monkeypatch.setenv("COLUMNS", "80")
    spec = importlib.util.spec_from_file_location("reading_a_report", ROOT / "tools" / "reading_a_report.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    page = tool.PAGE.read_text(encoding="utf-8")
    assert page.count("```text") > 8
    assert tool.renewed(page) == page, "run `python tools/reading_a_report.py`"
