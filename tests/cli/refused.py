"""A command line that must be refused."""

from __future__ import annotations

import pytest

from nanopace.cli.main import main


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run it, and return its message: one line, with nothing on standard output."""
    capsys.readouterr()
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("nanopace: ")
    assert err.count("\n") == 1
    return err.removeprefix("nanopace: ").removesuffix("\n")
