from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import torch

from nanopace.corpus.tokenizers.tokenizer import bytes_tokenizer
from nanopace.errors import InputError
from nanopace.train.checkpoint.choose import choose
from nanopace.train.checkpoint.layout import checkpoint_directories, newest_intact, verified
from nanopace.train.checkpoint.write import remove_checkpoint, sweep, write_weights
from nanopace.train.models.gpt2 import GPT

from .checkpoints import SHAPE, rewrite, save


def test_what_is_written_is_read(tmp_path: Path) -> None:
    directory, model = save(tmp_path, 12)
    saved = choose(tmp_path).saved
    assert (saved.path, saved.step, saved.shape) == (directory, 12, SHAPE)
    assert saved.config == {"learning_rate": 0.1, "out_dir": "ö", "compile": False}
    assert saved.tokenizer_hash == bytes_tokenizer().hash
    assert saved.optimizer() is None
    weights = saved.weights()
    assert weights.keys() == model.state_dict().keys()
    assert all(torch.equal(weights[name], each) for name, each in model.state_dict().items())
    assert verified(directory).step == 12
    assert sorted(path.name for path in directory.iterdir()) == ["model.safetensors", "state.json", "tokenizer.json"]


def test_the_newest_is_taken_and_the_same_step_replaced(tmp_path: Path) -> None:
    for step in (9, 100_000_000, 20):
        save(tmp_path, step)
    save(tmp_path, 20)
    assert [path.name for path in checkpoint_directories(tmp_path)] == [
        "step-100000000",
        "step-00000020",
        "step-00000009",
    ]
    assert choose(tmp_path).saved.step == 100_000_000


@pytest.mark.parametrize("name", ["optimizer.safetensors", "more.safetensors"])
def test_a_file_of_tensors_that_is_not_listed_is_refused(tmp_path: Path, name: str) -> None:
    """It is not verified, and a reader of the directory might load it."""
    directory, _ = save(tmp_path, 2)
    shutil.copy(directory / "model.safetensors", directory / name)
    with pytest.raises(InputError, match=f"{name}: is not one of this checkpoint's files"):
        verified(directory)
    (directory / name).rename(directory / "notes.txt")
    assert verified(directory).step == 2


@pytest.mark.parametrize("name", ["model.safetensors", "state.json", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "grow", "remove", "link"])
def test_damage_is_found_before_anything_is_loaded(tmp_path: Path, name: str, damage: str) -> None:
    directory, _ = save(tmp_path, 2)
    save(tmp_path, 1)
    path = directory / name
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    elif damage == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "grow":
        path.write_bytes(data + b"}")
    elif damage == "remove":
        path.unlink()
    else:
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="step-00000002"):
        verified(directory)
    saved, refused = newest_intact(tmp_path)
    assert saved.step == 1
    assert len(refused) == 1


def test_nothing_whole_is_left(tmp_path: Path) -> None:
    directory, _ = save(tmp_path, 2)
    (directory / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"model\.safetensors: cannot be read"):
        choose(tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(InputError, match="no checkpoint here"):
        choose(tmp_path)


@pytest.mark.parametrize("state", ["", "[]", "7", "{}", '{"nanopace": 1, "files": 3, "checksum": ""}', "[" * 100_000])
def test_a_state_that_is_none(tmp_path: Path, state: str) -> None:
    directory, _ = save(tmp_path, 2)
    (directory / "state.json").write_text(state)
    with pytest.raises(InputError, match=r"state\.json"):
        verified(directory)


def test_a_state_that_would_fill_the_memory_is_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve megabytes of it take thirty times as much as Python objects."""
    directory, _ = save(tmp_path, 2)
    (directory / "state.json").write_bytes(b"[" + b"{}," * (4 << 20) + b"0]")
    monkeypatch.setattr(json, "loads", lambda _: pytest.fail("it is parsed"))
    with pytest.raises(InputError, match=r"state\.json"):
        verified(directory)


def test_a_newer_version_says_so(tmp_path: Path) -> None:
    directory, _ = save(tmp_path, 2)
    state = json.loads((directory / "state.json").read_text())
    (directory / "state.json").write_text(json.dumps({**state, "nanopace": 2, "written_by": "9.9"}))
    with pytest.raises(InputError, match=r"newer nanopace \(9\.9\)"):
        verified(directory)


def test_files_outside_of_the_directory_are_refused(tmp_path: Path) -> None:
    directory, _ = save(tmp_path, 2)
    rewrite(directory, files={"../../secret": {"bytes": 1, "sha256": ""}})
    with pytest.raises(InputError, match="must be in its own directory"):
        verified(directory)


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    directory, _ = save(tmp_path, 2)
    shutil.copytree(directory, directory.with_name(".step-00000003.writing"))
    shutil.copytree(directory, directory.with_name(".step-00000001.removing"))
    assert [path.name for path in checkpoint_directories(tmp_path)] == ["step-00000002"]
    sweep(tmp_path)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000002"]
    remove_checkpoint(directory)
    assert list((tmp_path / "checkpoints").iterdir()) == []
    sweep(tmp_path / "nowhere")


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    class Unwritable:
        hash = kind = "x"

        def save(self, _: Path) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_weights(
            tmp_path / "checkpoints" / "step-00000001",
            SHAPE,
            GPT(SHAPE).state_dict(),
            step=1,
            config={},
            tokenizer=Unwritable(),  # type: ignore[arg-type]
        )
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    directory, _ = save(tmp_path, 2)
    for name in ("model.safetensors", "state.json"):
        (directory / name).unlink()
        os.mkfifo(directory / name)
        with pytest.raises(InputError, match="must be in its own directory"):
            verified(directory)


def test_a_kill_while_a_checkpoint_is_replaced(tmp_path: Path) -> None:
    """In a real process, killed between the two renames: the old one gets its name back in the sweep."""
    directory, model = save(tmp_path, 2)
    process = os.fork()
    if not process:

        def watch(event: str, arguments: tuple[object, ...]) -> None:
            if event == "os.rename" and str(arguments[0]).endswith(".writing"):
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)
        try:
            save(tmp_path, 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    assert newest_intact(tmp_path) == (None, [])
    sweep(tmp_path)
    weights = verified(directory).weights()
    assert all(torch.equal(weights[name], each) for name, each in model.state_dict().items())
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000002"]


def test_a_replacement_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, _ = save(tmp_path, 2)
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        if source.name.endswith(".writing"):
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(OSError, match="No space"):
        save(tmp_path, 2)
    assert verified(directory).step == 2
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000002"]


def test_only_so_many_damaged_ones_are_told_of(tmp_path: Path) -> None:
    """All of them are counted, and an intact one behind them is found."""
    for step in range(1, 24):
        (tmp_path / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
    saved, refused = newest_intact(tmp_path)
    assert saved is None
    assert len(refused) == 21
    assert "step-00000023" in str(refused[0])
    assert "step-00000004" in str(refused[19])
    assert str(refused[20]) == f"{tmp_path / 'checkpoints'}: 3 more checkpoints cannot be used"
    for step in (1, 2, 3):
        shutil.rmtree(tmp_path / "checkpoints" / f"step-{step:08d}")
    assert len(newest_intact(tmp_path)[1]) == 20
    for step in (1, 2):
        save(tmp_path, step)
    saved, refused = newest_intact(tmp_path)
    assert (saved.step, len(refused)) == (2, 20)


def test_every_byte_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, _ = save(tmp_path, 2)
    monkeypatch.setattr("nanopace.train.checkpoint.layout.PIECE", 1000)
    told: list[int] = []
    verified(directory, told.append)
    assert sum(told) == sum(each.stat().st_size for each in directory.iterdir() if each.name != "state.json")
    assert max(told) == 1000


def test_a_checksum_that_is_wrong_is_told_of_as_damage(tmp_path: Path) -> None:
    directory, _ = save(tmp_path, 2)
    path = directory / "state.json"
    path.write_text(path.read_text().replace('"step": 2', '"step": 3'))
    with pytest.raises(InputError, match=r"state\.json: is damaged: its checksum does not match"):
        verified(directory)
    rewrite(directory, step=2)
    assert verified(directory).step == 2


def test_a_name_says_its_step_only_among_checkpoints(tmp_path: Path) -> None:
    directory, _ = save(tmp_path, 2)
    for name, fine in (("step-00000003", False), ("mine", True)):
        copy = directory.with_name(name)
        directory.rename(copy)
        if fine:
            assert verified(copy).step == 2
        else:
            with pytest.raises(InputError, match="is of step 2, which is not the one in its directory's name"):
                verified(copy)
        copy.rename(directory)
    elsewhere = tmp_path / "elsewhere" / "step-00000003"
    shutil.copytree(directory, elsewhere)
    assert verified(elsewhere).step == 2
    (tmp_path / "file").touch()
    assert checkpoint_directories(tmp_path / "file") == []
