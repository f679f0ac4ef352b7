"""A real run, sent to every tracker with its own library, and read back with that library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nanopace import open_run
from nanopace.errors import UsageError
from nanopace.trackers.libraries import TRACKERS, make_tracker

TINY = ["--dataset=python", "--device=cpu", "--max_iters=20", "--eval_interval=10", "--eval_iters=1", "--n_layer=1"]
TINY += ["--n_embd=16", "--n_head=2", "--block_size=16", "--batch_size=2", "--gradient_accumulation_steps=1"]
TINY += ["--log_interval=5", "--wandb_project=tests", "--wandb_run_name=tiny", "--no-report", "--dropout=0"]

# Programs that print {tag: {step: value}} as read by the library itself.
READ_TENSORBOARD = """
import json
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator("out/tensorboard").Reload()
print(json.dumps({tag: {e.step: e.value for e in events.Scalars(tag)} for tag in events.Tags()["scalars"]}))
"""
READ_TRACKIO = """
import json
from trackio.sqlite_storage import SQLiteStorage
found = {}
for row in SQLiteStorage.get_logs("tests", "tiny"):
    for tag, value in row.items():
        if tag not in ("step", "timestamp"):
            found.setdefault(tag, {})[row["step"]] = value
print(json.dumps(found))
"""
READ_MLFLOW = """
import json
from mlflow import MlflowClient
client = MlflowClient()
experiment = client.get_experiment_by_name("tests").experiment_id
run = client.search_runs([experiment])[0]
histories = {tag: client.get_metric_history(run.info.run_id, tag) for tag in run.data.metrics}
print(json.dumps({tag: {each.step: each.value for each in history} for tag, history in histories.items()}))
"""
READERS = {"tensorboard": READ_TENSORBOARD, "trackio": READ_TRACKIO, "mlflow": READ_MLFLOW}


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was sent to all trackers."""
    room = tmp_path_factory.mktemp("tracked")
    flags = [*TINY, f"--log_to={','.join(TRACKERS)}"]
    done = subprocess.run(
        [sys.executable, "-m", "nanopace", "train", *flags],
        cwd=room,
        env=environment(room),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "continues without it" not in done.stdout
    assert list(room.glob("wandb/offline-run-*/*.wandb"))
    return room


def environment(room: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}
    mlflow = {"MLFLOW_TRACKING_URI": f"file:{room}/mlruns", "MLFLOW_ALLOW_FILE_STORE": "true"}
    return {**kept, **mlflow, "TRACKIO_DIR": str(room / "trackio"), "HOME": str(room), "DO_NOT_TRACK": "1"}


def test_a_name_that_is_none() -> None:
    with pytest.raises(UsageError, match="--log_to tensorbord: unknown tracker; did you mean tensorboard"):
        make_tracker("tensorbord", "--log_to tensorbord")
    with pytest.raises(UsageError, match="unknown tracker; choose from wandb, tensorboard, trackio, mlflow"):
        make_tracker("excel", "--log_to excel")


@pytest.mark.parametrize("name", READERS)
def test_its_own_library_reads_the_figures_of_the_ledger(name: str, room: Path) -> None:
    read = subprocess.run(
        [sys.executable, "-c", READERS[name]],
        cwd=room,
        env=environment(room),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(read.stdout.splitlines()[-1])
    events = [json.loads(line) for line in (room / "out" / "ledger.jsonl").read_text().splitlines()]
    steps = {str(each["iteration"]): each for each in events if each["event"] == "step" and each["iteration"] % 5 == 0}
    validated = {str(each["iteration"]): each["val"] for each in events if each["event"] == "eval"}
    assert found["val/loss"] == pytest.approx(validated, rel=1e-6)
    assert set(validated) == {"0", "10", "20"}
    assert found["train/step_loss"] == pytest.approx({at: each["loss"] for at, each in steps.items()}, rel=1e-6)
    assert found["time/step_ms"] == pytest.approx({at: each["ms"] for at, each in steps.items()}, rel=1e-6)


def test_its_wandb_file_is_read_back(room: Path) -> None:
    """Through wandb's own protobuf classes: it no longer has a reader in Python."""
    (file,) = room.glob("wandb/offline-run-*/*.wandb")
    run, ledger = open_run(file), open_run(room / "out" / "ledger.jsonl")
    assert [(each.iteration, each.val) for each in run.evaluations] == [
        (each.iteration, pytest.approx(each.val)) for each in ledger.evaluations
    ]
    sent = {row.iteration: row.loss for row in ledger.rows if row.iteration % 5 == 0}
    assert dict(zip(run.logged.iteration, run.logged.loss, strict=True)) == pytest.approx(sent)
