"""Evaluations and HellaSwag in build-nanogpt's console, in the many wordings of its forks."""

from __future__ import annotations

import math

import pytest

from nanopace import diagnose

from ...reading import read_one
from .reading import log, losses, rows, scores


@pytest.mark.parametrize(
    ("line", "val"),
    [
        ("validation loss: 3.1078", 3.1078),
        ("val loss 3.5919", 3.5919),
        ("Validation Loss: 3.22 | perplexity 25.0", 3.22),
        ("10:00:00 INFO validation loss: 3.1078", 3.1078),
        ("validation loss: nan", math.inf),
        ("Validation loss = 3.1078, Hellaswag accuracy: 0.2510", 3.1078),
        ("val | loss: 3.1078", 3.1078),
    ],
)
def test_a_validation_loss_is_of_the_row_that_follows(line: str, val: float) -> None:
    assert losses(read_one(log(rows(248, 249), line, rows(250, 251)))) == [(250, val, 2)]


def test_some_evaluate_after_the_row() -> None:
    assert losses(read_one(log(rows(249, 250), "validation loss: 3.1000", rows(251)))) == [(250, 3.1, None)]


def test_one_behind_the_last_row_is_of_the_step_after_it() -> None:
    assert losses(read_one(log(rows(248, 249), "validation loss: 3.1000"))) == [(250, 3.1, None)]


@pytest.mark.parametrize(
    "line",
    [
        "step 250 | val loss: 3.1",
        "[step 250] val loss 3.1",
        "Step 250 | train loss: 3.0 | val loss: 3.1",
        "val: step: 250 | loss: 3.1",
        "eval | step 250/500 | loss 3.1 | time: 9.0s",
        "step 250 | val | loss: 3.1",
        "step 250/500; val loss 3.1",
    ],
)
def test_some_name_its_iteration(line: str) -> None:
    assert losses(read_one(log(rows(250), line, rows(251)))) == [(250, 3.1, None)]


@pytest.mark.parametrize(
    "line",
    [
        "step {n} | val loss 3.1",
        "step {n} | train loss: 3.0 | val loss: 3.1",
        "val: step: {n} | loss: 3.1",
        "eval | step {n}/500 | loss 3.1",
    ],
)
def test_an_evaluation_before_its_row_is_no_row_of_another_process(line: str) -> None:
    evaluated = range(0, 61, 20)
    parts = [part for n in range(70) for part in ([line.format(n=n)] if n in evaluated else []) + rows(n)]
    run = read_one(log(parts))
    assert (list(run.rows.iteration), run.rows_of_others) == (list(range(70)), 0)
    assert losses(run) == [(n, 3.1, n) for n in evaluated]


@pytest.mark.parametrize(
    ("line", "score"),
    [
        ("HellaSwag accuracy: 2510/10042=0.2500", 0.25),
        ("rank0 | INFO: HellaSwag accuracy: 2510 / 10042 = 0.2500", 0.25),
        ("hellaswag: accuracy: 0.2500 | total: 2000 | correct: 500", 0.25),
        ("HellaSwag acc: 0.2500 (500/2000)", 0.25),
        ("HellaSwag Accuracy: 25.00% (500/2000)", 0.25),
        ("validation loss: 3.1000 | hellaswag: 0.2500", 0.25),
        ("step 250/500 | hellaswag acc 0.2500 | (9.00 s)", 0.25),
    ],
)
def test_forms_of_hellaswag(line: str, score: float) -> None:
    assert scores(read_one(log(rows(248, 249), line, rows(250, 251)))) == [(250, pytest.approx(score))]


@pytest.mark.parametrize(
    "line", ["our hellaswag: 0.25 is fine", "HellaSwag 0.25 is what random guesses reach", "hellaswag: 25.0"]
)
def test_prose_about_hellaswag_is_no_score(line: str) -> None:
    assert scores(read_one(log(rows(0, 1), line, rows(2)))) == []


def test_evaluations_that_begin_with_their_name_explain_the_slow_rows() -> None:
    lines = []
    for n in range(400):
        if n % 50 == 0:
            lines += [f"val: step: {n} | loss: 3.1000", "hellaswag: accuracy: 0.2500 | total: 200 | correct: 50"]
        lines += [f"train: {row}" for row in rows(n, ms=9000.0 if n % 50 == 0 else 500.0)]
    codes = {finding.code for finding in diagnose(read_one(log(lines))).findings}
    assert "evaluation_rows" in codes
    assert "stalls" not in codes


def test_some_print_it_in_every_row() -> None:
    run = read_one("".join(f"step {n} | train_loss 3.0 | val_loss 3.{n} | time 100.0 ms\n" for n in range(3)))
    assert losses(run) == [(0, 3.0, 0), (1, 3.1, 1), (2, 3.2, 2)]


@pytest.mark.parametrize(
    "line", ["- Achieved **val loss: 3.22**, better than before", "the validation loss: 3.2 is what we want to see"]
)
def test_prose_about_a_loss_is_no_evaluation(line: str) -> None:
    assert losses(read_one(log(rows(0, 1), line, rows(2)))) == []


def test_lines_that_may_be_evaluations_are_not_passed_over_in_silence() -> None:
    unread = "eval @ 2: train 2.5000 | val 2.6000"
    run = read_one(log(rows(0, 1), unread, rows(2, 3), unread, rows(4)))
    assert run.unread is not None
    assert (run.unread.count, run.unread.line, run.unread.text) == (2, 3, unread)
    assert read_one(log(rows(0, 1), "validation loss: 3.1", rows(2), unread, rows(3))).unread is None
