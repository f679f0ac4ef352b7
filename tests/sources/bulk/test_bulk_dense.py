"""A log with an evaluation every few rows: similar rows are folded together, and it must mean the same as unfolded."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.run import Run
from nanopace.sources.bulk.nanogpt import feed_bulk
from nanopace.sources.formats.table import NANOGPT
from nanopace.sources.infer.infer import complete

from ..dense import dense_log
from ..reading import fed, runs_of

RESUMING = "Resuming training from out\n"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("untraced")]  # many rows; test_bulk.py measures


def plain(text: str) -> Run:
    (run,) = fed(NANOGPT, text.splitlines())
    return complete(run)


def in_bulk(text: str, size: int = 1 << 20) -> Run:
    (run,) = runs_of(NANOGPT, feed_bulk, text, size)
    return complete(run)


def close(one: float | None, other: float | None, share: float) -> bool:
    return one == other or (one is not None and other == pytest.approx(one, rel=share))


def same(a: Diagnosis, b: Diagnosis, *, wall: float = 1e-6) -> None:
    """All figures equal within the error of medians of medians; counts equal exactly."""
    assert b.source == a.source
    assert dict(b.facts) == dict(a.facts)
    assert close(a.step.median_ms, b.step.median_ms, 0.001)
    assert close(a.step.spread, b.step.spread, 0.15)
    assert (b.step.normal_rows, b.step.uneven_rows) == (a.step.normal_rows, a.step.uneven_rows)
    for counted in ("count", "visible", "hidden", "interval", "contains_checkpoint"):
        assert getattr(b.evaluations, counted) == getattr(a.evaluations, counted)
    for counted in ("count", "basis", "saved_rows", "unsaved_rows"):
        assert getattr(b.checkpoints, counted) == getattr(a.checkpoints, counted)
    assert close(a.evaluations.each_ms, b.evaluations.each_ms, 0.005)
    assert close(a.checkpoints.each_ms, b.checkpoints.each_ms, 0.02)
    assert close(a.wall.total_s, b.wall.total_s, wall)
    assert close(a.wall.training_s, b.wall.training_s, 0.001)
    assert close(a.wall.evaluation_s, b.wall.evaluation_s, 0.005)
    assert close(a.wall.checkpoint_s, b.wall.checkpoint_s, 0.02)
    assert close(a.wall.stall_s, b.wall.stall_s, 0.005)
    assert close(a.mfu.steady_printed, b.mfu.steady_printed, 0.002)
    assert b.mfu.printed_last == a.mfu.printed_last
    for exact in (
        "best_val",
        "best_val_iteration",
        "saved_best",
        "last_val",
        "last_val_iteration",
        "last_train",
        "gap",
    ):
        assert getattr(b.loss, exact) == getattr(a.loss, exact)
    assert close(a.loss.noise, b.loss.noise, 0.2)
    assert sum(row.count for row in b.slow_rows) == len(a.slow_rows)
    assert {row.causes for row in b.slow_rows} == {row.causes for row in a.slow_rows}
    assert [each.code for each in b.findings] == [each.code for each in a.findings]


def in_order(d: Diagnosis) -> None:
    curves = d.curves
    for axis in (curves.row_iteration, curves.row_seconds, curves.eval_iteration, curves.eval_seconds):
        assert all(before <= after for before, after in pairwise(axis))


@pytest.mark.parametrize(
    ("rows", "like"),
    [
        pytest.param(30_000, {}, id="every fifth row"),
        pytest.param(30_000, {"eval_interval": 20, "saves": 0}, id="never saved"),
        pytest.param(20_000, {"eval_interval": 10, "saves": 1.1}, id="always saved"),
        pytest.param(30_000, {"stall_every": 97}, id="with stalls"),
    ],
)
def test_folded_it_means_the_same(rows: int, like: dict[str, Any]) -> None:
    text = dense_log(rows, **like)
    folded = in_bulk(text)
    assert len(folded.rows) < 0.05 * folded.rows.lines
    assert len(folded.evaluations) < 400
    a, b = diagnose(plain(text)), diagnose(folded)
    same(a, b)
    in_order(b)


def test_chunks_of_any_size_tell_the_same() -> None:
    text = dense_log(6000)
    a = diagnose(plain(text))
    for size in (100_001, 37_777):
        same(a, diagnose(in_bulk(text, size)))


def test_evaluations_between_rows() -> None:
    """Iterations without a row cost as much as the steps around them, which are medians of other rows."""
    text = dense_log(15_000, log_interval=10, eval_interval=15)
    a, folded = diagnose(plain(text)), in_bulk(text)
    b = diagnose(folded)
    assert b.evaluations.hidden > 0
    assert sum(each.row is None for each in folded.evaluations) < 300  # of 5000
    same(a, b, wall=1e-4)
    in_order(b)


def test_a_change_of_the_step_time_is_found_where_it_is() -> None:
    text = dense_log(30_000, slower_from=16_000)
    first, second = diagnose(in_bulk(text)).step.levels
    assert second.first_iteration == pytest.approx(16_000, abs=60)
    assert first.last_iteration < second.first_iteration
    assert (first.median_ms, second.median_ms) == pytest.approx((169.24, 253.86), rel=0.001)


def test_a_restart_inside_of_what_was_folded() -> None:
    text = dense_log(12_000) + RESUMING + dense_log(8000, start=9502, seed=3)
    a, b = diagnose(plain(text)), diagnose(in_bulk(text))
    assert b.source.rows == pytest.approx(a.source.rows, abs=3)  # three kinds of rows are divided
    assert (b.restarts.count, b.restarts.lost_iterations) == (a.restarts.count, a.restarts.lost_iterations) == (1, 2498)
    assert close(a.restarts.lost_s, b.restarts.lost_s, 0.01)
    assert close(a.wall.total_s, b.wall.total_s, 1e-6)
    assert close(a.evaluations.count, b.evaluations.count, 0.001)
    assert close(a.checkpoints.count, b.checkpoints.count, 0.01)
    assert b.loss.best_val == a.loss.best_val


def test_rows_that_go_back_without_a_word() -> None:
    text = dense_log(8000) + dense_log(4000, start=7001, seed=3)
    a, b = diagnose(plain(text)), diagnose(in_bulk(text))
    assert b.restarts.count == a.restarts.count == 1
    assert b.source.rows == pytest.approx(a.source.rows, abs=3)
    assert close(a.wall.total_s, b.wall.total_s, 1e-6)


def test_other_lines_are_read_in_their_place() -> None:
    """Each of them ends a stretch; the plain reader handles odd ones."""
    lines = dense_log(8000).splitlines()
    for at, odd in (
        (3000, "step 12: train loss 1.0000, val loss 1.0000"),  # of long ago: the beginning of a restart
        (5000, "saving checkpoint to elsewhere"),  # without an evaluation
        (6000, lines[6000]),  # twice
        (7000, "compiling the model... (takes a ~minute)"),
        (8000, "step 999999: train loss 1.0000, val loss 1.0000"),  # not of the row that follows
    ):
        changed = "\n".join([*lines[:at], odd, *lines[at:]]) + "\n"
        a, b = plain(changed), in_bulk(changed)
        assert b.rows.lines == a.rows.lines
        assert sum(each.count for each in b.evaluations) == len(a.evaluations)
        assert b.value("compile") == a.value("compile")
        assert len(b.restarts) == len(a.restarts)


def test_few_evaluations_stay_as_they_are() -> None:
    text = dense_log(20_000, eval_interval=500)
    folded = in_bulk(text)
    assert all(each.count == 1 for each in folded.evaluations)
    assert len(folded.evaluations) == 40


def test_each_run_of_a_log_has_its_own_mfu() -> None:
    """Smoothing is undone row by row, at the start of the run."""
    text = dense_log(6000) + dense_log(6000, seed=4)
    for size in (1 << 20, 50_000):
        runs = runs_of(NANOGPT, feed_bulk, text, size)
        assert [run.rows.lines for run in runs] == [6000, 6000]
        for run in runs:
            assert diagnose(run).mfu.steady_printed == pytest.approx(0.1206, rel=0.01)
