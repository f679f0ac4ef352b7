"""Every flag and knob that takes a number, with absurd numbers: a correct answer or a one-line error."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.config import KNOBS

from ..train.conftest import TINY, write_corpus
from .conftest import WriteLog, unmeasured

ODD = ["1e-300", "1e308", "nan", "inf", "-0.0", "-1", f"1{'0' * 400}", f"1{'0' * 18}"]
NO_NUMBERS = {"--out", "--html", "--write", "--keep", "--lang", "--config", "--stage", "--gpu", "--dataset"}
ENDLESS = {"max_iters"}  # 10**18 steps are what was requested
FIXED = {
    "explain": ["{log}"],
    "compare": ["{log}", "{log}"],
    "gate": ["{log}", "{log}", "--slower=1%"],
    "recommend": ["--gpu=4090"],
    "prepare": ["{log}", "--tokenizer=bytes", "--out={room}/prepared", "--restart"],
}


def flags_of(command: str) -> Iterator[str]:
    parser = argparse.ArgumentParser()
    importlib.import_module(f"nanopace.cli.commands.{command}").add_arguments(parser)
    for action in parser._actions:
        if action.option_strings and action.nargs != 0:
            yield action.option_strings[-1]


def assert_one_line_or_an_answer(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = main(words)
    said = capsys.readouterr()
    assert code in (0, 2) or (words[0] == "gate" and code in (1, 3)), words
    assert code != 2 or (said.err.count("\n") == 1 and said.err.startswith("nanopace: ")), said.err


@pytest.mark.parametrize(
    ("command", "flag"), [(each, flag) for each in FIXED for flag in flags_of(each) if flag not in NO_NUMBERS]
)
def test_odd_numbers_of_every_flag(
    write_log: WriteLog, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, flag: str
) -> None:
    fixed = [each.format(log=write_log(), room=tmp_path) for each in FIXED[command]]
    for value in ODD:
        assert_one_line_or_an_answer([command, *fixed, f"{flag}={value}"], capsys)


@pytest.mark.parametrize("value", ODD)
def test_odd_numbers_of_every_knob(capsys: pytest.CaptureFixture[str], value: str) -> None:
    """As far as flags alone can be checked: there is no corpus."""
    for name, knob in KNOBS.items():
        if isinstance(knob.default, (int, float)) and name not in ENDLESS:
            words = ["train", f"--{name}={value}", "--dataset=/nothing/here", "--device=cpu", "--eval_only=True"]
            assert_one_line_or_an_answer(words, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("value", ["1e-300", "1e-320"])
def test_an_error_that_no_corpus_can_reach_takes_all_windows(tmp_path: Path, value: str) -> None:
    given = {
        **TINY,
        "dataset": str(write_corpus(tmp_path / "corpus")),
        "out_dir": str(tmp_path / "out"),
        "max_iters": 1,
    }
    assert main(["train", *(f"--{name}={each}" for name, each in given.items()), f"--eval_target_error={value}"]) == 0


@pytest.mark.parametrize("words", [["prepare", "{log}", "--tokenizer=bytes", "--out={room}/prepared"]])
def test_no_thread_is_one_line(write_log: WriteLog, tmp_path: Path, words: list[str]) -> None:
    program = """
import sys, threading
def start(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = start
from nanopace.cli.main import main
sys.exit(main())
"""
    given = [each.format(log=write_log(), room=tmp_path) for each in words]
    ran = subprocess.run(
        [sys.executable, "-c", program, *given], env=unmeasured(), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("nanopace: cannot start a thread")
    assert ran.stderr.count("\n") == 1
