from __future__ import annotations

import random

import pytest

from nanopace import diagnose
from nanopace.sources.processes.interleaved import WINDOW

from .test_rank_prefixes import ROWS, Read, nanogpt_row


def lane(first: int, count: int, step: int, ms: float, form: str = "nanogpt") -> list[str]:
    return [ROWS[form](first + step * at, ms) for at in range(count)]


def alternating(*lanes: list[str]) -> str:
    return "".join(f"{row}\n" for rows in zip(*lanes, strict=True) for row in rows)


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("step", [1, 10])
@pytest.mark.parametrize("apart", [-20, -2, -1, 0, 1, 2, 20])
def test_two_processes(form: str, step: int, apart: int, read: Read) -> None:
    first = 50 * step
    (run,) = read(alternating(lane(first, 200, step, 100.0, form), lane(first + apart * step, 200, step, 110.0, form)))[
        -1:
    ]
    assert run.restarts == ()
    if apart not in (0, 1):  # where both print the same iteration one after the other, nothing says whose it is
        fewer = min(list(run.rows.ms).count(ms) for ms in (100.0, 110.0))
        assert fewer <= 1  # a first row ahead of the other's is not known for what it is
    assert len(run.rows) + run.rows_of_others in (399, 400)
    (said,) = [each for each in diagnose(run).findings if each.code == "interleaved_processes"]
    assert said.numbers["rows"] == run.rows_of_others
    assert diagnose(run).restarts.count == 0


@pytest.mark.parametrize("processes", [3, 10, 100])
def test_many_processes(processes: int, read: Read) -> None:
    lanes = [lane(1000 - 3 * number, 60, 1, 100.0 + number) for number in range(processes)]
    (run,) = read(alternating(*lanes))
    assert (len(run.rows), run.restarts, run.rows_of_others) == (60, (), 60 * (processes - 1))


def test_in_any_order(read: Read) -> None:
    """Not row by row in turn, and with evaluations."""
    lanes = [
        [
            line
            for at in range(first, first + 1500)
            for line in (
                *([f"step {at}: train loss 5.0000, val loss {4 + number}.0000"] if at % 250 == 0 else []),
                nanogpt_row(at, 100.0 + number),
            )
        ]
        for number, first in enumerate((40, 0))
    ]
    chosen = random.Random(1)
    printed: list[str] = []
    while any(lanes):
        which = chosen.choice([each for each in lanes if each])
        printed += [which.pop(0) for _ in range(min(len(which), chosen.randint(1, 4)))]
    (run,) = read("\n".join(printed) + "\n")
    assert run.restarts == ()
    assert run.rows.lines + run.rows_of_others == 3000
    assert list(run.rows.iteration) == sorted({*run.rows.iteration})
    assert len(run.rows) > 1400  # where one overtakes the other, they may change places
    assert [each.iteration for each in run.evaluations] == [250, 500, 750, 1000, 1250, 1500]


def test_a_second_process_that_joins_later_and_ends_sooner(read: Read) -> None:
    first, second = lane(0, 2000, 1, 100.0), lane(0, 300, 1, 110.0)[5:]
    printed = [*first[:700], *(row for pair in zip(first[700:995], second, strict=True) for row in pair), *first[995:]]
    (run,) = read("\n".join(printed) + "\n")
    assert (len(run.rows), run.restarts, run.rows_of_others) == (2000, (), 295)


@pytest.mark.parametrize("rows", [3, 40, 2 * WINDOW])
def test_a_restart_is_still_one(rows: int, read: Read) -> None:
    """However often a process comes back to its checkpoint, and whatever is behind it."""
    begun = [nanogpt_row(at, 100.0) for at in range(1000)]
    again = [nanogpt_row(at, 101.0) for at in range(990, 990 + rows)]
    (run,) = read("\n".join([*begun, *again, *again]) + "\n")
    assert [(each.iteration, each.reached) for each in run.restarts] == [(990, 999), (990, 989 + rows)]
    assert (run.rows_of_others, len(run.rows)) == (0, 990 + rows)


def test_in_a_long_log(monkeypatch: pytest.MonkeyPatch, read: Read) -> None:
    """Where numpy would read it."""
    monkeypatch.setattr("nanopace.sources.runs.BULK_BYTES", 1000)
    (run,) = read(alternating(lane(10, 500, 1, 100.0), lane(9, 500, 1, 110.0)))
    assert (len(run.rows), run.restarts, run.rows_of_others) == (500, (), 500)


def test_rows_that_two_handlers_print(read: Read) -> None:
    rows = lane(0, 100, 1, 100.0)
    (run,) = read(alternating(rows, rows))
    assert (len(run.rows), run.restarts, run.rows_of_others) == (100, (), 0)
