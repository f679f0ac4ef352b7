"""The numpy reader and the plain one must give the same result."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nanopace.sources.runs
from nanopace.run import Row, Run
from nanopace.sources.build import RunBuilder
from nanopace.sources.bulk.nanogpt import feed_bulk
from nanopace.sources.bulk.nanogpt_lines import RowBlock, Text, read_rows
from nanopace.sources.bulk.numpy_fold import fold_block
from nanopace.sources.fold import fold_rows
from nanopace.sources.formats.nanogpt_lines import read_line
from nanopace.sources.formats.table import NANOGPT
from nanopace.sources.runs import open_runs

from ..nanogpt_logs import HEADER, print_rows
from ..reading import fed


def read(text: str, *, without_mfu: bool = False) -> RowBlock:
    return read_rows(Text(text.encode()), without_mfu=without_mfu)


def in_bulk(*chunks: bytes) -> list[Run]:
    builder = RunBuilder("log")
    feed_bulk(NANOGPT.open_reader(builder), chunks)
    return builder.finish()


# --- reading ---------------------------------------------------------------------------------------------------------

printed_row = st.builds(
    "iter {}: loss {:.4f}, time {:.2f}ms{}".format,
    st.integers(0, 10**9),
    st.floats(0, 2000),
    st.floats(0, 2e6),
    st.one_of(st.just(""), st.floats(-100, 2e5).map(", mfu {:.2f}%".format)),
)
garbled_row = st.builds(
    lambda row, at, other: row[: at % len(row)] + other + row[at % len(row) + 1 :],
    printed_row,
    st.integers(0, 80),
    st.text("0123456789.,: %msiter-/;", max_size=2),
)


@settings(max_examples=150)
@given(st.lists(st.one_of(printed_row, garbled_row), min_size=1, max_size=20), st.booleans())
def test_what_numpy_reads_is_what_the_plain_reader_reads(lines: list[str], without_mfu: bool) -> None:
    found = read("\n".join(lines) + "\n", without_mfu=without_mfu)
    for line, iteration, ms, loss, mfu in zip(*(column.tolist() for column in found), strict=True):
        plain = read_line(lines[line])
        assert plain is not None
        assert (int(plain.values[0]), float(plain.values[1]), float(plain.values[2])) == (iteration, loss, ms)
        if plain.values[3]:
            assert float(plain.values[3]) / 100 == mfu
        else:
            assert np.isnan(mfu)


def test_usual_rows_are_all_read() -> None:
    for mfu in (True, False):
        text = print_rows(5, 300, log_interval=1, mfu=mfu)
        usual = [number for number, line in enumerate(text.splitlines()) if line[:4] == "iter" and "-100" not in line]
        assert read(text, without_mfu=True).line.tolist() == usual


def test_a_row_without_mfu_is_doubted_where_others_have_it() -> None:
    text = "iter 1: loss 3.0000, time 5.00ms, mfu 1.00%\niter 2: loss 3.0000, time 5.00ms\n"
    assert read(text, without_mfu=True).line.tolist() == [0]


# --- folding ---------------------------------------------------------------------------------------------------------

steps = st.tuples(st.sampled_from([1, 1, 1, 1, 1, 2, 0, -3]), st.sampled_from([10.0, 10.5, 11.0, 11.0, 40.0]))
stretches = st.lists(st.lists(steps, min_size=1, max_size=40), min_size=1, max_size=5)


@settings(max_examples=150)
@given(stretches, st.booleans(), st.integers(1, 8))
def test_both_fold_alike(stretches: list[list[tuple[int, float]]], first_single: bool, repeat: int) -> None:
    rows: list[Row] = []
    flags: list[bool] = []
    expected: list[Row] = []
    iteration = 10_000
    for number, stretch in enumerate(stretches):
        part = []
        for step, ms in stretch * repeat:
            iteration += step
            part.append(Row(iteration, ms, 3.0 + ms / 100, 0.1 + ms / 1000))
        single = first_single or number > 0
        expected += fold_rows(part, single)
        rows += part
        flags += [single] + [False] * (len(part) - 1)
    columns = (range(len(rows)), *([getattr(row, name) for row in rows] for name in ("iteration", "ms", "loss", "mfu")))
    block = RowBlock(*(np.array(column) for column in columns))
    folded = [row for _, row in fold_block(block, np.array(flags))]
    assert [exact(row) for row in folded] == [exact(row) for row in expected]
    assert [row.loss for row in folded] == pytest.approx([row.loss for row in expected])
    assert [row.sum_ms for row in folded] == pytest.approx([row.sum_ms for row in expected])


def exact(row: Row) -> tuple[float | None, ...]:
    return row.iteration, row.last_iteration, row.count, row.ms, row.mfu


# --- whole logs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mfu", [True, False])
@pytest.mark.parametrize("size", [700, 20_000, 10**9])
def test_a_folded_log_tells_the_same(size: int, mfu: bool) -> None:
    text = HEADER + print_rows(0, 6000, log_interval=1, mfu=mfu).replace("iter 2700:", "33iter 2700:")
    text += HEADER.replace("Initializing a new model from scratch", "Resuming training from out-web")
    text += print_rows(5500, 7000, log_interval=1, mfu=mfu)
    data = text.encode()
    (folded,) = in_bulk(*(data[at : at + size] for at in range(0, len(data), size)))
    (plain,) = fed(NANOGPT, text.splitlines())
    assert folded.rows.lines == len(plain.rows) == 7000
    assert len(folded.rows) < 1500
    assert sum(folded.rows.sum_ms) == pytest.approx(sum(plain.rows.ms))
    assert all(a < b for a, b in zip(folded.rows.last_iteration, folded.rows.iteration[1:], strict=False))
    assert told(folded) == told(plain)
    assert [(r.iteration, r.reached, r.lost.lines) for r in folded.restarts] == [(5500, 5999, 500)]
    assert dict(folded.facts) == dict(plain.facts)


def told(run: Run) -> list[tuple[object, ...]]:
    """Evaluations and checkpoints with the row that contains each, which must be a single row."""
    said = []
    for event in (*run.evaluations, *run.checkpoints):
        row = None if event.row is None else run.rows[event.row]
        said.append((type(event).__name__, event.iteration, row))
    return said


def test_the_last_row_may_be_cut() -> None:
    text = print_rows(0, 1000, log_interval=1)
    (run,) = in_bulk(text[:-4].encode())
    assert run.rows.lines == 999
    assert in_bulk(text.rstrip("\n").encode())[0].rows.lines == 1000


def test_large_logs_are_folded_and_small_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    data = print_rows(0, 30_000, log_interval=1).encode()
    assert len(open_runs(io.BytesIO(data))[0].rows) == 30_000
    monkeypatch.setattr(nanopace.sources.runs, "BULK_BYTES", 1 << 20)
    (run,) = open_runs(io.BytesIO(data))
    assert run.rows.lines == 30_000
    assert len(run.rows) < 1000
    assert run.value("log_interval") == 1


def test_windows_line_ends() -> None:
    text = print_rows(0, 1000, log_interval=1)
    assert in_bulk(text.replace("\n", "\r\n").encode())[0].rows == in_bulk(text.encode())[0].rows
