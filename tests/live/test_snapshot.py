"""Snapshots of a run can be taken at any time while it is read, and change nothing."""

from __future__ import annotations

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.live.observed import ObservedBuilder
from nanopace.run import Row, Run
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.table import LEDGER, NANOGPT
from nanopace.sources.log_format import LogFormat

from ..sources.ledgers import documented_example
from .made_up import HEADER, Deaf, rows


def read(format: LogFormat, lines: list[str], *, look: bool = False) -> list[Run]:
    builder = RunBuilder("log")
    reader = format.open_reader(builder)
    for line in lines:
        reader.feed(line)
        if look:
            builder.snapshot()
    reader.finish()
    return builder.finish()


RESTARTED = [
    *HEADER.splitlines(),
    *rows(0, 75),
    "Resuming training from out",
    *rows(50, 120),
    "Traceback (most recent call last):",
    "Initializing a new model from scratch",
    *rows(0, 30),
]


@pytest.mark.parametrize(("format", "lines"), [(NANOGPT, RESTARTED), (LEDGER, documented_example())])
def test_looking_changes_nothing(format: LogFormat, lines: list[str]) -> None:
    assert read(format, lines, look=True) == read(format, lines)


def test_each_look_is_what_the_log_says_so_far_and_stays_that() -> None:
    builder = RunBuilder("log")
    reader = NANOGPT.open_reader(builder)
    looks: list[tuple[list[str], Run]] = []
    for number, line in enumerate(RESTARTED, start=1):
        reader.feed(line)
        seen = builder.snapshot()
        assert (seen is None) == (number <= len(HEADER.splitlines()) + 1)
        if seen is not None:
            looks.append((RESTARTED[:number], seen))
    for lines, seen in looks[::7]:
        whole = read(NANOGPT, lines)[-1]
        assert (seen.rows, seen.evaluations, seen.checkpoints, seen.restarts, seen.facts, seen.ending) == (
            *(whole.rows, whole.evaluations, whole.checkpoints, whole.restarts, whole.facts, whole.ending),
        )


def test_rows_are_folded_where_it_is_asked_and_no_time_is_lost() -> None:
    folded, single = ObservedBuilder("log", Deaf()), RunBuilder("log")
    for iteration in range(5000):
        row = Row(iteration, 2500.0 if iteration == 3456 else 100.0 + iteration % 7, 3.0)
        folded.row(row)
        single.row(row)
        if iteration % 1000 == 999:
            folded.fold_beyond(300)
    seen, whole = folded.snapshot(), single.snapshot()
    assert seen is not None
    assert whole is not None
    assert len(seen.rows) < 700
    assert seen.rows.lines == len(whole.rows) == 5000
    assert sum(seen.rows.sum_ms) == pytest.approx(sum(whole.rows.sum_ms))
    assert [each.iteration for each in diagnose(seen).slow_rows] == [3456]
