"""Clocks in their own processes: how they end, which one writes, and what a killed one leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from nanopace import Clock, open_run
from nanopace.ledger import EndEvent, RunEvent, StepEvent

from .hands import ledger_of
from .loops import run_python, steps_of

LOOP = """
    import os, sys, time
    from nanopace import Clock
    clock = Clock(sys.argv[1])
    def train(steps):
        for i in range(steps):
            with clock.step(loss=i / 2):
                time.sleep(0.002)
"""


@pytest.mark.slow
def test_no_torch_where_the_loop_has_none(tmp_path: Path) -> None:
    done = run_python(
        LOOP + "    train(3); clock.close(); print(sorted({'torch', 'numpy', 'rich'} & {*sys.modules}))", tmp_path
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
    run = ledger_of(tmp_path).events[0]
    assert isinstance(run, RunEvent)
    assert (run.torch, run.gpu, run.trainer) == (None, None, "loop")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "ending"),
    [
        ("clock.close()", "finished"),
        ("raise RuntimeError('no')", "error"),
        ("raise MemoryError", "out_of_memory"),
        ("raise KeyboardInterrupt", "interrupted"),
        ("os.kill(os.getpid(), 9)", None),
        ("pass", None),  # nothing marked the end
        ("sys.exit(3)", None),
    ],
)
def test_how_it_ended(tmp_path: Path, end: str, ending: str | None) -> None:
    run_python(LOOP + f"    train(20)\n    time.sleep(1.3)\n    {end}", tmp_path)
    run = open_run(tmp_path / "ledger.jsonl")
    assert run.ending == ending
    assert len(run.rows) >= 19  # the last one is written together with what follows
    assert ledger_of(tmp_path).damaged == 0


@pytest.mark.slow
def test_leaving_the_block_tells_how_it_ended(tmp_path: Path) -> None:
    def train_until(number: int, error: BaseException | None) -> None:
        with Clock(tmp_path / f"{number}.jsonl") as clock:
            with clock.step():
                pass
            if error is not None:
                raise error

    train_until(0, None)
    for number, error in enumerate((SystemExit(0), SystemExit(3), KeyboardInterrupt(), RuntimeError()), 1):
        with pytest.raises(type(error)):
            train_until(number, error)
    ends = [ledger_of(tmp_path / f"{number}.jsonl").events[-1] for number in range(5)]
    assert [end.reason for end in ends if isinstance(end, EndEvent)] == [
        *("finished", "finished", "error", "interrupted", "error")
    ]


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Lines are intact, and at most the last second is missing."""
    for number in range(3):
        path = tmp_path / f"{number}.jsonl"
        code = textwrap.dedent(LOOP) + "print('go', flush=True); train(10**6)"
        training = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        training.stdout.readline()
        time.sleep(1.4 + 0.27 * number)
        training.send_signal(signal.SIGKILL)
        training.wait()
        training.stdout.close()
        ledger = ledger_of(path)
        assert ledger.damaged == 0
        iterations = [event.iteration for event in ledger.events if isinstance(event, StepEvent)]
        assert iterations == list(range(len(iterations)))
        assert len(open_run(path).rows) >= 20


@pytest.mark.slow
def test_a_forked_process_does_not_write(tmp_path: Path) -> None:
    code = """
    for _ in range(2):  # before the ledger is opened, and after
        if os.fork() == 0:
            train(50); clock.close(); sys.exit()
        os.wait()
        train(3)
    clock.close()
    """
    assert run_python(LOOP + code, tmp_path).stderr == ""
    assert [event.iteration for event in steps_of(tmp_path)] == list(range(6))


@pytest.mark.slow
def test_only_the_first_rank_writes(tmp_path: Path) -> None:
    for rank in ("1", "0"):
        done = run_python(LOOP + "    train(3); clock.close()", tmp_path / rank, RANK=rank, WORLD_SIZE="2")
        assert done.stderr == ""
    assert os.listdir(tmp_path) == ["0"]
    run = ledger_of(tmp_path / "0").events[0]
    assert isinstance(run, RunEvent)
    assert run.world_size == 2


def test_a_process_that_goes_on(tmp_path: Path) -> None:
    for first, steps in ((0, 20), (15, 10)):
        with Clock(tmp_path, resume=first) as clock:
            for i in range(first, first + steps):
                with clock.step(i if first else None, loss=float(i)):
                    time.sleep(0.001)
    run = open_run(tmp_path / "ledger.jsonl")
    assert [run.rows.iteration[0], run.rows.last_iteration[-1], len(run.rows)] == [0, 24, 25]
    [restart] = run.restarts
    assert (restart.iteration, restart.reached, len(restart.lost)) == (15, 19, 5)
