"""W&B's run files as W&B itself writes them offline: intact, torn and hostile."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.errors import InputError, NotALog
from nanopace.sources.formats.trackers.wandb_run import records
from nanopace.sources.runs import open_runs

from ...reading import read_one
from ..examples.trackers import EXAMPLES

HEAD = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)


def framed(payloads: Iterable[bytes]) -> bytes:
    """LevelDB's log: a record is cut at every 32 KB."""
    out = bytearray(HEAD)
    for payload in payloads:
        first = True
        while first or payload:
            left = 32768 - len(out) % 32768
            if left < 7:
                out += bytes(left)
                left = 32768
            part, payload = payload[: left - 7], payload[left - 7 :]
            kind = (2 if payload else 1) if first else (3 if payload else 4)
            out += struct.pack("<IHB", zlib.crc32(part, zlib.crc32(bytes([kind]))), len(part), kind) + part
            first = False
    return bytes(out)


def history(*logged: dict[str, Any], config: dict[str, Any] | None = None) -> bytes:
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]

    run = Record()
    for name, value in (config or {}).items():
        run.run.config.update.add(key=name, value_json=json.dumps(value))
    payloads = [run.SerializeToString()]
    for step, values in enumerate(logged):
        record = Record()
        for name, value in {"_step": step, **values}.items():
            record.history.item.add(nested_key=[name], value_json=json.dumps(value))
        payloads.append(record.SerializeToString())
    return framed(payloads)


@given(st.lists(st.binary(max_size=70_000), max_size=6), st.integers(1, 100_000))
def test_records_of_any_length_in_chunks_of_any_length(payloads: list[bytes], chunk: int) -> None:
    data = framed(payloads)
    assert list(records(data[at : at + chunk] for at in range(0, len(data), chunk))) == payloads


@given(st.data())
def test_records_up_to_the_first_that_is_torn_or_changed(data: st.DataObject) -> None:
    payloads = [bytes([number]) * 9000 for number in range(12)]
    whole = framed(payloads)
    at = data.draw(st.integers(7, len(whole) - 1))
    changed = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    for torn in (whole[:at], changed):
        found = list(records([torn]))
        assert found == payloads[: len(found)]
        assert len(found) >= (at - 200) // 9007 - 1


@pytest.mark.parametrize("late", [False, True])
def test_a_runtime_that_is_that_of_the_next_record(late: bool) -> None:
    """As W&B 0.25 writes it. The machine slept once, which only the stamps count."""
    took = [2.0 + 0.01 * (step % 7) + 3.0 * (step == 20) for step in range(41)]
    ran = [sum(took[: step + 1]) for step in range(41)]
    stamps = [1.7e9 + at + 600 * (step >= 30) for step, at in enumerate(ran)]
    runtimes = [*ran[1:], ran[-1] + 0.5] if late else ran
    run = read_one(
        history(
            *(
                {"loss": 3.0, "iter": step, "_runtime": at, "_timestamp": stamp}
                for step, (at, stamp) in enumerate(zip(runtimes, stamps, strict=True))
            )
        )
    )
    assert dict(zip(run.rows.iteration, run.rows.ms, strict=True))[20] == pytest.approx(1000 * took[20])
    assert sum(run.rows.ms[1:]) == pytest.approx(1000 * sum(took[1:]))


def test_the_example() -> None:
    """Its config is nanoGPT's, which defines a step's tokens."""
    run = read_one(EXAMPLES["wandb"])
    assert list(run.rows.iteration) == list(range(0, 130, 10))
    assert list(run.rows.ms[1:]) == pytest.approx([130.0] * 12)
    assert run.value("tokens_per_iteration") == 12 * 64 * 4
    assert run.value("max_iters") == 200


def test_evaluations_that_are_logged_with_their_row_or_after_it() -> None:
    """nanoGPT logs both losses together after evaluating: each of its rows contains an evaluation."""
    nanogpt = [{"iter": 100 * n, "train/loss": 3.0, "val/loss": 3.1, "_runtime": 9.0 * n + 1} for n in range(6)]
    run = read_one(history(*nanogpt))
    assert run.row_contains_evaluation
    assert [each.row for each in run.evaluations[1:]] == [1, 2, 3, 4, 5]
    assert run.value("tokens_per_iteration") is None
    later: list[dict[str, Any]] = []
    for n in range(1, 5):
        later.append({"global_step": 10 * n, "loss": 3.0, "_runtime": 12.0 * n - 1.5})
        later.append({"val_loss": 3.1, "_runtime": 12.0 * n + 0.5})
    run = read_one(history(*later, config={"max_steps": 40, "batch_size": 8}))
    assert [(each.iteration, each.ms) for each in run.evaluations] == [(10 * n, 2000) for n in range(1, 5)]
    assert list(run.rows.ms) == pytest.approx([1050.0, 1000.0, 1000.0, 1000.0])
    assert (run.value("max_iters"), run.value("batch_size")) == (40, None)


def test_a_run_that_wandb_wrote(tmp_path: Path) -> None:
    code = (
        "import wandb\n"
        "run = wandb.init(project='p', config={'max_iters': 30}, settings=wandb.Settings(x_disable_stats=True))\n"
        "for step in range(0, 30, 5):\n"
        "    run.log({'iter': step, 'train/loss': 3 - step / 100, 'sample': 'x' * 40_000})\n"
        "run.finish()"
    )
    quiet = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "WANDB_SILENT": "true", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env={**os.environ, **quiet})
    (path,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    (run,) = open_runs(path)
    assert list(run.logged.iteration) == [0, 5, 10, 15, 20, 25]  # without a time, where it was less than 1 ms
    assert list(run.logged.loss) == pytest.approx([3 - step / 100 for step in range(0, 30, 5)])
    assert run.value("max_iters") == 30


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (HEAD, "a W&B run that logged nothing"),
        (HEAD[:5], "logged nothing"),
        (framed([b"\xff\xff\xff"]), "logged nothing"),
        (history({"accuracy": 1}), "it has accuracy"),
        (history({"loss": "x", "text": {"a": [1]}}), "it has loss, text"),
    ],
)
def test_files_without_a_training(data: bytes, said: str) -> None:
    with pytest.raises(NotALog, match=said):
        read_one(data)


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb.proto.wandb_internal_pb2", None)
    with pytest.raises(InputError, match=r"pip install 'nanopace\[wandb\]'"):
        read_one(EXAMPLES["wandb"])
