"""The table of a notebook: by step or by epoch, resumed, stopped, cut, and in Markdown."""

from __future__ import annotations

import pytest

from nanopace.errors import NotALog
from nanopace.run import Run

from ...reading import read
from ..examples.hugging_face import EXAMPLES

STEPS = "10\t2.500000\n20\t2.400000\n30\t2.300000\n"


def table(rows: str, bar: str = "[30/30 01:30, Epoch 1/1]", columns: str = "Step\tTraining Loss") -> str:
    return f"{bar}\n{columns}\n{rows}"


def evaluations(run: Run) -> list[tuple[int, float | None]]:
    return [(each.iteration, each.val) for each in run.evaluations]


def test_the_example() -> None:
    (run,) = read(EXAMPLES["hf_table"])  # type: ignore[arg-type]
    assert list(run.untimed_rows.iteration) == list(range(10, 130, 10))
    assert run.untimed_rows.loss[0] == 4.8859
    assert evaluations(run)[-1] == (120, pytest.approx(2.1413))
    assert (run.value("max_iters"), run.wall_ms, run.ending, run.ended_at) == (120, 166_250, "finished", 120)
    assert (run.trainer, run.row_loss, len(run.rows)) == ("Hugging Face Trainer", "smoothed", 0)


def test_the_bar_has_the_time_if_nothing_else_does() -> None:
    """Its clock starts when the first step ends: 33 of 34 steps took an hour."""
    (run,) = read(table(STEPS, "[34/34 1:01:30, Epoch 1/1]"))
    assert (run.wall_ms, run.ending, run.ended_at) == (pytest.approx(3_690_000 * 34 / 33), "finished", 34)
    (run,) = read(table(STEPS, "[ 34/50 01:30 < 00:45, 0.38 it/s, Epoch 0.68/1]"))
    assert (run.wall_ms, run.ending, run.value("max_iters")) == (None, None, 50)


def test_no_loss_was_logged_before_an_evaluation() -> None:
    (run,) = read(
        table("10\tNo log\t2.600000\n20\t2.400000\t2.500000\n", columns="Step\tTraining Loss\tValidation Loss")
    )
    assert evaluations(run) == [(10, 2.6), (20, 2.5)]
    assert [*run.untimed_rows.iteration] == [10, 20]
    assert run.untimed_rows.loss[1] == 2.4


def test_a_loss_that_is_shown_again_counts_once() -> None:
    rows = "50\tNo log\t2.7\n100\t2.500000\t2.6\n150\t2.500000\t2.5\n200\t2.300000\t2.4\n"
    (run,) = read(table(rows, columns="Step\tTraining Loss\tValidation Loss"))
    known = [(at, loss) for at, loss in zip(run.untimed_rows.iteration, run.untimed_rows.loss, strict=True)]
    assert [each for each in known if each[1] == each[1]] == [(100, 2.5), (200, 2.3)]
    assert len(run.evaluations) == 4
    (run,) = read(table("10\t0.000000\n20\t0.000000\n"))  # of reinforcement learning
    assert [*run.untimed_rows.loss] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("bar", "steps"),
    [
        ("[1875/1875 14:38, Epoch 3/3]", [625, 1250, 1875]),
        ("[1876/1876 14:38, Epoch 3/3]", None),  # not the same number in every epoch
        ("[1875/1875 14:38, Epoch 2/3]", None),  # max_steps=1875
        ("[1900/2500 14:38 < 05:00, 2.10 it/s, Epoch 3.04/4]", [625, 1250, 1875]),
        ("[1900/2800 14:38 < 05:00, 2.10 it/s, Epoch 3.04/4]", None),  # max_steps=2800
        ("[1900/2500 14:38 < 05:00, 2.10 it/s, Epoch 3/4]", None),
        ("", None),
    ],
)
def test_evaluations_after_each_epoch(bar: str, steps: list[int] | None) -> None:
    rows = "1\t0.493078\t0.470211\t0.9\n2\t0.339000\t0.480000\t0.9\n3\t0.219581\t0.600387\t0.9\n"
    text = table(rows, bar, "Epoch\tTraining Loss\tValidation Loss\tAccuracy")
    if steps is None:
        with pytest.raises(NotALog, match=r"Trainer \(3\), but the progress bars .* are missing"):
            read(text)
        return
    (run,) = read(text)
    assert [*run.untimed_rows.iteration] == steps
    assert evaluations(run) == [*zip(steps, (0.470211, 0.48, 0.600387), strict=True)]


def test_each_table_is_a_run() -> None:
    runs = read(table(STEPS) + table(STEPS, "[60/60 02:00, Epoch 1/1]") + table("25\t1.000000\n50\t0.900000\n"))
    assert [[*run.untimed_rows.iteration] for run in runs] == [[10, 20, 30], [10, 20, 30], [25, 50]]
    assert [run.wall_ms for run in runs] == pytest.approx([90_000 * 30 / 29, 120_000 * 60 / 59, 90_000 * 30 / 29])
    assert [run.restarts for run in runs] == [(), (), ()]
    assert [run.value("max_iters") for run in runs] == [30, 60, 30]


def test_a_resumed_training_continues_the_run() -> None:
    """Its table starts where it resumed, and its time is that of the second part."""
    (run,) = read(table(STEPS, "[ 33/60 01:30 < 01:30, 0.3 it/s, Epoch 0.5/1]") + table("40\t2.2\n50\t2.1\n60\t2.0\n"))
    assert [*run.untimed_rows.iteration] == [10, 20, 30, 40, 50, 60]
    assert (run.wall_ms, run.ending, run.restarts) == (None, "finished", ())


def test_a_table_in_markdown() -> None:
    (run,) = read("| Step | Training Loss |\n|---|---|\n| 10 | 2.5 |\n| 20 | 2.4 |\n")
    assert ([*run.untimed_rows.iteration], [*run.untimed_rows.loss]) == ([10, 20], [2.5, 2.4])


def test_the_table_of_a_model_card() -> None:
    head = "| Training Loss | Epoch | Step | Validation Loss |\n|:-------------:|:-----:|:----:|:---------------:|\n"
    (run,) = read(f"{head}| No log | 1.0 | 250 | 2.6 |\n| 2.4100 | 2.0 | 500 | 2.5 |\n")
    assert [*run.untimed_rows.iteration] == [250, 500]
    assert evaluations(run) == [(250, 2.6), (500, 2.5)]


def test_a_cut_last_line_counts_if_its_numbers_are_complete() -> None:
    assert [*read(table(STEPS)[:-1])[0].untimed_rows.iteration] == [10, 20, 30]
    assert [*read(table(STEPS)[:-2])[0].untimed_rows.iteration] == [10, 20]


def test_the_card_is_in_the_head() -> None:
    unsloth = "   \\\\   /|    Tesla T4. Num GPUs = 1. Max memory: 14.741 GB. Platform: Linux.\n"
    (run,) = read(unsloth + table(STEPS))
    assert run.value("gpu") == "Tesla T4"


def test_a_long_table_is_passed_on_as_it_is_read() -> None:
    (run,) = read(table("".join(f"{step}\t2.000000\n" for step in range(1, 10_001)), "[10000/10000 10:00, Epoch 1/1]"))
    assert (run.untimed_rows.lines, run.wall_ms) == (10_000, pytest.approx(600_060, abs=1))


def test_other_lines_with_bars_are_no_rows() -> None:
    (run,) = read(table(STEPS) + "40 | 1.0 | 3\n50\tx\n\n[12/12 00:03]\n60\n")
    assert [*run.untimed_rows.iteration] == [10, 20, 30]
