"""The output in docs/reading-a-report.md is what the commands really print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from nanopace.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reading-a-report.md"
EXTRA = "nanopace explain examples/wide-header.log --gpu 4070"


def test_every_block_is_real_output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("COLUMNS", "80")
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:console|text)\n(.*?)\n```", page, re.DOTALL)
    commands = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) == 2
    printed = ""
    for command in (*commands, EXTRA):
        assert main(shlex.split(command)[1:]) == 0
        printed += capsys.readouterr().out
    for block in blocks:
        shown = "\n".join(line for line in block.splitlines() if not line.startswith("$ "))
        assert shown in printed
