"""Rows of Megatron and its forks, whose clock may keep running."""

from __future__ import annotations

import pytest

from nanopace.diagnosis.diagnose import diagnose

from ...reading import read, read_one
from ..examples.frameworks import MEGATRON_HEAD, clock, megatron_log, megatron_row

END = "number of skipped iterations:   0 | number of nan iterations:   0 |"
FORKS = {
    "2019": " iteration {n:8d}/     100 | elapsed time per iteration (ms): 1500.0 | learning rate: 1.875E-05 | "
    "lm loss: 9.500000E+00 | loss scale: 1024.0 | " + END,
    "DeepSpeed": " iteration {n:8d}/     100 | consumed samples: {n:12d} | consumed tokens: {n}024 | elapsed time per "
    "iteration (s): 1.50 | learning rate: 1.944E-05 | global batch size:     1 | lm loss: 9.500000E+00 | grad norm: "
    "0.765 | num zeros: 0.0 | " + END + " samples per second: 1.050 | TFLOPs: 69.85 |",
    "GPT-NeoX": " samples/sec: 51.234 | iteration {n:8d}/     100 | elapsed time per iteration (ms): 1500.0 | learning "
    "rate: 1.234E-04 | approx flops per GPU: 150.3TFLOPS | lm_loss: 9.500000E+00 | " + END,
    "two times": "[default0]: [2025-05-27 15:23:{n:02d}] iteration {n:8d}/     100 | consumed samples: {n} | "
    "elapsed time per iteration (ms): 1500.0/1498.2 | lm loss: 9.500000E+00 | loss scale: 1.0 | " + END,
    "few columns": "[Rank 7] INFO [train] =>  iteration {n:8d}/  100 | consumed samples: 8 | elapsed time per "
    "iteration (ms): 1500.0 | learning rate: 1.0E-05 | loss: 9.500000E+00 | grad norm: 134.300 |",
    "labelled": "7:  iteration {n:8d}/     100 | consumed samples: {n:12d} | elapsed time per iteration (ms): 1500.0 | "
    "lm loss: 9.500000E+00 | " + END,
}


@pytest.mark.parametrize("fork", FORKS)
def test_rows_of_forks(fork: str) -> None:
    run = read_one("".join(f"{FORKS[fork].format(n=n)}\ntime (ms) | forward-compute: 144.40\n" for n in range(1, 9)))
    assert [(row.iteration, row.ms, row.loss) for row in run.rows] == [(n, 1500.0, 9.5) for n in range(1, 9)]
    assert run.value("max_iters") == 100
    assert run.row_contains_evaluation == (fork != "two times")


def test_the_evaluation_is_in_the_next_row_of_the_old_clock() -> None:
    run = read_one(megatron_log(stamped=False))
    assert [each.row for each in run.evaluations] == [each.row for each in run.checkpoints] == [5]
    assert run.rows[5].iteration == 60
    wall = diagnose(run).wall
    assert wall.total_s == pytest.approx(115.0)  # 100 steps of 1 s, and 15 s in the mean of ten
    assert wall.training_s == pytest.approx(100.0)


def test_the_new_clock_stops_and_the_times_are_printed() -> None:
    wall = diagnose(read_one(megatron_log(stamped=True))).wall
    assert (wall.total_s, wall.evaluation_s, wall.checkpoint_s) == pytest.approx((115.0, 10.0, 5.0))


def test_the_first_iteration_is_counted_once() -> None:
    """Its own row takes 31 s, nine more take 1 s; the printed mean of all ten is 4 s."""
    rows = [(1, 31000.0, 31), (10, 4000.0, 40), (20, 1000.0, 50)]
    text = "".join(megatron_row(n, ms, stamp=f"[{clock(at)}] ") for n, ms, at in rows)
    assert list(read_one(text).rows.ms) == [31000.0, 1000.0, 1000.0]
    reset = "".join(megatron_row(n, ms, stamp=f"[{clock(at)}] ") for n, ms, at in [(1, 9e3, 9), (10, 4e3, 45)])
    assert list(read_one(reset).rows.ms) == [9000.0, 4000.0]


@pytest.mark.parametrize("resumed", [0, 14000])
def test_the_first_iteration_is_counted_once_in_the_very_next_row(resumed: int) -> None:
    """It takes 9 s, and each one after it 1.5 s. The printed mean of the first two is 5.25 s."""
    rows = [(1, 9000.0, 9.25), (2, 5250.0, 10.75), (3, 1500.0, 12.25)]
    text = "".join(megatron_row(resumed + n, ms, stamp=f"[{clock(at)}.{100 * at % 100:.0f}] ") for n, ms, at in rows)
    assert list(read_one(text).rows.ms) == [9000.0, 1500.0, 1500.0]


def test_stamps_in_whole_seconds_do_not_show_what_a_second_row_counts() -> None:
    rows = [(1, 1900.0, 9), (2, 1000.0, 9), (3, 1000.0, 10)]
    text = "".join(megatron_row(n, ms, stamp=f"[{clock(at)}] ") for n, ms, at in rows)
    assert list(read_one(text).rows.ms) == [1900.0, 1000.0, 1000.0]


def test_what_a_rising_batch_leaves_unknown() -> None:
    rising = "".join(megatron_row(10 * n, 1000.0, batch=8 * n) for n in range(1, 9))
    assert "tokens_per_iteration" not in read_one(MEGATRON_HEAD + rising).facts
    last = "".join(megatron_row(10 * n, 1000.0, batch=8 if n < 2 else 16) for n in range(1, 12))
    assert read_one(MEGATRON_HEAD + last).value("tokens_per_iteration") == 16 * 2048


def test_losses_of_the_test_set_are_not_validation() -> None:
    line = " validation loss at {} | lm loss value: {}.000000E+00 | lm loss PPL: 1.096633E+03 | \n"
    places = ("iteration 90", "iteration 100 on validation set", "iteration 100 on test set")
    text = "".join(megatron_row(n, 1000.0) for n in (90, 100)) + "".join(map(line.format, places, (7, 6, 5)))
    assert [(each.iteration, each.val) for each in read_one(text).evaluations] == [(90, 7.0), (100, 6.0)]
    end = line.format("the end of training for val data", 4) + line.format("the end of training for test data", 3)
    assert [(each.iteration, each.val) for each in read_one(megatron_row(80, 1.0) + end).evaluations] == [(80, 4.0)]


def test_a_benchmark_is_in_the_next_row_of_the_old_clock() -> None:
    """A zero-shot task that a fork runs during training has no loss, but takes its time."""
    line = " validation results on LAMBADA | number correct: 3.5650E+03 | total examples: 5.1530E+03 | \n"
    rows = [megatron_row(n, 9000.0 if n % 50 == 1 and n > 1 else 1000.0) + line * (n % 50 == 0) for n in range(1, 200)]
    run = read_one("".join(rows))
    assert [(each.iteration, each.val, each.row) for each in run.evaluations] == [
        *((50, None, 50), (100, None, 100), (150, None, 150))
    ]
    wall = diagnose(run).wall
    assert (wall.evaluation_s, wall.stall_s) == (pytest.approx(24.0), 0)
    assert read_one(line + megatron_row(50, 1000.0)).evaluations == ()


def test_a_row_without_a_loss_and_a_skipped_step() -> None:
    rows = [megatron_row(n, 1000.0, None if n == 5 else 9.0) for n in range(1, 9)]
    rows[4] = rows[4].replace("skipped iterations:   0", "skipped iterations:   1")
    run = read_one("".join(rows))
    assert [row.loss for row in run.rows][3:6] == [9.0, None, 9.0]
    assert run.skipped == (5,)


@pytest.mark.parametrize(
    ("line", "restarts", "runs"),
    [("will not load any checkpoints and will start from random", 0, 2), ("successfully loaded checkpoint from", 1, 1)],
)
def test_a_second_process(line: str, restarts: int, runs: int) -> None:
    said = f"  {line} ckpt at iteration 50\n"
    text = "".join(megatron_row(10 * n, 1000.0) for n in range(1, 8)) + said
    found = read(text + "".join(megatron_row(10 * n, 1000.0) for n in range(6, 9)))
    assert (len(found), sum(len(each.restarts) for each in found)) == (runs, restarts)


def test_a_slow_first_row_is_a_start_though_no_header_says_so() -> None:
    """The mean of ten iterations is 2.5 s, nine of which took 1 s. An excerpt of later rows has no start-up."""
    rows = [megatron_row(10 * n, 2500.0 if n == 1 else 1000.0) for n in range(1, 20)]
    found = diagnose(read_one("".join(rows)))
    assert found.startup is not None
    (startup,) = (each for each in found.findings if each.code.startswith("startup"))
    assert startup.numbers == {
        "elsewhere": True,
        "iterations": 10,
        "total_s": pytest.approx(25.0),
        "step_s": pytest.approx(10.0),
    }
    assert found.wall.startup_s == pytest.approx(15.0)
    later = [megatron_row(1000 + 10 * n, 2500.0 if n == 1 else 1000.0) for n in range(1, 20)]
    assert diagnose(read_one("".join(later))).wall.startup_s == 0


def test_an_evaluation_behind_the_last_row_is_not_hidden_between_rows() -> None:
    line = " validation loss at iteration {} | lm loss value: 7.000000E+00 | lm loss PPL: 1.096633E+03 | \n"
    text = "".join(
        megatron_row(n, 2000.0 if n % 50 == 10 and n > 50 else 1000.0) + (line.format(n) if n % 50 == 0 else "")
        for n in range(10, 201, 10)
    )
    found = {each.code: each.numbers for each in diagnose(read_one(text)).findings}
    assert not {"hidden_unpriced", "hidden_evaluations", "align_log_interval"} & set(found)
    assert (found["after_last_row"]["iteration"], found["after_last_row"]["after_s"]) == (200, pytest.approx(10.0))
    assert found["evaluation_rows"]["each_s"] == pytest.approx(10.0)
