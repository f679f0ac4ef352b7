"""Which vocabulary a first loss implies: every common one, and only from a run's very first loss."""

from __future__ import annotations

import math

import pytest

from nanopace.run import Evaluation, Row, Rows, Run
from nanopace.sources.infer.vocabulary_of_loss import vocabulary_of_loss


def run_of(*rows: Row, evaluations: tuple[Evaluation, ...] = ()) -> Run:
    return Run("log", "nanogpt", Rows(rows), evaluations=evaluations)


@pytest.mark.parametrize(
    ("vocabulary", "excess"),
    [
        *((65, 0.0), (256, 0.0), (4096, 0.0), (8192, 0.0), (16384, 0.0), (50304, 0.0), (65536, 0.0)),
        *((100277, 0.0), (128256, 0.0), (151936, 0.0), (200019, 0.0)),
        *((32000, -0.029), (32768, 0.04)),  # near to each other: only one of them fits on its far side
    ],
)
def test_every_common_vocabulary(vocabulary: int, excess: float) -> None:
    first = Row(0, 1.0, math.log(vocabulary) + excess)
    assert vocabulary_of_loss(run_of(first, Row(1, 1.0, 0.1)), 1) == vocabulary


FIRST, LATER = math.log(4096), math.log(8192)


@pytest.mark.parametrize(
    ("row", "evaluation", "vocabulary"),
    [
        (Row(0, 1.0, FIRST), None, 4096),
        (Row(1, 1.0, FIRST), None, None),  # the log begins later
        (Row(0, 1.0, FIRST, count=2, last_iteration=1), None, None),  # a mean of several steps
        (Row(0, 1.0, None), None, None),
        (Row(1, 1.0, FIRST), Evaluation(0, None, LATER), 8192),
        (Row(0, 1.0, FIRST), Evaluation(0, None, LATER), 8192),  # the evaluation is before the step
        (Row(0, 1.0, FIRST), Evaluation(1, None, LATER), 4096),
        (Row(0, 1.0, FIRST), Evaluation(0, None, LATER, "bpc"), 4096),  # not in nats
        (Row(0, 1.0, FIRST), Evaluation(0, LATER, None), 4096),
    ],
)
def test_which_loss_is_the_first(row: Row, evaluation: Evaluation | None, vocabulary: int | None) -> None:
    run = run_of(row, evaluations=() if evaluation is None else (evaluation, Evaluation(9, 1.0, 1.0)))
    assert vocabulary_of_loss(run, None) == vocabulary
