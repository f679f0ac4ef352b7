"""Compares frozen output with the current one: a refactoring must not change any of it. README.md says more."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import answers, old_files, trainings
from .comparing import differences
from .files import unpack


@pytest.mark.slow
def test_losses_ledgers_and_log_lines(tmp_path: Path) -> None:
    assert differences(trainings.recorded(unpack(tmp_path)), "trainings") == ""


@pytest.mark.slow
def test_files_that_were_made_before_still_load(tmp_path: Path) -> None:
    assert differences(old_files.recorded(unpack(tmp_path)), "files") == ""


def test_help_and_json(tmp_path: Path) -> None:
    assert differences(answers.recorded(unpack(tmp_path)), "answers") == ""
