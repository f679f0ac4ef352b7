"""Rows that go back: a restarted process, or several that print at the same time?"""

from __future__ import annotations

import pytest

from nanopace.live.one_process import OneProcess
from nanopace.sources.formats.table import NANOGPT


def kept(iterations: list[int]) -> tuple[list[int], int]:
    """The rows that are read, and how many are not. No two have the same text."""
    one = OneProcess(NANOGPT.row_start)
    lines = [f"iter {at}: loss 3.0000, time {100 + number}.00ms" for number, at in enumerate(iterations)]
    found = [line for each in lines for line in one.feed(each)] + list(one.finish())
    return [int(line.split()[1].rstrip(":")) for line in found], one.rows_of_others


@pytest.mark.parametrize(
    "iterations",
    [
        [*range(121), *range(50, 130)],
        [*range(121), *range(119, 130)],  # it overtakes its old position within the deciding rows
        [*range(0, 1210, 10), *range(1000, 1300, 10)],
        [*range(121), *range(130)],
        [*range(1, 11), 200, 400, 600, 1, 500, 1000],
        [*range(121), 50],
        [*range(121), *range(100, 110), *range(100, 140)],
    ],
    ids=["far", "near", "every tenth", "anew", "anew from 1", "at the end", "twice"],
)
def test_a_restart_is_read_as_it_is(iterations: list[int]) -> None:
    assert kept(iterations) == (iterations, 0)


@pytest.mark.parametrize(
    "iterations",
    [
        [each for at in range(1, 60) for each in (at, at)],
        [each for at in range(3, 60) for each in (at, at - 2)],
        [each for at in range(30, 600, 10) for each in (at, at - 10)],
        [each for at in range(3, 60) for each in (at, at, at - 1, at - 2)],
        [*range(100, 121), 40, *range(121, 130)],
    ],
    ids=["in step", "one behind", "every tenth", "four", "one word of another"],
)
def test_of_several_processes_each_iteration_counts_once(iterations: list[int]) -> None:
    found, others = kept(iterations)
    assert found == sorted({at for at in iterations if at >= iterations[0]})
    assert others == len(iterations) - len(found)


def test_the_process_that_is_left_is_read_on() -> None:
    """Two print; the one ahead ends; the other one counts again once it is certainly alone."""
    found, _ = kept([*(each for at in range(100, 160) for each in (at, at - 60)), *range(100, 400)])
    assert found[-1] == 399
    assert len(found) > 250
