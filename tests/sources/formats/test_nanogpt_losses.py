"""nanoGPT's logs with nothing but losses: evaluations alone, and rows without times."""

from __future__ import annotations

import pytest

from nanopace.sources.formats.table import NANOGPT

from ..reading import fed


def evaluations(*iterations: int, mark: str = ":") -> list[str]:
    return [f"step {n}{mark} train loss {3 - n / 9999:.4f}, val loss {3.1 - n / 9999:.4f}" for n in iterations]


@pytest.mark.parametrize("mark", [":", ",", ";"])
def test_a_log_of_evaluations(mark: str) -> None:
    first, second = fed(NANOGPT, [*evaluations(0, 500, 1000, mark=mark), *evaluations(0, 500, mark=mark)])
    assert [each.iteration for each in first.evaluations] == [0, 500, 1000]
    assert [each.val for each in second.evaluations] == [3.1, 3.05]
    assert (len(first.rows), first.untimed_rows.iteration.tolist()) == (0, [0, 500, 1000])


def test_checkpoints_of_a_log_of_evaluations() -> None:
    first, second, third = evaluations(0, 500, 1000)
    (run,) = fed(NANOGPT, [first, second, "saving checkpoint to out", third])
    assert [each.iteration for each in run.checkpoints] == [500]


def test_one_evaluation_is_no_log() -> None:
    assert fed(NANOGPT, [*evaluations(500), *evaluations(500)]) == []


def test_evaluations_before_the_first_row_of_an_excerpt() -> None:
    timed = "iter {}: loss 6.2977, time 3917.80ms, mfu 12.87%".format
    (run,) = fed(NANOGPT, [*evaluations(100, 200), timed(200), *evaluations(300, 400), timed(400)])
    assert list(run.rows.iteration) == [200, 400]
    assert [each.row for each in run.evaluations] == [None, 0, None, 1]


def test_rows_without_times() -> None:
    lines = [f"iter {n}: loss {3 - n / 999:.4f}" for n in range(0, 60, 10)]
    (run,) = fed(NANOGPT, [*evaluations(0), *lines, *evaluations(50), "and so on"])
    assert run.untimed_rows.iteration.tolist() == [0, 10, 20, 30, 40, 50]
    assert run.untimed_rows.loss[0] == 3.0
    assert [each.iteration for each in run.evaluations] == [0, 50]


@pytest.mark.parametrize("time", ["12.3s", "elapsed 12", "0:00:12", "812 tok/s", "dt 12"])
def test_a_time_in_unknown_words_is_not_overlooked(time: str) -> None:
    """A --pattern reads it."""
    assert fed(NANOGPT, [f"{line}, {time}" for line in evaluations(0, 500, 1000)]) == []
    assert fed(NANOGPT, [*(f"iter {n}: loss 3.0000, {time}" for n in range(9)), "and so on"]) == []
