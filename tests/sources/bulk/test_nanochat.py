"""A long nanochat log is read as its plain reader would, and within bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.run import Run
from nanopace.sources.bulk.nanochat import _STEP, feed_bulk_nanochat
from nanopace.sources.formats.table import NANOCHAT

from ..reading import plain, runs_of

KEPT = Path(__file__).parents[1] / "formats" / "nanochat"
HEADERS = (
    ["Autodetected device type: cuda", "Total batch size 524,288 => gradient accumulation steps: 2"],
    ["GPU: NVIDIA H100 80GB HBM3 | Peak FLOPS (BF16): 9.89e+14", "Vocab size: 65,536"],
    ["Resuming optimization from step 40"],
    [],
)
OTHERS = (
    "Step 00050 | Validation bpb: 0.9500",
    "Step 00050 | CORE metric: 0.1500",
    "Saved model parameters to: /x/base_checkpoints/d12/model_000050.pt",
    "",
    "step 00060/01000 (6.00%) | loss: nan | lrm: 1.00 | dt: 100.00ms | tok/sec: 5,000 | mfu: 20.00 | total time: 1.00m",
    "step 00061/01000 (6.10%) | loss: 3.1 | lrm: 1.00 | dt: 0.00ms | tok/sec: 5,000 | mfu: 20.00 | total time: 1.00m",
    "step 00062/01000 (6.20%) | loss: 3.100000 | lrm: 1.00 | dt: 100.00ms | tok/s",
    "Peak memory usage: 70000.00MiB",
    "Autodetected device type: cpu",
)


def step(number: int, ms: float, form: int) -> str:
    total = "/01000" if form < 3 else ""
    norm = " | grad norm: 0.5000" if form == 1 else ""
    epoch = " | epoch: 1 pq: 2 rg: 32" if form in (2, 4) else ""
    mfu = f"{'bf16_' if form == 2 else ''}mfu: {20 + number / 100:.2f}"
    return (
        f"step {number:05d}{total} ({number / 10:.2f}%) | loss: {3 + number / 64:.6f}{norm} | lrm: 1.00"
        f" | dt: {ms:.2f}ms | tok/sec: {int(524288000 / ms):,} | {mfu}{epoch}"
        f" | total time: {number / 100:.2f}m{' | eta: 22.9m' if form == 2 else ''}"
    )


def said(run: Run) -> object:
    """Everything that folding does not change."""
    every = [row for rows in (run.rows, *(each.lost for each in run.restarts)) for row in rows]
    return (
        run.rows.lines,
        (run.rows.iteration[0], run.rows.last_iteration[-1]) if len(run.rows) else None,
        pytest.approx(sum(row.sum_ms for row in every)),
        pytest.approx(sum((row.loss or 0.0) * row.count for row in every)),
        str(run.rows.mfu[-1]) if len(run.rows) else None,  # nan where there is none
        [(each.iteration, each.reached, each.lost.lines) for each in run.restarts],
        run.evaluations,
        run.checkpoints,
        dict(run.facts),
        run.told_training_s,
        run.told_tokens,
        run.stage,
        run.ending,
        run.untimed,
    )


PIECE = (
    st.tuples(
        st.integers(0, 90),
        st.integers(1, 30),
        st.sampled_from((1.5, 100.5, 400.0)),
        st.sampled_from((0, 0, 1, 2, 3, 4)),
    ).map(lambda each: [step(each[0] + n, each[2] + n / 8, each[3]) for n in range(each[1])])
    | st.sampled_from(OTHERS).map(lambda line: [line])
    | st.sampled_from(HEADERS)
    | st.text(max_size=20).map(lambda text: [text])
)


@given(st.lists(PIECE, max_size=10), st.integers(50, 5000), st.booleans(), st.data())
@settings(max_examples=150, deadline=None)
def test_both_readers_say_the_same(pieces: list[list[str]], chunk: int, ended: bool, data: st.DataObject) -> None:
    text = "\n".join(line for piece in pieces for line in piece) + "\n" * ended
    if text and data.draw(st.booleans()):  # one character is changed
        at = data.draw(st.integers(0, len(text) - 1))
        text = text[:at] + data.draw(st.sampled_from(" |:./,%019m\n")) + text[at + 1 :]
    assert [said(run) for run in runs_of(NANOCHAT, feed_bulk_nanochat, text, chunk)] == [
        said(run) for run in runs_of(NANOCHAT, plain, text, chunk)
    ]


def test_alike_steps_become_one_row_and_a_slow_one_stays() -> None:
    text = "\n".join(step(n, 900.0 if n == 700 else 100.5, 2) for n in range(1000)) + "\n"
    (run,) = runs_of(NANOCHAT, feed_bulk_nanochat, text)
    assert run.rows.lines == 1000
    assert len(run.rows) < 10
    assert [row.iteration for row in run.rows if row.ms == 900.0] == [700]


def test_a_step_that_is_printed_twice_is_read_line_by_line() -> None:
    text = "\n".join(step(n - (n >= 10), 100.5, 0) for n in range(20)) + "\n"
    bulk, by_line = (runs_of(NANOCHAT, feed, text) for feed in (feed_bulk_nanochat, plain))
    assert [said(run) for run in bulk] == [said(run) for run in by_line]


def test_the_lines_that_nanochat_prints_are_the_usual_ones() -> None:
    printed = [line for path in sorted(KEPT.glob("*.log")) for line in path.read_text().splitlines()]
    steps = [line for line in printed if line.startswith("step ") and "ms |" in line]
    assert len(steps) > 10
    assert sum(_STEP.fullmatch(line.encode()) is not None for line in steps) > 0.9 * len(steps)
