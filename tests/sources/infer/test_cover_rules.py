"""The three proofs that a printed time covers several iterations, each at the edges of its rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from nanopace import diagnose
from nanopace.record import replace
from nanopace.run import Checkpoint, Evaluation, Restart, Rollback, Row, Rows, Run
from nanopace.sources.infer.cover import divide_covering_rows
from nanopace.sources.infer.infer import complete

INTERVAL = 10


def run_of(times: Sequence[float], stamps: Sequence[float] | None = None, **events: object) -> Run:
    """Rows ten iterations apart with these times, and with timestamps if they are given."""
    at_s = stamps or [None] * len(times)
    rows = [Row(INTERVAL * n, ms, at_s=at) for n, (ms, at) in enumerate(zip(times, at_s, strict=True))]
    return Run("log", "nanogpt", Rows(rows), **events)  # type: ignore[arg-type]


def shown_by(run: Run, facts: Mapping[str, float] | None = None, **options: object) -> str | None:
    number = {"log_interval": INTERVAL, **(facts or {})}.get
    found = divide_covering_rows(run, number, **options)  # type: ignore[arg-type]
    assert found.rows_cover == (1 if found is run else INTERVAL)
    return found.rows_cover_shown_by


@pytest.mark.parametrize(
    ("rows", "apart_s", "row_s", "shown"),
    [
        *((5, 10.9, 10.0, "stamps"), (5, 11.1, 10.0, None), (5, 9.1, 10.0, "stamps"), (5, 8.9, 10.0, None)),
        *((4, 7.0, 7.0, "stamps"), (3, 70.0, 70.0, None)),  # three pairs of rows are the fewest,
        *((5, 5.0, 5.0, "stamps"), (5, 4.9, 4.9, None)),  # and twenty seconds the shortest
    ],
)
def test_time_stamps(rows: int, apart_s: float, row_s: float, shown: str | None) -> None:
    assert shown_by(run_of([1000 * row_s] * rows, [apart_s * n for n in range(rows)])) == shown


def test_only_pairs_of_rows_with_nothing_between_them_count() -> None:
    """An evaluation in the time of a row: the timestamps are further apart, and do not disprove it."""
    stamps, times = [0.0, 10.0, 20.0, 30.0, 99.0], [10_000.0] * 5
    assert shown_by(run_of(times, stamps)) is None
    assert shown_by(run_of(times, stamps, evaluations=(Evaluation(35, 1.0, 1.0),))) == "stamps"
    assert shown_by(run_of(times, stamps, checkpoints=(Checkpoint(40),))) == "stamps"
    assert shown_by(run_of(times, stamps, evaluations=(Evaluation(30, 1.0, 1.0),))) is None


def test_two_thousand_rows_are_looked_at() -> None:
    stamps = [10.0 * n for n in range(2000)]
    assert shown_by(run_of([10_000.0] * 2002, [*stamps, 99_999.0, 199_999.0])) == "stamps"
    assert shown_by(run_of([10_000.0] * 2001, [*stamps[:1999], 99_999.0, 199_999.0])) is None


BATCH = {"batch_size": 4, "gradient_accumulation_steps": 25, "block_size": 10}


@pytest.mark.parametrize(
    ("tokens", "facts", "shown"),
    [
        *((10_900.0, {}, "tokens"), (11_100.0, {}, None), (9_100.0, {}, "tokens"), (8_900.0, {}, None)),
        (10_000.0, {"tokens_per_iteration": 0, **BATCH}, "tokens"),
        (10_000.0, {"tokens_per_iteration": 0, **BATCH, "block_size": 20}, None),
        (10_000.0, {"tokens_per_iteration": 0}, None),
        (10_000.0, {"gpu_count": INTERVAL}, None),  # the factor may be that of the cards,
        (10_000.0, {"gradient_accumulation_steps": INTERVAL}, None),  # or of the micro-batches
        (10_000.0, {"gpu_count": 8}, "tokens"),
        (10_000, {}, None),
    ],
)
def test_tokens_per_second(tokens: float, facts: dict[str, float], shown: str | None) -> None:
    known = {"tokens_per_iteration": 1000, **facts}
    assert shown_by(run_of([1.0] * 4), known, row_tokens=tokens) == shown


FIRST = (Evaluation(0, 1.0, 1.0, row=0),)


@pytest.mark.parametrize(
    ("times", "shown"),
    [
        ([100, 201, 201, 201], True),
        ([100, 200, 900, 900], False),  # less than half of every other row,
        ([100, 900, 900], False),  # which are at least three,
        ([100, 1250, 1250, 1250], True),
        ([100, 1251, 1251, 1251], False),  # and not far more than ten times as long
        ([100, 900, 900, 1300, 1300, 1300, 1300], False),
        ([100, 900, 900, 900, 1300, 1300, 1300, 1300], True),  # the first five tell: later ones may be slower
        ([100, 1300, 1300, 900, 900, 900, 900], True),
    ],
)
def test_a_short_first_row(times: list[float], shown: bool) -> None:
    run = run_of(times, evaluations=FIRST)
    assert shown_by(run, a_fork=True) == ("first_row" if shown else None)
    assert shown_by(run) is None


@pytest.mark.parametrize(
    "change",
    [
        {"evaluations": ()},
        {"evaluations": (Evaluation(0, 1.0, 1.0, row=1),)},
        {"evaluations": (Evaluation(1, 1.0, 1.0, row=0),)},
        {"rows": Rows([Row(1, 100.0), *(Row(10 * n, 900.0) for n in range(1, 5))])},
        {"rows": Rows([Row(0, 100.0, count=2, last_iteration=1), *(Row(10 * n, 900.0) for n in range(1, 5))])},
        {"rows": Rows([Row(0, 100.0, mfu=0.1), *(Row(10 * n, 900.0) for n in range(1, 5))])},
    ],
)
def test_a_first_row_that_proves_nothing(change: dict[str, object]) -> None:
    run = run_of([100, 900, 900, 900, 900], evaluations=FIRST)
    assert shown_by(run, a_fork=True) == "first_row"
    assert shown_by(replace(run, **change), a_fork=True) is None


def test_rows_that_save_are_left_out_unless_the_first_one_does() -> None:
    times = [100, 900, 150, 900, 900]
    assert shown_by(run_of(times, evaluations=FIRST), a_fork=True) is None
    assert shown_by(run_of(times, evaluations=FIRST, checkpoints=(Checkpoint(15),)), a_fork=True) == "first_row"
    both = (Checkpoint(0), Checkpoint(15))
    assert shown_by(run_of(times, evaluations=FIRST, checkpoints=both), a_fork=True) is None


def test_what_each_row_covers() -> None:
    rows = [
        Row(0, 1000.0),  # the first iteration is alone,
        Row(10, 1000.0),
        Row(14, 1000.0),  # the row before is nearer,
        Row(40, 1000.0),  # rows are missing,
        Row(50, 1000.0, count=3, last_iteration=70, sum_ms=3000.0),
        Row(80, 1000.0),  # first after a restart,
        Row(90, 1000.0),  # and after a rollback
    ]
    lost = Rows([Row(80, 500.0)])
    run = Run(
        *("log", "nanogpt", Rows(rows)),
        restarts=(Restart(5, 80, 90, lost),),
        rollbacks=(Rollback(6, 90, 95, lost),),
        evaluations=(Evaluation(9, 1.0, 1.0), Evaluation(0, 1.0, 1.0), Evaluation(99, 1.0, 1.0)),
        checkpoints=(Checkpoint(14, row=1), Checkpoint(15)),
    )
    found = divide_covering_rows(run, {"log_interval": INTERVAL, "tokens_per_iteration": 1000}.get, row_tokens=10_000.0)
    assert list(found.rows.ms) == [1000, 100, 250, 100, 100, 1000, 1000]
    assert list(found.rows.sum_ms) == [1000, 100, 250, 100, 300, 1000, 1000]
    assert [list(each.lost.ms) for each in (*found.restarts, *found.rollbacks)] == [[50], [50]]
    assert [each.row for each in found.evaluations] == [1, None, None]
    assert [each.row for each in found.checkpoints] == [1, 3]


def test_a_log_that_begins_later_has_no_row_of_one_iteration() -> None:
    run = Run("log", "nanogpt", Rows([Row(10, 1000.0), Row(20, 1000.0)]))
    found = divide_covering_rows(run, {"log_interval": INTERVAL, "tokens_per_iteration": 1000}.get, row_tokens=10_000.0)
    assert list(found.rows.ms) == [100, 100]
    assert divide_covering_rows(run, {"log_interval": 1, "tokens_per_iteration": 10_000}.get, row_tokens=1e4) is run


def test_rows_that_are_means_keep_their_times() -> None:
    """An event with a row's number follows that row and is in the next; what follows the last is in none."""
    run = Run(
        *("log", "megatron-2021", Rows([Row(10, 1000.0), Row(20, 1200.0), Row(30, 1000.0)])),
        evaluations=(Evaluation(10, None, 1.0), Evaluation(15, None, 1.0), Evaluation(30, None, 1.0)),
        checkpoints=(Checkpoint(20),),
    )
    found = complete(run)
    assert list(found.rows.ms) == [1000, 1200, 1000]
    assert [each.row for each in found.evaluations] == [1, 1, None]
    assert [each.row for each in found.checkpoints] == [2]
    assert (found.rows_cover, found.rows_cover_shown_by) == (10, "trainer")
    single = complete(replace(run, rows=Rows([Row(n, 1000.0) for n in range(10, 31)])))
    assert (single.rows_cover, single.rows_cover_shown_by) == (1, None)
    assert [each.row for each in single.evaluations] == [1, 6, None]


def since_start(rows: int = 40, first_ms: float = 3000.0, step_ms: float = 100.0) -> list[float]:
    """What a clock shows that started with training, every ten iterations."""
    return [first_ms + INTERVAL * step_ms * n for n in range(rows)]


def test_a_clock_that_shows_the_time_since_the_start() -> None:
    times = since_start()
    for row in range(20, 40):
        times[row] += 5000.0  # an evaluation
    run = complete(run_of(times, evaluations=(Evaluation(200, 3.0, 3.0, row=20),)))
    assert (run.rows_cover, run.rows_cover_shown_by) == (INTERVAL, "clock")
    assert list(run.rows.ms[:3]) == [3000.0, 100.0, 100.0]
    diagnosis = diagnose(run)
    assert diagnosis.step.median_ms == pytest.approx(100.0)
    assert diagnosis.wall.total_s == pytest.approx(times[-1] / 1000)
    assert diagnosis.evaluations.each_ms == pytest.approx(5000.0)
    assert "drift" not in {finding.code for finding in diagnosis.findings}


@pytest.mark.parametrize(
    "times",
    [
        since_start(19),  # too few rows
        [*since_start()[:30], 30_000.0, *since_start()[31:]],  # it falls once
        since_start(first_ms=6000.0),  # it may be a step that becomes slower
        [3000.0 + n for n in range(20)] + [90_000.0 + n for n in range(20)],  # one jump is no clock
    ],
)
def test_times_that_rise_are_not_always_a_clock(times: list[float]) -> None:
    run = complete(run_of(times))
    assert (run.rows_cover_shown_by, list(run.rows.ms)) == (None, times)


def test_nor_are_those_of_a_process_that_was_restarted() -> None:
    restart = Restart(20, 200, 210, Rows(), 0.0)
    assert complete(run_of(since_start(), restarts=(restart,))).rows_cover_shown_by is None
