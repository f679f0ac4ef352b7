from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nanopace.errors import InputError
from nanopace.train.formats import atomic_files as whole
from nanopace.train.formats.atomic_files import exported_directory, exported_file


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with exported_file(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


def test_a_file_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail(error: BaseException) -> None:
        with exported_file(path) as file:
            file.write(b"half")
            raise error

    with pytest.raises(KeyboardInterrupt):
        fail(KeyboardInterrupt())
    with pytest.raises(InputError, match="a: cannot be written: No space left"):
        fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_directory_is_there_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a"
    with exported_directory(path) as folder:
        (folder / "one").write_text("1")
        assert not path.exists()
    assert names(path) == ["one"]
    with exported_directory(path) as folder:
        (folder / "two").write_text("2")
        assert names(path) == ["one"]
    assert names(path) == ["two"]
    assert names(path.parent) == ["a"]


def test_a_directory_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.mkdir()
    (path / "old").touch()

    def fail() -> None:
        with exported_directory(path) as folder:
            (folder / "half").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(tmp_path) == ["a"]
    assert names(path) == ["old"]


def test_a_directory_that_cannot_get_its_name_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.mkdir()
    (path / "old").touch()
    rename = os.rename

    def refused(source: Path, target: Path) -> None:
        if target == path and "part" in source.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(source, target)

    monkeypatch.setattr(whole.os, "rename", refused)
    with (
        pytest.raises(InputError, match="a: cannot be written: Input/output error"),
        exported_directory(path) as folder,
    ):
        (folder / "new").touch()
    assert names(tmp_path) == ["a"]
    assert names(path) == ["old"]


def test_a_place_that_may_not_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written: Not a directory"), exported_file(tmp_path / "file" / "a"):
        raise AssertionError
    with pytest.raises(InputError, match="cannot be written: "), exported_directory(tmp_path / "file" / "a"):
        raise AssertionError
