"""Whatever the input: only our own errors, no long wait, and the same Run however the bytes arrive."""

from __future__ import annotations

import io
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.errors import NanopaceError, NotALog
from nanopace.run import Run
from nanopace.sources.build import RunBuilder
from nanopace.sources.bulk.nanogpt import feed_bulk
from nanopace.sources.formats.table import NANOGPT
from nanopace.sources.runs import open_runs

from .nanogpt_logs import WHOLE_LOG, print_rows
from .reading import read

LINES = (
    "iter 0: loss 10.8720, time 32025.45ms, mfu -100.00%",
    "iter 200: loss 6.2977, time 3917.80ms, mfu 12.87%",
    "iter 400: loss nan, time 3917.80ms",
    "step 0: train loss 10.8684, val loss 10.8727",
    "step 500: train loss nan, val loss inf",
    "saving checkpoint to out",
    "Overriding config with config/x.py:",
    "batch_size = 8 # comment",
    "n_embd = (((((((",
    "Overriding: n_layer = 12",
    "tokens per iteration will be: 0",
    "number of parameters: 0.00M",
    "num decayed parameter tensors: 50, with 124,354,560 parameters",
    "num non-decayed parameter tensors: 25, with 0 parameters",
    "found vocab_size = 0 (inside meta.pkl)",
    "Initializing a new model from scratch",
    "Resuming training from out",
    "Traceback (most recent call last):",
    "KeyboardInterrupt",
    "step 00010/21400 (0.05%) | loss: 9.123456 | lrm: 1.00 | dt: 312.10ms | tok/sec: 1 | mfu: 48.10 | total time: 0m",
    '{"event": "run"}',
    "nanopace 0.3.0 train: out, 65,536 tokens a step, steps 0 to 2000",
    "  n_layer: 12: so",
    "iter 10: loss 3.2841, time 168.65ms, mfu n/a, 388652 tok/s, norm 0.84, lr 6.00e-04",
    "step 250: val loss 3.2841, time 812.40ms, val error 0.0031, train error 0.0103 (last 250 steps), 1.0 bits",
    "step 250: train loss (last 250 steps) 3.3121, val loss 3.2841, time 812.40ms, val error 0.0031, 1.0 bits",
    "saved out/checkpoints/step-00000250, time 12.30ms, in the background 1840.00ms, 1.48 GB",
    "finished after 2000 steps in 2 min 3 s, 0.012 kWh",
    "interrupted after 812 steps; resume with: nanopace train --init_from=resume --out_dir=out",
    "",
)  # fmt: skip
fragments = st.one_of(
    st.sampled_from(LINES).map(str.encode),
    st.sampled_from(LINES).flatmap(lambda line: st.integers(0, len(line)).map(lambda at: line[:at].encode())),
    st.sampled_from([b"\r", b"\r\n", b"\x1b[31m", b"^[[A", b"\x00", b"\xff", b"\n", b"\n", b"\n", b"33"]),
    st.binary(max_size=12),
)
logs = st.lists(fragments, max_size=40).map(b"".join)


def rising(runs: list[Run]) -> bool:
    return all(a < b for run in runs for a, b in zip(run.rows.last_iteration, run.rows.iteration[1:], strict=False))


def linked(runs: list[Run]) -> bool:
    """An evaluation or a save points at the row of its own iteration."""
    return all(
        event.row is None or run.rows.iteration[event.row] == event.iteration
        for run in runs
        for event in (*run.evaluations, *run.checkpoints)
    )


@settings(max_examples=300)
@given(logs)
def test_no_input_raises_but_our_own_errors(data: bytes) -> None:
    try:
        runs = read(data)
    except NanopaceError:
        return
    assert rising(runs)
    assert linked(runs)
    assert all(restart.row < len(run.rows) for run in runs for restart in run.restarts)


@settings(max_examples=100)
@given(st.binary(max_size=400))
def test_nor_do_bytes(data: bytes) -> None:
    with pytest.raises(NanopaceError):
        read(data)


@settings(max_examples=150)
@given(logs)
def test_nor_in_bulk(data: bytes) -> None:
    builder = RunBuilder("log")
    feed_bulk(NANOGPT.open_reader(builder), [data])
    runs = builder.finish()
    assert rising(runs)
    assert linked(runs)


@settings(max_examples=60)
@given(data=st.data())
def test_a_cut_anywhere(data: st.DataObject) -> None:
    at = data.draw(st.integers(WHOLE_LOG.index("iter 200:"), len(WHOLE_LOG)))
    cut = WHOLE_LOG[:at]
    before, last = cut[: cut.rfind("\n") + 1], cut[cut.rfind("\n") + 1 :]
    whole = last.startswith("iter") and last.endswith("%")
    whole |= last.startswith("step") and len(last) == len(WHOLE_LOG[len(before) :].partition("\n")[0])
    expected = read(before + last + "\n" if whole else before)
    assert read(cut) == expected


@settings(max_examples=60)
@given(data=st.data())
def test_a_beginning_that_is_missing(data: st.DataObject) -> None:
    text = print_rows()
    at = data.draw(st.integers(0, text.index("iter 2000:")))
    (run,) = read(text[at:])
    assert list(run.rows) == list(read(text)[0].rows)[-len(run.rows) :]
    assert len(run.rows) == text[at:].count("iter ")


def timed(*chunks: bytes) -> float:
    start = time.process_time()
    with pytest.raises(NotALog):
        read(b"".join(chunks))
    return time.process_time() - start


@pytest.mark.slow
@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("piece", [b"x", b"iter 1: loss ", b"step 1: train loss 1.0, ", b"\x1b[", b"^[[", b"\x1b]0;"])
def test_a_line_without_end(piece: bytes) -> None:
    assert timed(b"step 0: train loss 1.0000, val loss 1.0000\n", piece * (20_000_000 // len(piece))) < 10


@pytest.mark.slow
@pytest.mark.usefixtures("untraced")
def test_evaluations_without_end() -> None:
    start = time.process_time()
    (run,) = open_runs(
        io.BytesIO(b"".join(b"step %d: train loss 1.0000, val loss 1.0000\n" % n for n in range(100_000)))
    )
    assert len(run.evaluations) == 100_000
    assert time.process_time() - start < 10


@pytest.mark.slow
@pytest.mark.usefixtures("untraced")
def test_lines_that_never_become_anything() -> None:
    assert timed(b"step 0: train loss 1.0000, val loss 1.0000\n", b"iter 1\n" * 100_000) < 10
