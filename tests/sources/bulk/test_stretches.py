"""Which parts of a long log are folded with neighbours, which with similar rows, and which not at all."""

from __future__ import annotations

import pytest

from nanopace.run import Run
from nanopace.sources.build import RunBuilder
from nanopace.sources.bulk.nanogpt import _longest_stretch, feed_bulk
from nanopace.sources.formats.table import NANOGPT

from ..reading import runs_of

ROW = "iter {}: loss 3.0000, time 10.00ms, mfu 1.00%"
EVALUATION = "step {}: train loss 3.0000, val loss 3.0000"
SAVE = "saving checkpoint to out"


def read(*lines: str) -> list[Run]:
    return runs_of(NANOGPT, feed_bulk, "\n".join(lines) + "\n")


def rows(first: int, last: int) -> list[str]:
    return [ROW.format(at) for at in range(first, last)]


def dense(first: int, last: int, every: int = 10) -> list[str]:
    """An evaluation before the first row, and then at regular intervals."""
    return [
        line
        for at in range(first, last)
        for line in (*([EVALUATION.format(at)] if (at - first) % every == 0 else []), ROW.format(at))
    ]


HEAD = rows(0, 500)


@pytest.mark.parametrize(
    ("read_so_far", "rows"), [(0, 4096), (4097 * 128 - 1, 4096), (4097 * 128, 4097), (10**9, 16384)]
)
def test_how_long_a_stretch_is(read_so_far: int, rows: int) -> None:
    assert _longest_stretch(read_so_far) == rows


def test_the_first_500_rows_stay_single() -> None:
    (run,) = read(*rows(0, 600))
    assert list(run.rows.count) == [1] * 500 + [100]
    (run,) = read(*rows(0, 700), *rows(600, 1300))  # and those of a process that goes back
    assert list(run.rows.count) == [1] * 500 + [100] + [1] * 500 + [200]


def test_a_row_behind_another_line_stays_single() -> None:
    (run,) = read(*HEAD, *rows(500, 600), "hello", *rows(600, 700))
    assert list(run.rows.count[500:]) == [100, 1, 99]


@pytest.mark.parametrize(("evaluations", "counts"), [(15, [1] * 15), (16, [16])])
def test_sixteen_evaluations_make_a_mixture(evaluations: int, counts: list[int]) -> None:
    (run,) = read(*HEAD, *dense(500, 500 + 10 * evaluations))
    assert [each.count for each in run.evaluations] == counts
    assert run.rows.lines == 500 + 10 * evaluations


def test_a_stretch_ends_after_4096_rows() -> None:
    (run,) = read(*HEAD, *dense(500, 500 + 4096 + 200))
    assert [(each.first_iteration, each.iteration, each.count) for each in run.evaluations] == [
        (500, 4590, 410),
        (4600, 4790, 20),
    ]
    assert list(run.rows.count[500:]) == [410, 3686, 20, 180]


def test_a_stretch_ends_after_512_evaluations() -> None:
    """One in eight of 4096 rows."""
    (run,) = read(*HEAD, *dense(500, 500 + 4 * 612, every=4))
    assert [each.count for each in run.evaluations] == [512, 100]


@pytest.mark.parametrize(
    "odd",
    [
        EVALUATION.format(3),  # of long ago
        EVALUATION.format(99_999),  # of a row that has not come
        "compiling the model...",
        SAVE,  # without an evaluation
    ],
)
def test_an_odd_line_ends_a_stretch(odd: str) -> None:
    (run,) = read(*HEAD, *dense(500, 700), *dense(700, 900))
    assert [each.count for each in run.evaluations] == [40]
    runs = read(*HEAD, *dense(500, 705), odd, *dense(705, 905))
    counts = [each.count for each in runs[-1].evaluations]
    assert max(counts) <= 21
    assert sum(run.rows.lines for run in runs) + sum(each.lost.lines for each in runs[0].restarts) == 905


def test_evaluations_that_save_are_apart_from_others() -> None:
    lines = dense(500, 900)
    for at in range(len(lines) - 1, 0, -1):
        if lines[at].startswith("step") and at % 4 == 0:
            lines.insert(at + 1, SAVE)
    saved = sum(line == SAVE for line in lines)
    (run,) = read(*HEAD, *lines)
    assert sorted(each.count for each in run.evaluations) == sorted([saved, 40 - saved])
    assert [each.count for each in run.checkpoints] == [saved]


def test_the_same_row_twice_counts_once() -> None:
    (run,) = read(*HEAD, *(line for line in rows(500, 700) for _ in range(2)))
    assert run.rows.lines == 700
    other = ROW.format(650).replace("3.0000", "3.5000")
    (run,) = read(*HEAD, *rows(500, 651), other, *rows(651, 700))  # another row of the same iteration is a restart
    assert [each.iteration for each in run.restarts] == [650]


def test_an_evaluation_whose_row_is_in_the_next_block() -> None:
    builder = RunBuilder("log")
    lines = [*HEAD, *dense(500, 700), EVALUATION.format(700)]
    after = [*rows(700, 720)]
    feed_bulk(NANOGPT.open_reader(builder), [("\n".join(part) + "\n").encode() for part in (lines, after)])
    (run,) = builder.finish()
    assert [(each.iteration, each.count) for each in run.evaluations] == [(690, 20), (700, 1)]
    row = run.evaluations[-1].row
    assert row is not None
    assert (run.rows.iteration[row], run.rows.count[row]) == (700, 1)


def test_a_config_ends_where_the_rows_begin() -> None:
    echoed = ["Overriding config with x.py:", "n_layer = 6"]
    first, second = read(*echoed, *rows(0, 600), *rows(0, 600))
    assert (first.value("n_layer"), second.value("n_layer")) == (6, None)


@pytest.mark.parametrize("mfu", [True, False])
def test_a_last_row_without_mfu_was_cut_if_others_have_one(mfu: bool) -> None:
    lines = [line if mfu else line.partition(", mfu")[0] for line in rows(0, 600)]
    builder = RunBuilder("log")
    last = "iter 600: loss 3.0000, time 10.00ms"
    feed_bulk(NANOGPT.open_reader(builder), ["\n".join([*lines, last]).encode()])
    (run,) = builder.finish()
    assert run.rows.lines == (600 if mfu else 601)


@pytest.mark.parametrize("split", [100, 500, 650, 750, 800, 1200])
def test_the_first_rows_of_a_process_stay_single_across_blocks(split: int) -> None:
    lines = [*rows(0, 700), *rows(600, 1300)]
    builder = RunBuilder("log")
    feed_bulk(
        NANOGPT.open_reader(builder),
        ["".join(f"{each}\n" for each in part).encode() for part in (lines[:split], lines[split:])],
    )
    (run,) = builder.finish()
    assert all(count == 1 for first, count in zip(run.rows.iteration, run.rows.count, strict=True) if first < 500)
    assert all(
        count == 1 for first, count in zip(run.rows.iteration, run.rows.count, strict=True) if 600 <= first < 1100
    )
    assert max(run.rows.count) >= 100
