"""Files and flags in any order mean what they mean to nanoGPT's train.py."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanopace.cli.commands import train
from nanopace.cli.main import main
from nanopace.config import KNOBS, Asked

from .refused import refused

NAMES = ("batch_size", "n_layer", "max_iters", "lr_decay_iters", "learning_rate")


def asked(arguments: Sequence[str]) -> Asked:
    """The settings that `nanopace train` reads from them."""
    understood: list[argparse.Namespace] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "run", lambda args: understood.append(args) or 0)
        assert main(["train", *arguments]) == 0
    return train.read_asked(understood[0])


numbers = st.integers(1, 5).map(str)  # six times as much with every line, at most: still a count after 15
expressions = st.one_of(
    numbers,
    st.sampled_from(NAMES[:4]),
    st.tuples(st.sampled_from((*NAMES[:4], "own")), st.sampled_from("+*"), numbers).map("".join),
)
lines = st.one_of(
    st.tuples(st.sampled_from((*NAMES, "own")), st.sampled_from((" = ", " += ")), expressions).map("".join),
    st.tuples(st.sampled_from(NAMES), st.just(" = other = "), expressions).map("".join),
)
files = st.lists(lines, min_size=1, max_size=3).map(lambda each: "own = 1\n" + "\n".join(each))
flags = st.tuples(st.sampled_from(NAMES), numbers)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(st.one_of(files, flags), max_size=5), data=st.data())
def test_the_later_one_wins(said: list[Any], data: st.DataObject, tmp_path: Path) -> None:
    """nanoGPT runs its files and sets its flags one after another, over its defaults."""
    expected: dict[str, Any] = {name: knob.default for name, knob in KNOBS.items()}
    arguments: list[str] = []
    last: dict[str, str] = {}
    for number, each in enumerate(said):
        if isinstance(each, str):
            path = tmp_path / f"{number}.py"
            path.write_text(each)
            exec(each, {}, expected)  # noqa: S102  # our own text
            last |= {line.split()[0]: "file" for line in each.split("\n")}
            arguments += data.draw(st.sampled_from([[str(path)], ["--config", str(path)]]))
        else:
            name, value = each
            expected[name] = int(value)
            last[name] = "flag"
            arguments += data.draw(st.sampled_from([[f"--{name}={value}"], [f"--{name}", value]]))
    understood = asked(arguments)
    assert understood.given == {name: expected[name] for name in NAMES if name in last}
    assert understood.flags == {name for name, kind in last.items() if kind == "flag"}
    assert len(understood.files) == sum(isinstance(each, str) for each in said)
    assert understood.notes == ()


def test_what_is_not_known_in_one_file_is_not_known_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("import time\nwandb_run_name = str(time.time())\n")
    Path("b.py").write_text("out_dir = 'out/' + wandb_run_name\n")
    assert "b.py, line 1: " in refused(capsys, "train", "a.py", "b.py")
    understood = asked(["a.py", "--wandb_run_name=mine", "b.py"])
    assert understood.given == {"wandb_run_name": "mine", "out_dir": "out/mine"}
    assert understood.notes == ()
    understood = asked(["--wandb_run_name=mine", "a.py"])
    assert understood.given == {"wandb_run_name": "mine"}
    assert understood.notes == ("a.py, line 2: wandb_run_name stays 'mine', since nothing is executed",)


def test_several_processes_are_told_the_same_in_the_same_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr("nanopace.train.launch.launch", lambda *said: told.extend(said[2]) or 0)
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("batch_size = 2\nn_layer = 2\n")
    Path("b.py").write_text("batch_size = batch_size * 3\n")
    arguments = ["--n_layer=7", "a.py", "--batch_size", "5", "b.py", "--out_dir=a b", "--without="]
    assert main(["train", *arguments, "--gpus", "2", "--no-report", "--device=cpu"]) == 0
    assert told[0] == "train"
    assert "--no-report" in told
    assert asked(told[1:]) == asked([*arguments, "--device=cpu"])
    assert asked(told[1:]).given["batch_size"] == 15


def test_words_that_are_values_and_words_that_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.py", "-c.py"):
        Path(name).write_text("seed = 1\n")
    assert asked(["a.py", "--seed", "2", "--no-report", "b.py", "--lang", "de"]).files == ("a.py", "b.py")
    assert asked(["a.py", "--", "-c.py"]).files == ("a.py", "-c.py")
    assert asked(["--save_interval", "-1"]).given == {"save_interval": -1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--batch_size"], "expected one argument"),
        (["a.py", "--batch_size"], "expected one argument"),
        (["--batch_size", "--seed=1"], "expected one argument"),
        (["a.py", "--nothing=1"], "unrecognized arguments"),
        ([""], "--config: must not be empty"),
        (["--download"], "--download: init_from=scratch is not something to download"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.py").touch()
    assert said in refused(capsys, "train", *arguments)
