"""The complete command, with real runs on this machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.literals import Value
from nanopace.tune.ablate import trials
from nanopace.tune.trial import Outcome

from ...train.conftest import TINY, write_corpus
from ..refused import refused

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A and B, which differ a lot in width, and in the learning rate, which does not affect the speed."""
    monkeypatch.chdir(tmp_path)
    shared = {**TINY, "dataset": str(write_corpus(tmp_path / "corpus"))}
    for name, more in (("a.py", {"n_embd": 16, "learning_rate": 1e-3}), ("b.py", {"n_embd": 512})):
        Path(name).write_text("".join(f"{key} = {value!r}\n" for key, value in {**shared, **more}.items()))
    return tmp_path


@pytest.mark.slow
def test_two_configs_end_in_what_each_knob_did(configs: Path, capsys: Capture) -> None:
    flags = ["a.py", "b.py", "--steps=4", "--repeats=2", "--keep=kept"]
    assert main(["ablate", *flags, "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert [each["knobs"] for each in found["players"]] == [["n_embd"], ["learning_rate"]]
    width = found["speed"][0]
    assert width["value"] < -width["error"] < 0  # wider is slower, beyond the noise
    assert found["flops"][0]["value"] > 1
    assert found["trials"] == 8
    assert said.err.splitlines()[-1].startswith("8/8 ")
    assert len(list((configs / "kept").glob("*/config.py"))) == 8
    assert main(["ablate", *flags, "--width=80"]) == 0  # nothing is run again
    said = capsys.readouterr()
    assert len(list((configs / "kept").glob("*/config.py"))) == 8
    assert re.match(r"B is \d+\.\d% slower than A: ", said.out)
    assert "n_embd changed the speed by a factor of 0." in said.out
    assert re.search(r"n_embd +16 → 512 +0\.\d+ +0\.\d+\sto\s", said.out)
    assert max(map(len, said.out.splitlines())) <= 80
    assert main(["ablate", *flags, "--html=page.html"]) == 0
    assert capsys.readouterr().out == ""
    page = (configs / "page.html").read_text()
    assert page.count('<li>\n<span class="name">') == 4  # A, two changes, B
    assert "n_embd: 16 → 512" in page


@pytest.mark.slow
def test_runs_do_for_configs_where_they_say_theirs(
    configs: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for name in ("a", "b"):
        assert main(["train", f"{name}.py", f"--out_dir={name}", "--max_iters=1", "--no-report"]) == 0
    monkeypatch.setattr(
        trials, "run_trial", lambda knobs, *_: Outcome(failure=None, seconds=1, tokens_per_second=1e5 / knobs["n_embd"])
    )
    capsys.readouterr()
    assert main(["ablate", "a", "b", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["knobs"][0]: (each["before"], each["after"]) for each in found["players"]} == {
        "n_embd": ([16], [512]),
        "learning_rate": ([0.001], [0.01]),
    }
    (configs / "silent.log").write_text("iter 0: loss 4.2, time 12.00ms, mfu 1.00%\n" * 3)
    assert "silent.log: does not contain its config" in refused(capsys, "ablate", "a", "silent.log")


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome(failure="memory", seconds=1), "ran out of memory"),
        (Outcome(failure="time", seconds=1), "took longer than --timeout 600 s"),
        (Outcome(failure="error", seconds=1, said="the disk is full"), "failed: the disk is full"),
    ],
)
@pytest.mark.usefixtures("configs")
def test_a_run_that_fails_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, outcome: Outcome, expected: str
) -> None:
    monkeypatch.setattr(trials, "run_trial", lambda *_: outcome)
    assert main(["ablate", "a.py", "b.py"]) == 2
    assert expected in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.usefixtures("configs")
def test_what_is_in_the_way_is_said(capsys: Capture) -> None:
    Path("full").mkdir()
    Path("full", "thesis.txt").write_text("mine")
    for flags, expected in (
        (["--keep=full"], "full: is not empty"),
        (["--keep=a.py"], "a.py: cannot be written"),
        (["--together=n_embd,width"], "--together: unknown knob width"),
    ):
        assert expected in refused(capsys, "ablate", "a.py", "b.py", *flags)
    assert "no setting that affects a run differs" in refused(capsys, "ablate", "a.py", "a.py")
    assert Path("full", "thesis.txt").read_text() == "mine"


def test_results_of_other_configs_are_not_mixed_in(
    configs: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    noise = iter(range(10**6))
    monkeypatch.setattr(
        trials, "run_trial", lambda *_: Outcome(failure=None, seconds=1, tokens_per_second=1000.0 + next(noise) % 7)
    )
    assert main(["ablate", "a.py", "b.py", "--keep=kept"]) == 0
    assert "there is no conclusion" in capsys.readouterr().out.replace("\n", " ")
    assert "kept: contains other runs" in refused(capsys, "ablate", "a.py", "b.py", "--keep=kept", "--repeats=4")
    assert (configs / "kept" / "results.jsonl").exists()


@pytest.mark.slow
def test_changes_to_one_config_are_compared_by_their_loss(configs: Path, capsys: Capture) -> None:
    tries = ["--try=n_embd=32,n_head=4", "--try", "learning_rate=1e-9,min_lr=1e-9"]
    flags = ["a.py", *tries, "--loss=12", "--repeats=2", "--keep=kept"]
    assert main(["ablate", *flags, "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert [each["setting"] for each in found["effects"]] == ["n_embd=32, n_head=4", "learning_rate=1e-9, min_lr=1e-9"]
    assert found["effects"][1]["loss"]["value"] > 0.05  # that learns nothing
    assert said.err.splitlines()[-1].startswith("6/6 ")
    seeds = [re.search(r"seed = (\d+)", each.read_text()) for each in (configs / "kept").glob("*/config.py")]
    assert sorted(each[1] for each in seeds if each) == ["1337"] * 3 + ["1338"] * 3
    assert main(["ablate", *flags, "--width=80"]) == 0  # nothing is run again
    said = capsys.readouterr()
    assert len(list((configs / "kept").glob("*/config.py"))) == 6
    assert "What each change does" in said.out
    assert re.search(r"learning_rate=1e-9, +\d\.\d{4} +\+\d\.\d{4} ± ", said.out)
    assert max(map(len, said.out.splitlines())) <= 80
    assert main(["ablate", *flags, "--html=page.html"]) == 0
    page = (configs / "page.html").read_text()
    assert page.count('<li>\n<span class="name">') == 3  # A and two changes
    assert "kept: contains other runs" in refused(capsys, "ablate", *flags[:-1], "--keep=kept", "--try=n_layer=1")


@pytest.mark.usefixtures("configs")
def test_a_change_that_fails_ends_nothing_but_a_itself_does(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    full = Outcome(failure="memory", seconds=1)

    def run_trial(knobs: dict[str, Value], *_: object) -> Outcome:
        return full if knobs["n_embd"] == 512 else Outcome(failure=None, seconds=1, tokens_per_second=1000)

    monkeypatch.setattr(trials, "run_trial", run_trial)
    assert main(["ablate", "a.py", "--try=n_embd=512", "--try=n_embd=64", "--width=80"]) == 0
    said = capsys.readouterr()
    assert re.search(r"n_embd=512 +out of memory\n", said.out)
    assert re.search(r"n_embd=64 +1\.000 ", said.out)
    assert said.err.splitlines()[-1].startswith("7/7 ")  # what failed is not tried again
    for failed, expected in (
        (full, "the run with A's settings ran out of memory; without it there is no answer"),
        (Outcome(failure="time", seconds=1), "the run with A's settings took longer than --timeout 600 s"),
        (Outcome(failure="error", seconds=1, said="why"), "the run with A's settings failed: why"),
    ):
        monkeypatch.setattr(trials, "run_trial", lambda *_, failed=failed: failed)
        assert main(["ablate", "a.py", "--try=n_embd=64"]) == 2
        assert expected in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], "pass either a second config, B, or changes to the first: --try matrix_lr=0.02"),
        (["b.py", "--try=n_embd=64"], "pass either a second config, B, or changes"),
        (["--try=n_embd=64", "--together=n_embd,n_head"], "--together: only with a second config, B"),
        (["--try=n_embd"], "--try n_embd: must be name=value, such as batch_size=8"),
        (["--try=n_embt=4"], "--try n_embt: unknown setting; did you mean n_embd?"),
        (["--try=n_embd=64,learning_rate=high"], "--try learning_rate: must be float"),
        (["--try=max_iters=4"], "--try max_iters=4: max_iters is the same in all runs"),
        (["--try=n_head=3"], "--try n_head=3: n_embd must be a multiple of n_head"),
    ],
)
@pytest.mark.usefixtures("configs")
def test_changes_that_cannot_be_tried_are_refused(capsys: Capture, flags: list[str], expected: str) -> None:
    assert expected in refused(capsys, "ablate", "a.py", *flags)


def test_results_with_one_seed_for_all_repeats_are_not_mixed_in(configs: Path, capsys: Capture) -> None:
    """As 0.1 stored them."""
    (configs / "kept").mkdir()
    old = '{"settings": [{"n_embd": 16, "max_iters": 20}, {"n_embd": 512, "max_iters": 20}], "repeats": 3}'
    (configs / "kept" / "plan.json").write_text(old)
    assert "kept: contains other runs; choose another directory" in refused(
        capsys, "ablate", "a.py", "b.py", "--keep=kept"
    )
    assert (configs / "kept" / "plan.json").read_text() == old
