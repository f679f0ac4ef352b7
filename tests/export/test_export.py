"""Exported runs, read back with the libraries that users have."""

from __future__ import annotations

import csv
import io
import json
import math
from itertools import pairwise
from pathlib import Path

import pytest

from nanopace.api import diagnose, open_run
from nanopace.cli.main import main
from nanopace.export.perfetto import to_perfetto
from nanopace.export.points import points
from nanopace.export.table import to_csv
from nanopace.run import Evaluation, Row, Rows, Run

LOG = Path(__file__).parents[2] / "examples" / "slow-rows.log"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_row_and_evaluation_is_a_point_on_the_clock() -> None:
    run = open_run(LOG)
    found, diagnosis = points(run), diagnose(run)
    rows = [point for point in found if point.kind == "row"]
    assert [(each.iteration, each.ms, each.loss) for each in rows] == [
        (each.iteration, each.ms, each.loss) for each in run.rows
    ]
    assert len(found) - len(rows) == len(run.evaluations)
    assert [each.iteration for each in found] == sorted(each.iteration for each in found)
    clock = [each.seconds for each in rows]
    assert clock == sorted(clock, key=lambda at: at or 0.0)
    assert rows[-1].seconds == pytest.approx(diagnosis.wall.total_s, rel=0.02)
    assert {each.iteration: each.slow_ms for each in rows if each.slow} == pytest.approx(
        {each.iteration: each.excess_ms for each in diagnosis.slow_rows}
    )


def test_a_log_without_times() -> None:
    losses = Rows([Row(10, 0.0, 3.0), Row(20, 0.0, math.inf)])
    run = Run(
        name="state", format="nanogpt", rows=Rows(), untimed_rows=losses, evaluations=(Evaluation(20, None, 2.5),)
    )
    assert [(each.kind, each.iteration, each.seconds, each.ms, each.loss, each.val) for each in points(run)] == [
        ("row", 10, None, None, 3.0, None),
        ("evaluation", 20, None, None, None, 2.5),
        ("row", 20, None, None, math.inf, None),
    ]
    assert json.loads(to_perfetto("state", points(run)))["traceEvents"][-1]["ph"] == "M"
    assert len(list(csv.DictReader(io.StringIO(to_csv(points(run)).decode())))) == 3


def test_csv_and_parquet_hold_the_same(capsys: Capture) -> None:
    import pyarrow.parquet

    assert main(["export", str(LOG), "--to=csv"]) == 0
    assert main(["export", str(LOG), "--to=parquet", "--out=run.parquet"]) == 0
    rows = list(csv.DictReader(io.StringIO(Path("slow-rows.log.csv").read_text())))
    table = pyarrow.parquet.read_table("run.parquet").to_pylist()
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in table] == rows
    assert len(rows) == len(points(open_run(LOG)))
    assert capsys.readouterr().out == f"slow-rows.log.csv: {len(rows)} points\nrun.parquet: {len(rows)} points\n"


def test_a_trace_covers_the_wall_clock_and_nests() -> None:
    run = open_run(LOG)
    events = json.loads(to_perfetto(run.name, points(run)))["traceEvents"]
    slices = [each for each in events if each["ph"] == "X"]
    outer = [each for each in slices if each["name"].startswith("iteration")]
    assert outer[0]["ts"] == 0
    for before, after in pairwise(outer):
        assert after["ts"] == pytest.approx(before["ts"] + before["dur"])
    inner = [each for each in slices if each not in outer]
    assert sum(each["dur"] for each in inner) == pytest.approx(
        1000 * sum(each.excess_ms for each in diagnose(run).slow_rows)
    )
    for each in inner:
        assert any(
            around["ts"] - 1 <= each["ts"] and each["ts"] + each["dur"] <= around["ts"] + around["dur"] + 1
            for around in outer
        )
    assert {each["name"] for each in events if each["ph"] == "C"} == {"training loss", "validation loss"}


def test_a_log_becomes_a_tensorboard_run(capsys: Capture) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert main(["export", str(LOG), "--to=tensorboard", "--out=events"]) == 0
    assert "tensorboard --logdir events" in capsys.readouterr().out
    run, read = open_run(LOG), EventAccumulator("events", size_guidance={"scalars": 0}).Reload()
    losses = {each.step: each.value for each in read.Scalars("train/step_loss")}
    assert losses == pytest.approx({row.iteration: row.loss for row in run.rows}, rel=1e-6)
    validated = [(each.step, each.value) for each in read.Scalars("val/loss")]
    assert validated == [(each.iteration, pytest.approx(each.val, rel=1e-6)) for each in run.evaluations]
    clock = [each.wall_time for each in read.Scalars("time/step_ms")]
    assert clock == pytest.approx([each.seconds for each in points(run) if each.kind == "row"])


def test_nothing_is_overwritten(capsys: Capture) -> None:
    Path("kept.csv").write_text("mine")
    assert main(["export", str(LOG), "--to=csv", "--out=kept.csv"]) == 2
    assert capsys.readouterr().err == "nanopace: --out kept.csv: already exists and will not be overwritten\n"
    assert Path("kept.csv").read_text() == "mine"
    assert main(["export", str(LOG), "--to=csv", "--out=no/such/place.csv"]) == 2
    assert "--out no/such/place.csv:" in capsys.readouterr().err
    assert main(["export", str(LOG), "--to=csv", "--out=-"]) == 0
    assert capsys.readouterr().out.startswith("kind,iteration,seconds,")
