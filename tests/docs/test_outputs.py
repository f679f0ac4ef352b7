"""The output in the README and docs/reading-a-report.md is what the commands really print."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("outputs", ROOT / "tools" / "outputs.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def test_every_block_is_real_output(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")  # the tool sets them, too; here they are set back afterwards
    monkeypatch.setenv("COLUMNS", "80")
    pages = [path.read_text(encoding="utf-8") for path in tool.PAGES]
    assert "".join(pages).count("```text") > 8
    for page in pages:
        assert tool.refreshed(page) == page, "run `make outputs`"


def test_the_page_of_knobs_is_the_table(tool: Any) -> None:
    assert tool.KNOBS_PAGE.read_text(encoding="utf-8") == tool.knobs_page(), "run `make outputs`"
