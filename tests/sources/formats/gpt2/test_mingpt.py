"""minGPT's console."""

from __future__ import annotations

import math

from nanopace import diagnose

from ...reading import read, read_one
from ..examples.gpt2 import MINGPT
from .reading import values


def test_a_log() -> None:
    run = read_one(MINGPT)
    assert (run.format, run.trainer, run.row_loss) == ("mingpt", "minGPT", "step")
    assert not run.row_contains_evaluation
    assert [(row.iteration, row.ms, row.loss) for row in run.rows] == [
        (10, 21.5, 3.90295),
        (20, 20.25, 3.41207),
        (30, 20.75, 3.20114),
    ]
    assert values(run) == {"block_size": 128, "batch_size": 64, "max_iters": 40, "device": "cuda", "log_interval": 10}
    assert [(each.iteration, each.row) for each in run.checkpoints] == [(20, None)]


def test_what_a_save_took_is_unknown() -> None:
    wall = diagnose(read_one(MINGPT)).wall
    assert (wall.checkpoint_s, wall.unknown_s) == (None, None)


def test_two_runs() -> None:
    first, second = read(MINGPT + MINGPT)
    assert (len(first.rows), len(second.rows)) == (3, 3)


def test_a_last_loss_without_its_end() -> None:
    assert len(read_one(MINGPT + "iter_dt 20.75ms; iter 40: train loss 1.2").rows) == 3
    assert len(read_one(MINGPT + "iter_dt 20.75ms; iter 40: train loss 1.23456").rows) == 4


def test_a_loss_that_is_no_number() -> None:
    assert read_one(MINGPT + "iter_dt 20.75ms; iter 40: train loss nan\n").rows[-1].loss == math.inf


def test_an_ending() -> None:
    assert read_one(MINGPT + "KeyboardInterrupt\n").ending == "interrupted"
