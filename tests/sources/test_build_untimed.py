from __future__ import annotations

import pytest

from nanopace.run import Row
from nanopace.sources.build import RunBuilder


def told(*steps: int | str) -> list[tuple[list[int], list[int]]]:
    """Timed rows by iteration, u10 for an untimed one, F and R headers as above: (timed, untimed) of each run."""
    builder = RunBuilder("log")
    for step in steps:
        match step:
            case int():
                builder.row(Row(step, 10.0, 3.0))
            case "F" | "R":
                builder.begin_process(fresh=step == "F")
            case str():
                builder.untimed_row(int(step[1:]), 3.0)
    return [(list(run.rows.iteration), list(run.untimed_rows.iteration)) for run in builder.finish()]


@pytest.mark.parametrize(
    ("steps", "runs"),
    [
        (("u0", "u10", "u20"), [([], [0, 10, 20])]),
        (("u0", "u0", "u10", "u10"), [([], [0, 10])]),  # two log handlers
        ((0, "u0", 10, "u10"), [([0, 10], [])]),  # the same rows twice, once with their times
        (("u0", 0, "u10", 10), [([0, 10], [])]),
        (("u0", "u10", 20, "u30", 40), [([20, 40], [])]),
        (("u10", "u20", "u30", "u20", "u30", "u40"), [([], [10, 20, 30, 40])]),  # a restart
        (("u10", "u20", "R", "u20", "u30"), [([], [10, 20, 30])]),
        (("u0", "u10", "u0", "u10"), [([], [0, 10]), ([], [0, 10])]),  # another run
        (("F", 0, 10, "F", "u0", "u10"), [([0, 10], []), ([], [0, 10])]),
        (("F", "u0", "u10", "F", 0, 10), [([], [0, 10]), ([0, 10], [])]),
        ((10, 20, "R", "u30", "u40"), [([10, 20], [])]),  # resumed without times: those that there are count
        (("u10", "u20", "R", 30, 40), [([30, 40], [])]),
    ],
)
def test_rows_without_a_time_count_where_no_row_of_their_run_has_one(
    steps: tuple[int | str, ...], runs: list[tuple[list[int], list[int]]]
) -> None:
    assert told(*steps) == runs


def test_a_run_without_times_keeps_what_else_is_told() -> None:
    builder = RunBuilder("log")
    for at in (10, 20):
        builder.untimed_row(at, 4.0 - at / 100)
        builder.evaluation(at, None, 3.5, ms=70.0)
        builder.checkpoint(path="out")
    builder.wall_ms(900.0)
    builder.ending("finished")
    (run,) = builder.finish()
    assert run.logged is run.untimed_rows
    assert list(run.logged.loss) == [3.9, 3.8]
    assert [(each.iteration, each.ms, each.row) for each in run.evaluations] == [(10, 70.0, None), (20, 70.0, None)]
    assert [each.row for each in run.checkpoints] == [None, None]
    assert (run.wall_ms, run.ending) == (900.0, "finished")
