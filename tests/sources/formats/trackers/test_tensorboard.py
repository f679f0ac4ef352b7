"""Event files as TensorBoard's own writers write them: intact, torn and hostile."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.plugins.scalar.metadata import create_summary_metadata
from tensorboard.summary.writer.record_writer import RecordWriter

from nanopace.errors import InputError, NotALog
from nanopace.sources.runs import open_runs

from ...reading import read_one
from ..examples.trackers import EXAMPLES

START = 1.7e9


def scalar(tag: str, value: float, step: int, after_s: float) -> Event:
    return Event(
        wall_time=START + after_s, step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)])
    )


def as_tensorflow_2(tag: str, value: float, step: int, after_s: float) -> Event:
    tensor = TensorProto(dtype=1, float_val=[value])
    metadata = create_summary_metadata(display_name="", description="")
    written = Summary.Value(tag=tag, tensor=tensor, metadata=metadata)
    return Event(wall_time=START + after_s, step=step, summary=Summary(value=[written]))


def file_of(*events: Event) -> bytes:
    data = io.BytesIO()
    writer = RecordWriter(data)
    for event in (Event(wall_time=START, file_version="brain.Event:2"), *events):
        writer.write(event.SerializeToString())
    return data.getvalue()


def test_the_example() -> None:
    run = read_one(EXAMPLES["tensorboard"])
    assert list(run.rows.iteration) == list(range(10, 130, 10))
    assert list(run.rows.ms) == pytest.approx([130.0] * 12)
    assert [(each.iteration, each.ms) for each in run.evaluations] == [(40, 2500), (80, 2500), (120, 2500)]
    assert {each.code: dict(each.numbers) for each in run.caveats} == {
        "tracked_series": {"train": "train/loss", "validation": "eval/loss"}
    }


@pytest.mark.parametrize("write", [scalar, as_tensorflow_2])
def test_both_kinds_of_scalars(write: Any) -> None:
    """An evaluation without a time gets it from its points' times, if it follows a row of its step."""
    events = [
        write("Loss/train", 2.5, 100, 30.5),
        write("Loss/val", 2.75, 100, 36.5),
        write("Loss/train", 2.0, 200, 66.5),
    ]
    run = read_one(file_of(*events))
    assert list(run.rows.ms) == pytest.approx([305.0, 300.0])
    assert list(run.rows.loss) == [2.5, 2.0]
    assert [(each.iteration, each.val, each.ms) for each in run.evaluations] == [(100, 2.75, pytest.approx(6000))]


def test_an_evaluation_between_two_rows_is_in_the_second() -> None:
    events = [scalar("train_loss", 2.0, step, step / 10) for step in (49, 99)]
    events += [scalar("val_loss", 2.25, 120, 20.0), scalar("train_loss", 2.0, 149, 23.0)]
    run = read_one(file_of(*events))
    assert run.row_contains_evaluation
    assert [(each.row, each.ms) for each in run.evaluations] == [(2, None)]


def test_a_run_that_goes_back() -> None:
    """The first row of the resumed process has no known start."""
    steps = (10, 20, 30, 20, 30, 40)
    run = read_one(file_of(*(scalar("loss", 2.0, step, 10.0 * number) for number, step in enumerate(steps, start=1))))
    assert list(run.rows.iteration) == [10, 20, 30, 40]
    assert len(run.restarts) == 1


def test_a_file_that_was_written_later_than_its_points() -> None:
    """As after an export: nothing shows when training began, and evaluations may all be at the end."""
    rows = [scalar("loss", 2.0, step, 0.5 * step + 0.25 - 1e6) for step in (10, 20, 30, 40)]
    run = read_one(file_of(*rows, scalar("val/loss", 2.25, 20, 13.25 - 1e6)))
    assert list(run.rows.iteration) == [20, 30, 40]
    assert [(each.iteration, each.ms) for each in run.evaluations] == [(20, pytest.approx(3000))]
    assert list(run.rows.ms) == pytest.approx([500, 200, 500])


def test_what_torch_writes(tmp_path: Path) -> None:
    code = (
        "import sys; from torch.utils.tensorboard import SummaryWriter\n"
        "writer = SummaryWriter(sys.argv[1])\n"
        "for step in range(10, 60, 10):\n"
        "    writer.add_scalar('train/loss', 1 / step, step); writer.add_scalar('train/lr', 1e-3, step)\n"
        "    writer.add_text('sample', 'once upon a time', step)\n"
        "writer.close()"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
    (run,) = open_runs(tmp_path)
    assert list(run.logged.iteration) == [10, 20, 30, 40, 50]  # without a time, where it was less than 1 ms
    assert run.logged.loss[4] == pytest.approx(1 / 50)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (file_of(), "without any scalars"),
        (file_of(scalar("accuracy", 1.0, 1, 1.0)), "certain to be the training loss per step; it has accuracy"),
        (file_of(scalar("loss", 2.0, -1, 1.0)), "per step; it has loss"),
        (file_of()[:-3], "without any scalars"),
        (b"\x18" + bytes(20) + b"brain.Event:2" + bytes(99), "without any scalars"),
    ],
)
def test_files_without_a_training(data: bytes, said: str) -> None:
    with pytest.raises(NotALog, match=said):
        read_one(data)


def test_a_torn_file_is_read_up_to_there() -> None:
    whole = EXAMPLES["tensorboard"]
    assert isinstance(whole, bytes)
    steps = []
    for end in range(400, len(whole), 50):
        for data in (whole[:end], whole[:end] + b"\xff" + whole[end + 1 :]):
            run = read_one(data)
            assert list(run.rows.iteration) == list(range(10, 10 * len(run.rows) + 1, 10))
            steps.append(len(run.rows))
    assert steps[0] < 4
    assert steps[-1] >= 11


def test_an_event_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    data = io.BytesIO(file_of())
    data.seek(0, io.SEEK_END)
    RecordWriter(data).write(b"\xff\xff\xff\xff")
    with pytest.raises(InputError, match="TensorBoard's reader cannot read it") as caught:
        read_one(data.getvalue())
    assert "\n" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing.event_file_loader", None)
    with pytest.raises(InputError, match=r"pip install 'nanopace\[tensorboard\]'"):
        read_one(EXAMPLES["tensorboard"])
