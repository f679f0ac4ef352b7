"""What a user would type, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanopace.cli.main import main

from .truth import Truth

Write = Callable[[Truth | str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a log to a file of this name."""

    def write(log: Truth | str, name: str = "train.log") -> Path:
        path = tmp_path / name
        path.write_text(log if isinstance(log, str) else log.text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """The JSON of a command."""

    def ask(*argv: str | Path) -> Any:
        assert main([*map(str, argv), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return ask


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The English report of a command, without line breaks."""

    def say(*argv: str | Path) -> str:
        assert main([*map(str, argv), "--lang", "en"]) == 0
        return " ".join(capsys.readouterr().out.split())

    return say


@pytest.fixture
def complain(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one-line message of a command that refuses its input."""

    def complain(*argv: str | Path) -> str:
        assert main([*map(str, argv)]) != 0
        said = capsys.readouterr().err.strip()
        assert len(said.splitlines()) == 1, said
        return said

    return complain
