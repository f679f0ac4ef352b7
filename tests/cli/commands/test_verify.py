"""What `nanopace verify` reports about intact, damaged and missing checkpoints, and its exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from nanopace.cli.commands import verify
from nanopace.cli.display.log_lines import size
from nanopace.cli.main import main
from nanopace.train.checkpoint.best import write_best
from nanopace.train.checkpoint.write import write_weights
from nanopace.train.models.gpt2 import GPT, ModelShape

SHAPE = ModelShape(n_layer=1, n_head=2, n_embd=8, vocab_size=257, block_size=8, bias=True)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    weights = GPT(SHAPE).state_dict()
    for step in (5, 1000):
        directory = tmp_path / "checkpoints" / f"step-{step:08d}"
        write_weights(directory, SHAPE, weights, step=step, config={}, tokenizer=None)
    write_best(tmp_path, 5, 3.25)
    return tmp_path


def said(path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, list[str]]:
    code = main(["verify", str(path), *flags])
    return code, capsys.readouterr().out.splitlines()


def test_all_is_whole(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def bytes_of(step: int) -> str:
        return size(sum(path.stat().st_size for path in (out / "checkpoints" / f"step-{step:08d}").iterdir()))

    (out / "ledger.jsonl").write_text('{"event":"step","iteration":0,"ms":1.0}\n{"event":"ste\n')
    assert said(out, capsys) == (
        0,
        [
            f"step 5  {bytes_of(5)}  intact; the best: val loss 3.2500",
            f"step 1,000  {bytes_of(1000)}  intact",
            f"{out}/ledger.jsonl: 1 events, 1 damaged line",
        ],
    )


def test_one_checkpoint_alone(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = said(out / "checkpoints" / "step-00000005", capsys)
    assert (code, len(lines)) == (0, 1)
    shutil.move(out / "checkpoints" / "step-00000005", out / "mine")
    code, lines = said(out / "mine", capsys)
    assert (code, lines[0].split()[:2]) == (0, ["step", "5"])


def test_damage_is_named(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = out / "checkpoints" / "step-00001000" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    code, lines = said(out, capsys)
    assert code == 2
    assert lines[0].endswith("intact; the best: val loss 3.2500")
    assert lines[1].endswith(f"{path}: is damaged: its checksum does not match")
    (path.parent / "state.json").unlink()
    code, lines = said(out, capsys)
    assert (code, len(lines)) == (2, 2)
    assert "step 1,000" in lines[1]
    assert "state.json: cannot be read" in lines[1]


def test_nothing_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"nanopace: {tmp_path}: no checkpoint here\n"
    assert main(["verify", str(tmp_path / "nowhere")]) == 2


def test_nothing_is_written(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    said(out, capsys)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_what_a_running_training_removes_is_passed_over(
    out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from nanopace.train.checkpoint import verify as room

    real = room.verified

    def removing(directory: Path, told: room.Told) -> object:
        if directory.name == "step-00000005":
            shutil.rmtree(directory)
        return real(directory, told)

    monkeypatch.setattr(room, "verified", removing)
    code, lines = said(out, capsys)
    assert (code, len(lines)) == (0, 1)
    assert lines[0].startswith("step 1,000")


def test_large_ones_have_a_bar(out: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_WORTH_A_BAR", 0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["verify", str(out)]) == 0
    shown = capsys.readouterr()
    assert "kB" in shown.err
    assert len(shown.out.splitlines()) == 2


def test_a_state_of_another_size(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from nanopace.train.checkpoint import layout as checkpoint_files

    path = out / "checkpoints" / "step-00001000" / "state.json"
    state = json.loads(path.read_text())
    del state["checksum"]
    state["shape"]["n_embd"] = 16
    path.write_text(json.dumps({**state, "checksum": checkpoint_files.checksum_of(state)}))
    code, lines = said(out, capsys)
    assert code == 2
    assert "says n_embd = 16, but its weights have 8" in lines[1]
