"""Both trainers in one call: a seed is set, a real run is timed and evaluated, and one fails."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import loss_tables
import time_to_loss
from nanogpt import write_tokens

SMALL = "n_layer=1,n_head=2,n_embd=16,block_size=16,device=cpu,dtype=float32,compile=False,batch=4,accum=2,eval_iters=2"

# The relevant part of a nanoGPT checkout: a train.py that imports its model and sets seed 1337.
TRAIN = """
import sys, torch
from model import NAME
exec(open("configurator.py").read())
torch.manual_seed(1337 + 0)
first = torch.initial_seed()
torch.manual_seed(42)
print(NAME, sys.argv[1], __name__, first, torch.initial_seed())
raise SystemExit(3)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "model.py").write_text("NAME = 'theirs'\n")
    (folder / "configurator.py").write_text("pass\n")
    return folder


def test_another_seed_is_sown_once_and_their_file_is_run_as_it_is(checkout: Path, tmp_path: Path) -> None:
    folder = time_to_loss._sown(checkout, 1339, tmp_path)
    found = subprocess.run(
        [sys.executable, "train.py", "config.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (found.stdout.split(), found.returncode) == (["theirs", "config.py", "__main__", "1339", "42"], 3)
    assert (checkout / "train.py").read_text() == TRAIN


@pytest.mark.slow
def test_a_run_that_fails_is_told_and_the_others_go_on(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Not periodic: the windows of an order are evenly spaced, and would all be the same few.
    tokens = np.random.default_rng(5).integers(0, 32, 6400).astype(np.uint16)
    corpus = write_tokens(tmp_path / "corpus", tokens, tokens[::4], vocab_size=64)
    arguments = ["--corpus", str(corpus), "--reference", "lr=1e-3,iters=6", "--ours", "lr=1e-2,iters=6"]
    more = ["--shared", SMALL, "--keep", str(tmp_path / "kept")]
    monkeypatch.setattr(sys, "argv", ["time_to_loss.py", str(checkout), *arguments, *more])
    time_to_loss.main()
    theirs, ours = [json.loads(line) for line in (tmp_path / "kept" / "results.jsonl").read_text().splitlines()]
    assert theirs["failed"].startswith("exit status 3: theirs ")
    assert "=" not in theirs["failed"], "nanoGPT would take its config's name for a flag"
    assert (ours["steps"], ours["tokens"], ours["windows"]) == (6, 6 * 4 * 2 * 16, 99)
    assert [each["step"] for each in ours["evaluations"]] == [2, 4, 6]
    assert 0 < ours["evaluations"][0]["seconds"] < ours["seconds"] < ours["process_seconds"]
    assert ours["loss"] < math.log(64) + 0.1
    assert ours["loss"] == pytest.approx(ours["evaluations"][-1]["loss"], abs=0.2), "other windows, the same weights"
    assert ours["knobs"]["vocab_size"] == 64
    printed = capsys.readouterr().out
    assert "FAILED: nanoGPT lr=1e-3,iters=6 seed 1337: exit status 3" in printed
    assert "the first setting failed, so there is no goal" in printed
    monkeypatch.setattr(sys, "argv", ["time_to_loss.py", "--table", str(tmp_path / "kept" / "results.jsonl")])
    time_to_loss.main()
    again = capsys.readouterr().out
    assert again.strip() in printed, "the same table from what was kept"


def _record(
    trainer: str, setting: str, seed: int, seconds: float, loss: float, corpus: str = "code"
) -> dict[str, object]:
    evaluations = [
        {"step": 5, "seconds": seconds / 2, "loss": loss + 0.1},
        {"step": 9, "seconds": seconds, "loss": loss},
    ]
    return {
        "card": "a card",
        "torch": "2",
        "corpus": corpus,
        "shared": "",
        "trainer": trainer,
        "setting": setting,
        "seed": seed,
        "steps": 9,
        "tokens": 9_000_000,
        "seconds": seconds,
        "loss": loss,
        "error": 0.01,
        "evaluations": evaluations,
        "process_seconds": seconds + 30,
    }


def test_times_are_shares_of_the_first_settings_time(capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        *(_record("nanoGPT", "lr=6e-4", 1337 + n, 180.0 + n, 4.15 + n / 100) for n in range(3)),
        *(_record("nanopace", "recipe=fast", 1337 + n, 45.0 + n, 4.05 + n / 100) for n in range(3)),
        _record("nanopace", "recipe=gpt2", 1337, 90.0, 4.3),
    ]
    loss_tables.show_all([*records, _record("nanoGPT", "lr=6e-4", 1337, 10.0, 1.0, "other")], None)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [
        "nanoGPT",
        "lr=6e-4",
        "3",
        "9.00",
        *["181.0", "±", "1.0", "4.1600", "±", "0.0100", "1.000", "met"],
    ] in rows
    assert [
        "nanopace",
        "recipe=fast",
        "3",
        "9.00",
        *["46.0", "±", "1.0", "4.0600", "±", "0.0100", "0.254", "met"],
    ] in rows
    assert ["nanopace", "recipe=gpt2", "1", "9.00", "90.0", "4.3000", "0.497", "missed"] in rows
    assert ["nanoGPT", "lr=6e-4", "1", "9.00", "10.0", "1.0000", "1.000", "met"] in rows, "a corpus of its own"


def test_a_goal_is_reached_when_an_evaluation_sees_it_or_the_last_weights_have_it() -> None:
    record = _record("nanopace", "", 1, 40.0, 4.0)
    assert [loss_tables.reached_after(record, goal) for goal in (4.2, 4.0, 3.9)] == [20.0, 40.0, None]
    assert loss_tables.reached_after({**record, "evaluations": []}, 4.0) == 40.0
