"""`nanopace gate`: exit status and sentences of real processes, and what it refuses."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanopace.cli.main import main
from nanopace.ledger import LedgerWriter, RunEvent, StepEvent

Capture = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-m", "nanopace", "gate"]
HEADER = "tokens per iteration will be: 32,768\nnumber of parameters: 123.59M\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """A nanoGPT log with steps of 500 ms, 0.5% noise, and an evaluation of 4 s every fifty steps."""

    def write(name: str, *, seed: int, rows: int = 200, slower: float = 0.0, noise: float = 0.005) -> str:
        rng, lines = random.Random(seed), [HEADER]
        for iteration in range(rows):
            ms = 500 * (1 + slower) * (1 + rng.gauss(0, noise)) + (4000 if iteration % 50 == 0 else 0)
            if iteration % 50 == 0:
                lines.append(f"step {iteration}: train loss 4.0000, val loss 4.1000\n")
            lines.append(f"iter {iteration}: loss 4.0000, time {ms:.2f}ms, mfu 18.00%\n")
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines))
        return str(path)

    return write


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("slower", "noise", "code", "said"),
    [(0.0, 0.005, 0, "not slower by 1%: "), (0.01, 0.005, 1, "slower: "), (0.01, 0.05, 3, "cannot tell: ")],
)
def test_exit_status_and_one_sentence(
    write: Callable[..., str], slower: float, noise: float, code: int, said: str
) -> None:
    new, base = write("new.log", seed=1, slower=slower, noise=noise), write("base.log", seed=2, noise=noise)
    done = started(new, base, "--slower", "1%")
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith(said)
    assert done.stdout.count("\n") == 1
    assert "196 and 196 rows" in done.stdout
    assert ("more rows of each run" in done.stdout) == (code == 3)


def test_json_is_the_same_in_every_language(write: Callable[..., str], capsys: Capture) -> None:
    new, base = write("new.log", seed=1, slower=0.02), write("base.log", seed=2)
    asked = ["gate", new, base, "--slower", "0.01", "--max-overhead=0.1 %", "--min-mfu=40%", "--max-step-ratio=1.05"]
    answers = []
    for language in ("en", "de"):
        assert main([*asked, "--json", "--lang", language]) == 1
        answers.append(capsys.readouterr().out)
    assert answers[0] == answers[1]
    found: dict[str, Any] = json.loads(answers[0])
    assert (found["version"], found["answer"], found["new"], found["base"]) == (1, "failed", "new.log", "base.log")
    assert {check["check"]: check["answer"] for check in found["checks"]} == {
        "slower": "failed",
        "min_mfu": "unknown",
        "max_overhead": "failed",
        "max_step_ratio": "passed",
    }
    assert found["checks"][1]["because"]["code"] == "mfu_card_unknown"
    assert found["slowdown"]["change_share"] == pytest.approx(0.02, abs=0.003)
    assert main([*asked, "--gpu", "4070"]) == 1
    slower, mfu, overhead, ratio = capsys.readouterr().out.splitlines()
    assert (slower[:7], mfu[:15], overhead[:17], ratio[:16]) == (
        "slower:",
        "mfu high enough",
        "overhead too high",
        "step fast enough",
    )


def test_an_unknown_is_no_pass(write: Callable[..., str], capsys: Capture) -> None:
    log = write("train.log", seed=1)
    assert main(["gate", log, "--min-mfu", "1%"]) == 3
    assert "Pass --gpu NAME" in capsys.readouterr().out
    assert main(["gate", log, "--min-mfu", "1%", "--gpu", "4070"]) == 0
    assert main(["gate", log, "--min-mfu", "1%", "--gpu", "4070", "--max-overhead=20%"]) == 0
    assert main(["gate", log, "--min-mfu", "1%", "--max-overhead=0.1%"]) == 1


def test_a_directory_a_ledger_and_standard_input(write: Callable[..., str], tmp_path: Path) -> None:
    base = write("out/base.log", seed=1)
    (tmp_path / "run").mkdir()
    rng = random.Random(3)
    config = {"batch_size": 8, "block_size": 1024, "gradient_accumulation_steps": 4}
    with LedgerWriter(tmp_path / "run" / "ledger.jsonl") as ledger:
        ledger.append(RunEvent("2026-01-01T00:00:00+00:00", "0.4.0", config))
        for iteration in range(120):
            ledger.append(StepEvent(iteration, rng.gauss(515, 2), 4.0, tokens=32_768))
    done = started(str(tmp_path / "run"), str(tmp_path / "out"), "--slower=1%")
    assert (done.returncode, done.stdout[:8]) == (1, "slower: ")
    assert "+2.98%" in done.stdout
    assert "Iterations are compared" not in done.stdout
    with Path(base).open() as log:
        done = subprocess.run(
            [*COMMAND, "-", base, "--slower=1%"], stdin=log, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout[:11]) == (0, "not slower ")


@pytest.mark.parametrize("share", ["1%", "1 %", "0.01", ".01", " 1.0% "])
def test_ways_to_write_a_share(share: str, write: Callable[..., str], capsys: Capture) -> None:
    log = write("train.log", seed=1)
    assert main(["gate", log, log, f"--slower={share}"]) == 0
    assert capsys.readouterr().out.startswith("not slower by 1%: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.log", "b.log"], "nothing to check; pass --slower 1%"),
        (["a.log", "--slower", "1%"], "--slower needs two runs: nanopace gate NEW BASE"),
        (["a.log", "--max-step-ratio", "1.05"], "--max-step-ratio needs two runs"),
        (["a.log", "b.log", "--slower", "1"], "--slower must be a share such as 1% or 0.01, not '1'"),
        (["a.log", "b.log", "--slower", "0%"], "--slower must be a share"),
        (["a.log", "b.log", "--slower", "100%"], "--slower must be a share"),
        (["a.log", "--min-mfu", "40"], "--min-mfu must be a share such as 1% or 0.01, not '40'"),
        (["a.log", "--max-overhead", "five"], "--max-overhead must be a share"),
        (["a.log", "b.log", "--max-step-ratio", "5%"], "argument --max-step-ratio: invalid ratio: '5%'"),
        (["-", "-", "--slower", "1%"], "-: standard input can be read only once"),
        (["a.log", "none.log", "--slower", "1%"], "none.log: no such file"),
        (["a.log", "two.log", "--slower", "1%"], "two.log: has 2 runs, but gate takes one"),
        (["logs", "a.log", "--slower", "1%"], "logs: has 2 logs, but gate takes one"),
        (["a.log", "a.log", "--slower", "1%", "--gpu", "40700"], "40700"),
    ],
)
def test_mistakes(
    arguments: list[str],
    said: str,
    write: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    for name in ("a.log", "logs/a.log", "logs/b.log"):
        write(name, seed=1)
    (tmp_path / "two.log").write_text(2 * (tmp_path / "a.log").read_text())
    monkeypatch.chdir(tmp_path)
    assert main(["gate", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"nanopace: {said}" in err
    assert err.count("\n") <= 2  # for a directory, stderr also lists what is in it


def test_stages(write_speedrun: Callable[..., str], capsys: Capture) -> None:
    """One stage of a log is picked; runs of different stages are not compared."""
    both = write_speedrun("both.log", {"stage": "base"}, {"stage": "mid"})
    base, mid = write_speedrun("base.log", {"stage": "base"}), write_speedrun("mid.log", {"stage": "mid"})
    assert main(["gate", both, base, "--slower", "1%"]) == 2
    assert "has 2 runs, but gate takes one; use --stage" in capsys.readouterr().err
    assert main(["gate", both, base, "--slower", "1%", "--stage", "base"]) in (0, 3)
    assert main(["gate", mid, base, "--slower", "1%"]) == 2
    assert "NEW and BASE are from different stages" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("untimed.csv", "timed.log", "--slower", "1%"), "cannot tell: the log of NEW has no step times.\n"),
        (("timed.log", "untimed.csv", "--max-step-ratio", "1.1"), "cannot tell: the log of BASE has no step times.\n"),
        (
            ("untimed.csv", "--min-mfu", "40%", "--max-overhead", "5%"),
            2 * "cannot tell: the log of NEW has no step times.\n",
        ),
    ],
)
def test_a_log_without_times_cannot_be_judged(
    arguments: tuple[str, ...],
    said: str,
    write: Callable[..., str],
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write("timed.log", seed=1)
    (tmp_path / "untimed.csv").write_text("epoch,step,train_loss\n" + "".join(f"0,{n},3.5\n" for n in range(60)))
    monkeypatch.chdir(tmp_path)
    assert main(["gate", *arguments]) == 3
    assert capsys.readouterr().out == said
