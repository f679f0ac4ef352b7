"""The complete command, with real trials on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.config_text import read_config
from nanopace.literals import Value
from nanopace.tune.search import knob_trials, trial_runner
from nanopace.tune.trial import Outcome
from nanopace.wording.numbers import LANGUAGES

from ...train.conftest import TINY, write_corpus


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Value]:
    """A step of 16 sequences, one at a time: on a busy machine, too, much more work than it needs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(knob_trials, "has_compiler", lambda: False)  # it would take a minute
    given: dict[str, Value] = {**TINY, "batch_size": 1, "gradient_accumulation_steps": 16, "dropout": 0.0}
    given["dataset"] = str(write_corpus(tmp_path / "corpus"))
    Path("train.py").write_text("".join(f"{key} = {value!r}\n" for key, value in given.items()))
    return given


def test_a_config_ends_in_a_faster_one(config: dict[str, Value], capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["train.py", "--budget=60m", "--keep=kept"]  # a busy machine may be slow, which does not matter here
    assert main(["tune", *flags, "--json", "--write=tuned.py"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["settings"]["batch_size"] > 1  # here, most of a micro-batch's cost does not depend on its size
    assert found["settings"]["batch_size"] * found["settings"]["gradient_accumulation_steps"] == 16
    assert found["gain"]["value"] > 0
    assert found["cost"]["fixed_ms"] > 0
    assert found["complete"]
    assert found["calibration"]["device"] == "cpu"
    assert found["utilisation"] > 0
    assert [each["verdict"] for each in found["knobs"]] == ["no_compiler"]
    assert said.err.splitlines()[0].startswith("1 as given: ")
    assert len(said.err.splitlines()) == len(found["trials"])
    written = read_config("tuned.py", to_train=True)
    assert written == {**config, **found["settings"]}
    trials = list(Path("kept").glob("*/config.py"))
    assert len(trials) == len(found["trials"])
    for lang in LANGUAGES:  # nothing is run again
        assert main(["tune", *flags, "--width=80", f"--lang={lang}"]) == 0
        report = capsys.readouterr().out
        assert max(map(len, report.splitlines())) <= 80
        assert "batch_size" in report
    assert list(Path("kept").glob("*/config.py")) == trials


@pytest.mark.usefixtures("config")
def test_what_is_in_the_way_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_runner, "run_trial", lambda *_, **__: pytest.fail("nothing is to be run"))
    Path("full").mkdir()
    Path("full", "thesis.txt").write_text("mine")
    Path("bad.py").write_text("n_head = 5\n")
    Path("other").mkdir()
    Path("other", "plan.json").write_text("{}")
    for flags, expected in (
        (["train.py", "--keep=full"], "full: is not empty"),
        (["train.py", "--keep=other"], "other: contains other runs"),
        (["train.py", "--keep=train.py"], "train.py: cannot be written"),
        (["train.py", "--budget=soon"], "--budget must be a time such as 90s or 5m, not 'soon'"),
        (["train.py", "--write=train.py"], "--write train.py: already exists"),
        (["train.py", "--overwrite"], "--overwrite needs --write FILE"),
        (["bad.py"], "n_embd must be a multiple of n_head"),
        (["none.py"], "none.py"),
    ):
        assert main(["tune", *flags]) == 2
        assert expected in capsys.readouterr().err
    assert Path("full", "thesis.txt").read_text() == "mine"


@pytest.mark.usefixtures("config")
def test_a_first_trial_that_fails_or_takes_too_long_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for failure, expected in (("time", "--budget 180s: a single trial"), ("error", "fails to train: disk is full")):
        outcome = Outcome(failure=failure, seconds=1.0, said="disk is full")
        monkeypatch.setattr(trial_runner, "run_trial", lambda *_, outcome=outcome, **__: outcome)
        assert main(["tune", "train.py"]) == 2
        assert expected in capsys.readouterr().err.splitlines()[-1]
