"""Both trainers in one call: a seed is set, a real run is timed and evaluated, and one fails."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def test_a_loss_is_reached_between_two_runs() -> None:
    curve = [(100.0, 1.4), (25.0, 2.0), (50.0, 2.2)]
    assert loss_tables.arrival(curve, 2.0) == (25.0, False)
    assert loss_tables.arrival(curve, 2.1) == (25.0, False), "the shortest run may have been there earlier"
    assert loss_tables.arrival(curve, 1.7) == (pytest.approx(50.0), True), "halfway, and not by way of the bad run"
    assert loss_tables.arrival(curve, 1.4) == (100.0, False)
    assert loss_tables.arrival(curve, 1.39) is None


def test_one_table_has_nanogpt_next_to_modded_nanogpt(capsys: pytest.CaptureFixture[str]) -> None:
    def run(trainer: str, setting: str, seed: int, seconds: float, loss: float, documents: float | None) -> Any:
        more = {"seconds_of_steps": seconds, "peak_bytes": 1 << 30, "documents": documents}
        return {**_record(trainer, setting, seed, seconds + 9, loss), **more}

    records = [
        run("nanoGPT", "iters=9", 1337, 30.0, 3.9, None),
        run("modded-27", "tokens=1e8", 1337, 190.0, 1.78, 1.45),
        run("modded-27", "tokens=1e8", 1338, 210.0, 1.80, 1.47),
        run("nanopace", "recipe=fast,iters=9", 1337, 25.0, 2.0, 1.9),
        run("nanopace", "recipe=fast,iters=40", 1337, 100.0, 1.4, 1.3),
    ]
    loss_tables.show_all(records, None)
    printed = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in printed]
    assert [
        *["modded-27", "tokens=1e8", "2", "200.0", "±", "14.1"],
        *["1.7900", "±", "0.0141", "1.4600", "±", "0.0141"],
    ] in rows
    assert ["nanoGPT", "iters=9", "1", "30.0", "3.9000"] in rows
    assert "nanoGPT iters=9, windows 3.9000: 25.0 s, 0.83 (the end of a run)" in printed
    # 1.79 is 0.35 of the way from 2.0 to 1.4, and 25 x 4^0.35 = 40.6; 1.46 is 11 / 15 of the way from 1.9 to 1.3
    assert "modded-27 tokens=1e8, windows 1.7900: 40.6 s, 0.20 (interpolated)" in printed
    assert "modded-27 tokens=1e8, documents 1.4600: 69.1 s, 0.35 (interpolated)" in printed


def test_differences_are_those_of_the_windows(capsys: pytest.CaptureFixture[str]) -> None:
    first = {**_record("nanoGPT", "a", 1, 9.0, 4.0), "losses": [3.0, 4.0, 5.0, 4.0]}
    other = {**_record("nanopace", "b", 1, 9.0, 3.9), "losses": [2.8, 4.0, 4.8, 4.0]}
    loss_tables.show_all([first, other], None)
    assert "-0.1000 ± 0.0577" in capsys.readouterr().out
