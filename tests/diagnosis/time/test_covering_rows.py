"""Rows whose printed time covers all iterations since the previous row, as their trainer always prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.run import Row
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats import registry
from nanopace.sources.infer.infer import complete
from nanopace.sources.log_format import LogFormat

STEP_MS = 80.0
FORMATS = {
    inside: LogFormat(f"covering-{inside}", "", "", row_time="all", row_contains_evaluation=inside)
    for inside in (True, False)
}


@pytest.fixture(autouse=True, scope="module")
def covering() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for format in FORMATS.values():
            patch.setitem(registry._known, format.name, format)
        yield


def explained(rows: Sequence[tuple[int, float]], inside: bool, resumed: int | None = None) -> Diagnosis:
    """Rows by iteration and printed time; the process of row `resumed` started from a checkpoint."""
    builder = RunBuilder("log", FORMATS[inside])
    for index, (iteration, ms) in enumerate(rows):
        if index == resumed:
            builder.begin_process(fresh=False)
        builder.row(Row(iteration, ms, 3.0))
    (run,) = builder.finish()
    return diagnose(complete(run))


def printed(iterations: Sequence[int]) -> list[tuple[int, float]]:
    """With a constant step."""
    return [(after, (after - before) * STEP_MS) for before, after in pairwise([0, *iterations])]


@st.composite
def stretches(draw: st.DrawFn) -> list[int]:
    """Rows at one interval and then another, such as 125, 250, ..., then every 25; maybe one after the first step."""
    iterations = draw(st.sampled_from([[], [1]]))
    for _ in range(draw(st.integers(1, 3))):
        every, rows = draw(st.integers(1, 500)), draw(st.integers(1, 30))
        last = iterations[-1] if iterations else 0
        iterations = [*iterations, *range(last + every, last + rows * every + 1, every)]
    return iterations if len(iterations) > 1 else [*iterations, 2 * iterations[0]]


@example([2, 4, 5, 6, 7], False, 0.0)  # most cover one iteration
@given(stretches(), st.booleans(), st.floats(0, 1))
def test_the_wall_time_is_the_sum_of_the_printed_times(iterations: list[int], inside: bool, where: float) -> None:
    rows = printed(iterations)
    total_s = sum(ms for _, ms in rows) / 1000
    first = iterations[0] <= iterations[1] - iterations[0]  # otherwise it looks like the first row of an excerpt
    for resumed in (None, 1 + int(where * (len(rows) - 2))):
        found = explained(rows, inside, resumed)
        assert found.wall.total_s == pytest.approx(total_s)
        if first:
            assert found.step.median_ms == pytest.approx(STEP_MS)
            assert not found.slow_rows


def test_uneven_distances() -> None:
    iterations = [*range(125, 1001, 125), *range(1025, 3001, 25)]
    found = explained(printed(iterations), inside=False)
    assert (found.step.median_ms, found.wall.total_s) == (pytest.approx(STEP_MS), pytest.approx(3000 * STEP_MS / 1000))
    assert [finding.numbers for finding in found.findings if finding.code == "rows_cover_several"] == [
        {"iterations": 25, "shown_by": "trainer"}
    ]


def test_one_slow_row_is_as_slow_as_all_its_iterations_together() -> None:
    rows = printed(range(10, 1001, 10))
    rows[50] = (rows[50][0], rows[50][1] + 5000)
    found = explained(rows, inside=False)
    assert [(row.iteration, row.excess_ms) for row in found.slow_rows] == [(510, pytest.approx(5000))]
    assert found.wall.stall_s == pytest.approx(5)


def test_a_first_row_that_covers_several_iterations_has_one_start_up() -> None:
    rows = printed(range(10, 1001, 10))
    rows[0] = (10, rows[0][1] + 5000)
    found = explained(rows, inside=False)
    assert found.startup is not None
    parts = (found.startup.step_ms, found.startup.compile_ms, found.startup.total_ms)
    assert parts == (pytest.approx(10 * STEP_MS), pytest.approx(5000), pytest.approx(5000 + 10 * STEP_MS))
    assert found.wall.startup_s == pytest.approx(5)


def test_an_excerpt_begins_with_a_row_like_the_others() -> None:
    found = explained([(at, 25 * STEP_MS) for at in range(5000, 6000, 25)], inside=False)
    assert found.wall.total_s == pytest.approx(1000 * STEP_MS / 1000)
    assert not found.slow_rows


def test_a_single_row() -> None:
    found = explained([(10, 800.0)], inside=False)
    assert found.wall.total_s == pytest.approx(0.8)
