"""A long nanochat log is read as its plain reader would."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.run import Row, Rows, Run
from nanopace.sources.build import LineReader, RunBuilder
from nanopace.sources.bulk_nanochat import _ROW, feed_bulk_nanochat
from nanopace.sources.nanochat import NanochatReader
from nanopace.sources.text import lines

HEADER = "Autodetected device type: cuda\nGPU: NVIDIA H100 80GB HBM3 | Peak FLOPS (BF16): 9.89e+14"


def row(iteration: int, ms: float = 312.5, loss: float = 3.25) -> str:
    rate = f"{int(524_288 / ms * 1000):,}"
    return (
        f"step {iteration:05d}/09999 (0.05%) | loss: {loss:.6f} | lrm: 1.00 | dt: {ms:.2f}ms | tok/sec: {rate} | "
        f"bf16_mfu: 48.10 | epoch: 1 | total time: {iteration / 10:.2f}m | eta: 3.1m"
    )


def plain(reader: LineReader, chunks: Iterable[bytes]) -> None:
    for line, ended in lines(chunks):
        (reader.feed if ended else reader.feed_cut)(line)
    reader.finish()


def read(feed: Callable[[LineReader, Iterable[bytes]], None], text: str, chunk: int = 1 << 20) -> list[Run]:
    data, builder = text.encode("utf-8", "surrogatepass"), RunBuilder("run.log")
    feed(NanochatReader(builder), [data[at : at + chunk] for at in range(0, len(data), chunk)])
    return builder.finish()


def said(run: Run) -> object:
    """All that folding leaves as it was."""
    every = [each for rows in (run.rows, *(restart.lost for restart in run.restarts)) for each in rows]
    return (
        _amount(run.rows),
        pytest.approx(sum(each.sum_ms for each in every)),
        pytest.approx(sum((each.loss or 0.0) * each.count for each in every)),
        [(each.iteration, each.reached, _amount(each.lost)) for each in run.restarts],
        *(run.evaluations, run.checkpoints, dict(run.facts), run.ending, run.stage, run.told_tokens),
        run.told_training_s,
    )


def _amount(rows: Rows) -> object:
    return rows.lines, rows.iteration[0] if len(rows) else None, rows.last_iteration[-1] if len(rows) else None


OTHERS = (
    *(
        "Step 00050 | Validation bpb: 1.0432",
        "",
        "Total training time: 3.00m",
        HEADER,
        "Resuming optimization from step 7",
    ),
    *(
        "saved",
        row(55).replace("48.10", "inf"),
        row(56).replace("312.50", "0.00"),
        row(57)[:60],
        row(58).replace("/09999", ""),
    ),
)
PIECE = (
    st.tuples(st.integers(0, 90), st.integers(1, 30), st.sampled_from((1.5, 100.5, 400.0))).map(
        lambda each: [row(each[0] + n, each[2] + n / 8, 3 + n / 64) for n in range(each[1])]
    )
    | st.sampled_from(OTHERS).map(lambda line: [line])
    | st.text(max_size=20).map(lambda text: [text])
)


@given(st.lists(PIECE, max_size=12), st.integers(50, 5000), st.booleans(), st.data())
@settings(max_examples=100, deadline=None)
def test_both_readers_say_the_same(pieces: list[list[str]], chunk: int, ended: bool, data: st.DataObject) -> None:
    text = "\n".join([HEADER, *(line for piece in pieces for line in piece)]) + "\n" * ended
    if data.draw(st.booleans()):  # one character is another
        at = data.draw(st.integers(0, len(text) - 1))
        text = text[:at] + data.draw(st.sampled_from(" |/:.019e-\n")) + text[at + 1 :]
    bulk, one_by_one = read(feed_bulk_nanochat, text, chunk), read(plain, text, chunk)
    assert [said(run) for run in bulk] == [said(run) for run in one_by_one]


def test_alike_rows_become_one_and_a_slow_one_stays() -> None:
    text = "\n".join([HEADER, *(row(n, 900.0 if n == 700 else 312.5) for n in range(1000))]) + "\n"
    (run,) = read(feed_bulk_nanochat, text)
    assert run.rows.lines == 1000
    assert len(run.rows) < 20
    assert Row(700, 900.0, 3.25, 48.1 / 100) in list(run.rows)
    assert all(before.last_iteration < after.iteration for before, after in pairwise(run.rows))
    assert run.value("tokens_per_iteration") == 524_288


def test_the_row_of_today_is_the_usual_one() -> None:
    assert _ROW.fullmatch(row(7).encode())
