"""makemore's console."""

from __future__ import annotations

import math

import pytest

from nanopace import diagnose

from ...reading import read, read_one
from ..examples.gpt2 import MAKEMORE
from .reading import losses, values


def test_a_log() -> None:
    run = read_one(MAKEMORE)
    assert (run.format, run.trainer) == ("makemore", "makemore")
    assert [(row.iteration, row.ms, row.loss) for row in run.rows] == [
        (0, 40.5, 3.2958),
        (10, 12.25, 3.1042),
        (20, 12.75, 2.9471),
        (30, 12.5, 2.8112),
    ]
    assert losses(run) == [(20, 2.91, None)]
    assert run.evaluations[0].train == 2.9
    assert [(each.iteration, each.path) for each in run.checkpoints] == [(20, "out/model.pt")]
    assert values(run) == {
        "parameters": 11051,
        "vocab_size": 27,
        "block_size": 16,
        "batch_size": 32,
        "max_iters": 40,
        "device": "cpu",
        "log_interval": 10,
    }


def test_its_clock_stops_for_evaluations() -> None:
    diagnosis = diagnose(read_one(MAKEMORE))
    codes = {finding.code for finding in diagnosis.findings}
    assert "evaluations_outside_clock" in codes
    assert not {"hidden_evaluations", "startup_together"} & codes


def test_two_runs() -> None:
    first, second = read(MAKEMORE + MAKEMORE)
    assert (len(first.rows), len(second.rows)) == (4, 4)


def test_without_an_end_it_has_no_last_step() -> None:
    assert "max_iters" not in read_one(MAKEMORE.replace("'max_steps': 40", "'max_steps': -1")).facts


@pytest.mark.parametrize(("last", "rows"), [("step 40 | loss 2.7000 | step time 12.5", 4), (" 12.50ms", 5)])
def test_a_last_row_without_its_end(last: str, rows: int) -> None:
    row = last if last.startswith("step") else f"step 40 | loss 2.7000 | step time{last}"
    assert len(read_one(MAKEMORE + row).rows) == rows


def test_a_loss_that_is_no_number() -> None:
    assert read_one(MAKEMORE + "step 40 | loss nan | step time 12.50ms\n").rows[-1].loss == math.inf


def test_an_ending() -> None:
    assert read_one(MAKEMORE + "KeyboardInterrupt\n").ending == "interrupted"


def test_rows_with_other_columns_are_of_another_program() -> None:
    rows = "".join(f"step {n} | loss 2.7000 | step time 12.50ms | norm 1.0\n" for n in range(9))
    assert read_one(rows).format == "build_nanogpt"
