"""`evaluations.count` means the same for every trainer's log: evaluations after training began."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from nanopace import diagnose, open_run
from nanopace.ledger import EvalEvent
from nanopace.ledger.codec import to_json

from ..formats.test_nanopace_log import print_run
from ..ledgers import run_event, steps


def nanogpt() -> str:
    lines = []
    for iteration in range(21):
        if iteration % 10 == 0:
            lines.append(f"step {iteration}: train loss 4.0000, val loss 4.1000")
        if iteration < 20:  # the last evaluation has no row
            lines.append(f"iter {iteration}: loss 4.0000, time {5100 if iteration % 10 == 0 else 100}.00ms, mfu 12.00%")
    return "\n".join(lines)


def nanochat() -> str:
    lines = []
    for step in range(21):
        if step % 10 == 0:
            lines.append(f"Step {step:05d} | Validation bpb: 1.{step:04d}")
        if step < 20:
            lines.append(
                f"step {step:05d}/00020 ({5 * step}.00%) | loss: 4.000000 | lrm: 1.00 | dt: 480.10ms | "
                "tok/sec: 273,010 | mfu: 12.51 | total time: 0.00m"
            )
    return "\n".join(lines)


def ledger() -> str:
    def evaluated(at: int) -> EvalEvent:
        return EvalEvent(at, 4.0, 4.1, ms=300.0)

    events = [run_event(), evaluated(0), *steps(0, 10), evaluated(10), *steps(10, 20), evaluated(20)]
    return "\n".join(to_json(event) for event in events)


def nanopace() -> str:
    text = print_run(io.StringIO(), last=20, stop=20)  # with an evaluation before the first step
    evaluated = next(line for line in text.splitlines() if line.startswith("step 0:"))
    rows = text.splitlines()
    between = next(number for number, line in enumerate(rows) if line.startswith("iter 10:"))
    final = evaluated.replace("step 0:", "step 20:")
    middle = evaluated.replace("step 0:", "step 10:")
    return "\n".join([*rows[:between], middle, *rows[between:-1], final, rows[-1]])


@pytest.mark.parametrize("log", [nanogpt, nanochat, nanopace, ledger])
def test_the_first_does_not_count_and_the_last_does(log: object, tmp_path: Path) -> None:
    assert callable(log)
    path = tmp_path / ("run.jsonl" if log is ledger else "train.log")
    path.write_text(log() + "\n")
    run = open_run(path)
    assert [each.iteration for each in run.evaluations] == [0, 10, 20]
    assert diagnose(run).evaluations.count == 2
