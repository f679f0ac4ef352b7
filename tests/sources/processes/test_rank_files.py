"""Directories filled by torchrun are one run, and show which rank kept the others waiting."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.diagnosis.diagnose import diagnose
from nanopace.run import Run
from nanopace.sources.runs import open_runs

ROW = "iter {n}: loss {loss:.4f}, time {ms:.2f}ms, mfu 10.00%\n"

# Rank 1 is a tenth slower by its own clock. In the first attempt, all ranks die at iteration 30.
SCRIPT = """
import os, sys, time
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
for n in range(20 if attempt else 0, 60):
    ms = 100 * (1 + 0.1 * rank) + n % 3
    print(f"iter {n}: loss {4 - n / 100:.4f}, time {ms:.2f}ms, mfu 10.00%", flush=True)
    if n == 30 and not attempt:
        open(f"{__file__}.{rank}", "w").close()
        while not os.path.exists(f"{__file__}.{1 - rank}"):  # torchrun ends whoever is still on the way
            time.sleep(0.01)
        sys.exit("died")
"""


def write(path: Path, rows: range, *, slower: float = 1.0, loss: float = 3.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(ROW.format(n=n, loss=loss, ms=slower * (100 + n % 3)) for n in rows))


def read(directory: Path) -> Run:
    (run,) = open_runs(directory)
    return run


@pytest.mark.slow
def test_what_torchrun_really_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, logs = tmp_path / "train.py", tmp_path / "logs"
    script.write_text(SCRIPT)
    subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"),
            *("--monitor-interval=0.1", f"--log-dir={logs}", "--redirects=3", str(script)),
        ],
        check=True,
        capture_output=True,
        timeout=300,
    )
    run = read(logs)
    assert [row.iteration for row in run.rows] == list(range(60))
    assert [(each.iteration, each.reached, each.lost.lines) for each in run.restarts] == [(20, 30, 11)]
    straggler = next(each for each in diagnose(run).findings if each.code == "straggler")
    assert straggler.numbers == {"rank": 1, "slowest_share": 1.0, "lag_share": pytest.approx(0.1, rel=0.05)}
    assert main(["explain", str(logs)]) == 0
    said = capsys.readouterr()
    assert "1 log: " in said.err
    assert "Rank 1 is the slowest in 100" in " ".join(said.out.split())


def test_the_rank_with_the_losses_is_read(tmp_path: Path) -> None:
    for rank in range(4):
        loss = 3.0 if rank == 3 else -1.0
        path = tmp_path / f"none_1/attempt_0/{rank}/stderr.log"
        path.parent.mkdir(parents=True)
        line = "2025-01-01 10:00:{n:02d},000 - root - INFO - step: {n:2}  loss: {loss:8.5f}  tps: 100  mfu: 9.00%\n"
        path.write_text("".join(line.format(n=n, loss=loss) for n in range(1, 40)))
    run = read(tmp_path)
    assert {row.loss for row in run.rows} == {3.0}
    assert run.other_ranks is not None
    assert (run.other_ranks.rank, run.other_ranks.ranks, run.other_ranks.rows) == (3, 4, 117)
    assert (run.name, run.value("world_size")) == ("none_1", 4)


@pytest.mark.parametrize("slower", [(1.0, 1.0), (1.0, 1.02)])
def test_equal_ranks_and_what_is_more_than_a_step(tmp_path: Path, slower: tuple[float, float]) -> None:
    """Only rank 0 evaluates, in every third row: that does not make it slow."""
    for rank in (0, 1):
        path = tmp_path / f"run_x/attempt_0/{rank}/stdout.log"
        write(path, range(60), slower=slower[rank])
        if rank == 0:
            rows = path.read_text().splitlines(keepends=True)
            for n in range(0, 60, 3):
                rows[n] = f"step {n}: train loss 3.0, val loss 3.1\n" + ROW.format(n=n, loss=3.0, ms=900.0)
            path.write_text("".join(rows))
    run = read(tmp_path)
    assert len(run.evaluations) == 20
    assert sum(each.steps for each in run.rank_lags) == 40
    assert "straggler" not in {each.code for each in diagnose(run).findings}


def test_what_is_not_of_ranks_stays_as_it_is(tmp_path: Path) -> None:
    write(tmp_path / "other/stdout.log", range(10))
    write(tmp_path / "run_a/attempt_0/0/stdout.log", range(20))
    write(tmp_path / "run_a/attempt_0/filtered_stdout.log", range(20))
    write(tmp_path / "run_b/attempt_0/0/stdout.log", range(30))
    write(tmp_path / "run_b/attempt_0/1/stdout.log", range(5), loss=float("nan"))
    write(tmp_path / "run_b/attempt_x/1/stdout.log", range(40))
    assert sorted(len(run.rows) for run in open_runs(tmp_path)) == [10, 20, 30, 40]
    assert len(read(tmp_path / "run_b/attempt_0/1").rows) == 5


def test_a_rank_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "r/attempt_0/0/stdout.log", range(30))
    write(tmp_path / "r/attempt_1/0/stdout.log", range(20, 40))
    path = tmp_path / "r/attempt_0/1/stdout.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x1f\x8b\x08 no gzip")
    run = read(tmp_path)
    assert [row.iteration for row in run.rows] == list(range(40))
    assert run.other_ranks is None
