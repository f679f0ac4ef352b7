"""CSV files: Lightning's, a chart of W&B, and the history of a run."""

from __future__ import annotations

import pytest

from nanopace.errors import NotALog

from ...reading import read
from ..examples.trackers import EXAMPLES


def test_lightning() -> None:
    (run,) = read(EXAMPLES["lightning"])
    assert (run.trainer, len(run.rows), run.rows_cover) == ("Lightning", 0, 1)
    assert list(run.untimed_rows.iteration) == list(range(9, 129, 10))
    assert [(each.iteration, each.val) for each in run.evaluations] == [(39, 3.6882), (79, 2.6721), (119, 2.1504)]
    assert dict(run.caveats[0].numbers) == {"train": "train_loss_step", "validation": "val_loss"}


@pytest.mark.parametrize(
    "head",
    [
        "step,epoch,loss",
        "epoch,step,train/loss,val/loss",
        '"epoch","step","train_loss"',
        "lr-AdamW/pg1,epoch,train_loss_step,val_loss/dataloader_idx_0,step",
        "val_loss,train_loss,step,epoch",
    ],
)
def test_columns_of_lightning(head: str) -> None:
    names = [name.strip('"') for name in head.split(",")]
    train = next(name for name in names if name.startswith(("loss", "train")))
    rows = [
        ",".join({"step": str(step), train: "2.5", "epoch": "0"}.get(name, "") for name in names) for step in (49, 99)
    ]
    (run,) = read("\r\n".join([head, *rows, ""]))
    assert (list(run.untimed_rows.iteration), list(run.untimed_rows.loss)) == ([49, 99], [2.5, 2.5])


def test_a_chart_of_several_runs() -> None:
    first, second = read(EXAMPLES["wandb_csv"])
    assert (first.trainer, len(first.untimed_rows), len(second.untimed_rows)) == ("W&B", 12, 6)
    assert second.untimed_rows.loss[0] == pytest.approx(first.untimed_rows.loss[0] + 0.2)


@pytest.mark.parametrize("clock", ["_runtime", "_timestamp"])
def test_the_history_of_a_run_has_a_clock(clock: str) -> None:
    """A timestamp does not show when the run began, and so nothing about the first row."""
    starts = 0 if clock == "_runtime" else 1.7e9
    rows = [
        f"{n},{n},{starts + 2.6 * (n + 1):.3f},{10 * (n + 1)},{5 - n / 10},{'' if n % 4 else 4}\n" for n in range(20)
    ]
    (run,) = read(f",_step,{clock},train/global_step,train/loss,eval/loss\n" + "".join(rows))
    steps = list(range(10, 210, 10))
    assert list(run.rows.iteration) == (steps if clock == "_runtime" else steps[1:])
    assert run.rows.ms[5] == pytest.approx(260)
    assert len(run.evaluations) == 5


def test_a_history_of_whole_seconds() -> None:
    rows = "".join(f"{n},{int(2.6 * (n + 1))},{5 - n / 100}\n" for n in range(100))
    (run,) = read("_step,_runtime,loss\n" + rows)
    assert sum(run.rows.ms) == pytest.approx(260_000)
    assert run.rows.ms[50] == pytest.approx(2600, abs=1000)
    assert [each.code for each in run.caveats] == ["whole_seconds", "tracked_series"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epoch,step,gen_loss,disc_loss\n0,1,2,3\n", "none of its series is certain to be the training loss"),
        ("epoch,step,gen_loss,disc_loss\n0,1,2,3\n", "it has disc_loss, epoch, gen_loss, step"),
        ("epoch,step,train_loss\n", "the start of a training log"),
        ("epoch,step,train_loss\n0,1,2.5", "the start of a training log"),  # a line that may be cut
        ("epoch,step,train_loss,val_loss\n0,1,,2.5\n", "none of its series"),
    ],
)
def test_a_table_without_a_training_loss(text: str, said: str) -> None:
    with pytest.raises(NotALog, match=said):
        read(text)


def test_cells_that_are_no_numbers_and_lines_of_another_width() -> None:
    (run,) = read("epoch,step,train_loss\n0,1,2.5\n0,2\n0,3,nan\n0,x,2\n0,-4,2\n0,5,2.5,9\n\n0,6,2.25\n")
    assert list(run.untimed_rows.iteration) == [1, 3, 6]
    assert run.untimed_rows.loss[1] == float("inf")


@pytest.mark.parametrize(("step_ms", "timed"), [(0.9, False), (1.1, True)])
def test_what_was_written_after_the_fact_has_no_times(step_ms: float, timed: bool) -> None:
    rows = "".join(f"{n},{0.5 + n * step_ms / 1000:.6f},{5 - n / 100}\n" for n in range(100))
    (run,) = read("_step,_runtime,loss\n" + rows)
    assert (len(run.rows) > 0) == timed
    assert len(run.logged) == 100
