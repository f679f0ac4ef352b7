"""Rows and evaluations of nanoGPT's forks: other units, more columns, other words for the same thing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.sources.formats.nanogpt_lines import like_evaluation, read_line, read_row

from ..reading import read, read_one

Print = Callable[..., str]


@pytest.mark.parametrize(
    ("line", "iteration", "ms", "loss"),
    [
        ("iter 10: loss 6.1551 BPC, time 169.00ms, mfu 12.00%", 10, 169.0, 6.1551),
        ("iter 100: loss 2.6099, lr 9.99e-04, grad_norm 1.1197, time 16188.54ms", 100, 16188.54, 2.6099),
        ("iter 100: loss 3.1000, time 1234.56ms, lr 0.0006, grad norm 1.2 ...", 100, 1234.56, 3.1),
        ("iter 100: loss 3.1000, lr: 0.0006, time: 1234.56ms, mfu: 12.00%", 100, 1234.56, 3.1),
        ("iter 100: loss 3.1000 | time 1.25s | 4,096 tok/s", 100, 1250.0, 3.1),
        ("iter 100/5000: train loss: 3.1000, dt 123ms", 100, 123.0, 3.1),
        ("iter 7: loss 3.1, total time 99.00s, time 12.50ms", 7, 12.5, 3.1),
        ("Iteration 100 | loss 3.1000 | time 12.50ms", 100, 12.5, 3.1),
        ("iter 7: loss 9.5e-05, tok/s 5000, step time 12.50 ms", 7, 12.5, 9.5e-05),
    ],
)
def test_rows(line: str, iteration: int, ms: float, loss: float) -> None:
    (run,) = read(line + "\n")
    (row,) = run.rows
    assert (row.iteration, row.ms, row.loss) == (iteration, pytest.approx(ms), loss)


@pytest.mark.parametrize(
    "line",
    [
        "iter 100: loss 3.1000, total time 99.00s",
        "iter 100: loss 3.1000, time 12:30:01",
        "iter 100: loss 3.1000, time 3 steps",
        "iter 100: val loss 3.1000, val time: 12.00 ms",
    ],
)
def test_what_is_no_row(line: str) -> None:
    assert read_row(line) is None


@pytest.mark.parametrize(
    ("line", "train", "val"),
    [
        ("step 100: train loss 4.2000 (PPL 66.7) | val loss 4.3000 (PPL 73.7)", 4.2, 4.3),
        (
            "step 100: train loss 4.2099 (PPL: 67.35, BPC: 6.07) | val loss 4.2111 (PPL: 67.43, BPC: 6.08)",
            4.2099,
            4.2111,
        ),
        ("step 100: train loss 4.2000, train_stdev 0.0100, val loss 4.3000, val_stdev 0.0200", 4.2, 4.3),
        ("step 100: train_loss: 4.2000, val_loss: 4.3000", 4.2, 4.3),
        ("step 100: val loss 4.3000", None, 4.3),
        ("Step 100 | train loss 4.2000 | val loss 4.3000", 4.2, 4.3),
        ("2024-01-01 10:00:00 step 100/5000: train loss 4.2000; validation loss 4.3000", 4.2, 4.3),
    ],
)
def test_evaluations(line: str, train: float | None, val: float) -> None:
    (run,) = read(f"{line}\niter 100: loss 4.1000, time 5.00ms\n")
    (evaluation,) = run.evaluations
    assert (evaluation.train, evaluation.val, evaluation.metric, evaluation.row) == (train, val, "loss", 0)


def test_a_torn_evaluation_does_not_borrow_the_loss_of_the_next() -> None:
    found = read_line("step 500: train loss 5.4354, vstep 600: train loss 5.1000, val loss 5.2000")
    assert found is not None
    assert found.values[:3] == ("600", "5.1000", "5.2000")


def test_bits_per_character_are_no_nats() -> None:
    log = "".join(
        f"step {n}: train loss {4.15 - n / 1e3:.4f} BPC, val loss {4.17 - n / 1e3:.4f} BPC\n"
        f"iter {n}: loss {4.16 - n / 1e3:.4f} BPC, time 50.00ms, mfu 7.00%\n"
        for n in range(0, 500, 50)
    )
    (run,) = read(log)
    assert {each.metric for each in run.evaluations} == {"bpc"}
    assert "vocab_size" not in run.facts  # 4.17 is the logarithm of 65 only in nats


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("saving checkpoint to out", "out"),
        ("saved best checkpoint to out\\ckpt_best.npz", "out\\ckpt_best.npz"),
        ("Saving checkpoint to out/ckpt.pt", "out/ckpt.pt"),
        ("Saved model to out/best.pt", "out/best.pt"),
    ],
)
def test_checkpoints(line: str, path: str) -> None:
    (run,) = read(f"step 10: train loss 4.2000, val loss 4.3000\n{line}\niter 10: loss 4.1000, time 5.00ms\n")
    assert [(each.iteration, each.path) for each in run.checkpoints] == [(10, path)]


# --- what looks like an evaluation and cannot be read ----------------------------------------------------------------

ROWS = "".join(f"iter {n}: loss 3.1000, time 5.00ms, mfu 1.00%\n" for n in range(10))


def test_unread_evaluations_are_counted() -> None:
    (run,) = read(
        ROWS + "step 10: loss/train 2.5000 loss/dev 2.6000\n" + "step 20: mean loss 2.4000\n" + "iter 21: x\n"
    )
    assert run.unread is not None
    assert (run.unread.count, run.unread.line) == (2, 11)
    assert run.unread.text == "step 10: loss/train 2.5000 loss/dev 2.6000"


@pytest.mark.parametrize(
    "line",
    [
        "Iter {n}: Train loss 2.5000, Val loss 2.6000",
        "iter {n}: train loss 2.5000, val loss 2.6000",
        "Step {n}: Train Loss = 2.5000, Validation Loss = 2.6000",
        "step {n}: val/loss 2.6000",
        "step {n}: loss/train 2.5000 loss/val 2.6000",
        ">>> step {n:05d} | train 2.5000 | val 2.6000 | best 2.6000",
    ],
)
def test_evaluations_in_other_words(line: str) -> None:
    evaluated = range(0, 90, 30)
    rows = [
        f"{line.format(n=n)}\n" * (n in evaluated) + f"iter {n}: loss 3.1000, time 5.00ms, mfu 1.00%\n"
        for n in range(90)
    ]
    (run,) = read("".join(rows))
    assert (list(run.rows.iteration), run.rows_of_others) == (list(range(90)), 0)
    assert [(each.iteration, each.val, each.row) for each in run.evaluations] == [(n, 2.6, n) for n in evaluated]
    assert {each.train for each in run.evaluations} <= {2.5, None}


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("eval @ 20: train 2.5000 | val 2.6000", 1),
        ("validation loss at step 20: 2.6000", 1),
        ("Evaluating... val_loss 2.6000", 1),
        ("eval took 12.5 s", 0),  # a time has fewer decimals,
        ("the valley is 2.6000 m deep", 0),
        ("evaluating for the 12th time", 0),
    ],
)
def test_other_lines_that_may_be_evaluations(line: str, count: int) -> None:
    (run,) = read(f"{ROWS}{line}\n")
    assert (0 if run.unread is None else run.unread.count) == count
    (known,) = read(f"step 0: train loss 4.2000, val loss 4.3000\n{ROWS}{line}\n")
    assert known.unread is None, "a remark about an evaluation that was read"


def test_an_evaluation_that_may_have_been_broken_is_missed_too() -> None:
    (run,) = read(ROWS + "step 10: train loss 2.5000 and no other\n" + "iter 11: loss 3.1000, time 5.00ms, mfu 1.00%\n")
    assert run.unread is not None
    assert (run.unread.count, run.unread.line) == (1, 11)


def test_unread_evaluations_have_their_line_in_a_long_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nanopace.sources.runs.BULK_BYTES", 1000)
    rows = [f"iter {n}: loss 3.1000, time 5.00ms, mfu 1.00%" for n in range(3000)]
    rows.insert(1234, "step 1234: mean loss 2.4000")
    run = read_one("\n".join(rows))
    assert run.unread is not None
    assert run.unread.line == 1235


@pytest.mark.parametrize("width", [30, 45, 60])
def test_a_broken_evaluation_is_read_and_not_missed(width: int) -> None:
    line = "step 100: train loss 4.2099 (PPL: 67.35, BPC: 6.07) | val loss 4.2111 (PPL: 67.43, BPC: 6.08)"
    log = f"{ROWS}{line}\niter 100: loss 4.1000, lr 1.00e-04, grad_norm 2.5979, time 5.00ms, mfu 1.00%\n"
    wrapped = "".join(
        f"{each[at : at + width]}\n" for each in log.splitlines() for at in range(0, max(1, len(each)), width)
    )
    (run,) = read(wrapped)
    assert [(each.iteration, each.train, each.val) for each in run.evaluations] == [(100, 4.2099, 4.2111)]
    assert (run.rows.iteration[-1], run.unread) == (100, None)


def test_words_are_no_evaluation() -> None:
    assert not like_evaluation("step 3: watch the loss")
    assert not like_evaluation("footstep 3: no loss of 2 teeth")


# --- the plain row, read fast ----------------------------------------------------------------------------------------


@given(
    st.integers(0, 10**9),
    st.floats(0, 99).map(lambda x: f"{x:.4f}") | st.sampled_from(["nan", "inf"]),
    st.floats(0.01, 1e6),
    st.floats(-100, 300),
)
def test_the_fast_way_reads_the_same(iteration: int, loss: str, ms: float, mfu: float) -> None:
    line = f"iter {iteration}: loss {loss}, time {ms:.2f}ms, mfu {mfu:.2f}%"
    assert read_line(line) == read_row(line)


# --- ranks -----------------------------------------------------------------------------------------------------------


def test_of_several_ranks_one_is_read() -> None:
    log = "".join(
        f"[rank{r}]: iter {n}: loss 3.{r}000, time 5.0{r}ms, mfu 1.00%\n" for n in range(20) for r in range(4)
    )
    (run,) = read(log)
    assert list(run.rows.iteration) == list(range(20))
    assert set(run.rows.loss) == {3.0}
