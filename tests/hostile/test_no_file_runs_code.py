"""Files that would run a command if executed: every command that reads them, without the command's mark appearing."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import pytest

from nanopace.cli.main import main

from ..train.conftest import write_corpus
from .bombs import MARK, Bomb, pickle_in_zip, torch_bomb

TRAIN = ["train", "--device=cpu", "--compile=False", "--max_iters=1"]

PROGRAMS = [
    f"x = __import__('os').system('touch {MARK}')",
    f"import os; os.system('touch {MARK}')",
    f"exec(\"open('{MARK}', 'w')\")",
    f'x = f\'{{open("{MARK}", "w")}}\'',
    f"x = (y := open('{MARK}', 'w'))",
    f"x = [open(name, 'w') for name in ['{MARK}']]",
    f"x = {{open('{MARK}', 'w')}}",
    "x = ().__class__.__base__.__subclasses__()",
    f"x = lambda: open('{MARK}', 'w')\nx()",
    f"def x(): open('{MARK}', 'w')\nx()",
    f"class X: open('{MARK}', 'w')",
    f"with open('{MARK}', 'w') as x: pass",
    f"assert open('{MARK}', 'w')",
    f"@exec(\"open('{MARK}', 'w')\")\ndef x(): pass",
    f"x: open('{MARK}', 'w') = 1",
    f"batch_size = 8 if open('{MARK}', 'w') else 9",
    f"match open('{MARK}', 'w'):\n    case x: pass",
    "x = 9**9**9",
    "x = 10**10**10",
    "x = 2**63 * 2**63 * 2.0**1000 * 2.0**1000",
    "x = 'a' * 10**12",
    "x = (1,) * 10**12",
    "x = 1 << 10**12",
    "x = " + "(" * 3000 + "1" + ")" * 3000,
    "x = " + "[" * 90 + "1" + "]" * 90,
    "x = " + "-" * 20000 + "1",
    "x = " + "1 + " * 20000 + "1",
    "x = " + "9" * 100_000,
]


@pytest.fixture(autouse=True)
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def refused(room: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    before = sorted(room.rglob("*"))
    capsys.readouterr()
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err[:-1].isprintable()
    assert sorted(room.rglob("*")) == before
    return err


def test_the_bombs_are_live(room: Path) -> None:
    """What is refused below would work if it were loaded as a pickle."""
    pickle.loads(pickle.dumps(Bomb()))  # noqa: S301, it is ours
    assert (room / MARK).exists()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda text: text[:40])
def test_a_config_is_never_run(program: str, room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line that sets no knob may be skipped, but it is never executed."""
    Path("config.py").write_text(f"batch_size = 8\n{program}\n")
    Path("train.log").write_text("".join(f"iter {n}: loss 4.0000, time 100.00ms, mfu 10.00%\n" for n in range(9)))
    before = sorted(room.rglob("*"))
    for arguments in (
        ["train", "config.py", "--dataset=nowhere", "--device=cpu"],
        ["explain", "train.log", "--config=config.py"],
        ["compare", "train.log", "train.log", "--config=B=config.py"],
    ):
        assert main(arguments) in (0, 2)
        assert sorted(room.rglob("*")) == before
        assert capsys.readouterr().err.rstrip("\n").isprintable()


@pytest.mark.parametrize(
    "program",
    [each for each in PROGRAMS if "x =" in each or " x:" in each or "as x" in each or "x()" in each],
    ids=lambda text: text[:40],
)
def test_nor_for_a_knob(program: str, room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Anything that assigns it to a knob, in whatever way, is refused."""
    Path("config.py").write_text("batch_size = 8\n" + re.sub(r"\bx\b", "n_layer", program) + "\n")
    Path("train.log").write_text("iter 0: loss 4.0000, time 100.00ms, mfu 10.00%\n")
    assert "config.py" in refused(room, capsys, "train", "config.py")
    assert "config.py" in refused(room, capsys, "explain", "train.log", "--config=config.py")
    assert "config.py" in refused(room, capsys, "compare", "train.log", "train.log", "--config=B=config.py")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda text: text[:40])
def test_nor_is_one_that_a_log_shows(program: str, room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """nanoGPT prints its config. A log is explained, whatever that contains."""
    rows = "".join(f"iter {n}: loss 4.0000, time 100.00ms, mfu 10.00%\n" for n in range(9))
    value = program.partition(" = ")[2].partition("\n")[0] or "exec('')"
    override = f"Overriding: batch_size = {value}"
    Path("train.log").write_text(f"Overriding config with c.py:\nbatch_size = 8\n{program}\n{override}\n{rows}")
    assert main(["explain", "train.log"]) == 0
    assert capsys.readouterr().err == ""
    assert [path.name for path in room.iterdir()] == ["train.log"]


@pytest.mark.parametrize("value", [f"__import__('os').system('touch {MARK}')", f"[open('{MARK}', 'w')]", "9**9**9"])
def test_nor_is_a_value_on_the_command_line(value: str, room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(room, capsys, "train", f"--batch_size={value}")
    refused(room, capsys, "explain", "train.log", f"--set=batch_size={value}")


@pytest.mark.parametrize("kind", ["archive", "before 1.6", "pickle", "pickle in a zip", "protocol 0"])
def test_a_bomb_as_ckpt_pt(kind: str, room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_corpus(room / "corpus")
    path = room / "ckpt.pt"
    if kind == "pickle in a zip":
        pickle_in_zip(path)
    elif kind in ("pickle", "protocol 0"):
        path.write_bytes(pickle.dumps(Bomb(), 0 if kind == "protocol 0" else 4))
    else:
        torch_bomb(path, archive=kind == "archive")
    assert "ckpt.pt: " in refused(room, capsys, "sample", "ckpt.pt")
    assert "ckpt.pt: " in refused(room, capsys, "sample", ".")
    assert "ckpt.pt: " in refused(room, capsys, "convert", "ckpt.pt", "written")
    assert "ckpt.pt: " in refused(room, capsys, *TRAIN, "--dataset=corpus", "--init_from=ckpt.pt")
    (room / "run" / "checkpoints" / "step-00000001").mkdir(parents=True)
    for name in ("state.json", "model.safetensors", "optimizer.safetensors", ".metadata"):
        (room / "run" / "checkpoints" / "step-00000001" / name).write_bytes(path.read_bytes())
    refused(room, capsys, "sample", "run")
    refused(room, capsys, "explain", "ckpt.pt")


@pytest.mark.parametrize("protocol", range(6))
def test_a_bomb_as_meta_pkl(protocol: int, room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = room / "data" / "shakespeare"
    data.mkdir(parents=True)
    for split in ("train", "val"):
        (data / f"{split}.bin").write_bytes(bytes(4000))
    (data / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 65, "stoi": Bomb()}, protocol))
    assert "nothing is executed" in refused(room, capsys, *TRAIN, "--dataset=shakespeare")


def test_a_bomb_as_hugging_face_s_weights(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = room / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type": "gpt2"}')
    torch_bomb(model / "pytorch_model.bin")
    assert "it calls posix.system" in refused(room, capsys, "convert", "model", "written.pt")
    (model / "pytorch_model.bin").rename(model / "part.bin")
    (model / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": {"a": "part.bin"}}))
    assert "it calls posix.system" in refused(room, capsys, "sample", "model")
    (model / "config.json").write_text(json.dumps({"model_type": "gpt2", "auto_map": {"AutoModel": "evil.GPT"}}))
    (model / "evil.py").write_text(f"open({MARK!r}, 'w')")
    refused(room, capsys, "sample", "model")
