from __future__ import annotations

import os
import pickle
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanopace.errors import InputError
from nanopace.train.formats.torch_file import read_torch_file


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "ckpt.pt"
    torch.save({"a": torch.arange(6.0), "n": 3, "s": "text"}, path)
    return path


class Bomb:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self._mark}",)


@pytest.mark.parametrize("archive", [True, False])
def test_values_and_tensors_are_read(archive: bool, tmp_path: Path) -> None:
    """Also as torch wrote them before 1.6."""
    content = {"a": torch.arange(6.0), "n": 3, "s": "text"}
    torch.save(content, tmp_path / "x.pt", _use_new_zipfile_serialization=archive)
    read = read_torch_file(tmp_path / "x.pt")
    assert isinstance(read, dict)
    assert torch.equal(read.pop("a"), torch.arange(6.0))
    assert read == {"n": 3, "s": "text"}


@pytest.mark.parametrize("archive", [True, False])
def test_nothing_is_run(archive: bool, tmp_path: Path) -> None:
    path, mark = tmp_path / "bomb.pt", tmp_path / "mark"
    torch.save({"model": Bomb(mark)}, path, _use_new_zipfile_serialization=archive)
    with pytest.raises(InputError, match=r"bomb\.pt: holds more than weights: it calls posix.system"):
        read_torch_file(path)
    assert not mark.exists()
    with path.open("wb") as file:
        pickle.dump(Bomb(mark), file)
    with pytest.raises(InputError, match=r"bomb\.pt: "):
        read_torch_file(path)
    assert not mark.exists()


@pytest.mark.parametrize("content", [b"", b"PK", b"no pickle at all", b"PK\x03\x04" + bytes(100), b"\x80\x04N."])
def test_another_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"x\.pt: is not a file of torch\.save, or is damaged"):
        read_torch_file(path)


def test_a_compressed_archive_is_refused(saved: Path) -> None:
    """torch never compresses, and a megabyte could hold a gigabyte of zeros."""
    packed = saved.with_name("packed.pt")
    with zipfile.ZipFile(saved) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(InputError, match=r"packed\.pt: .* is damaged"):
        read_torch_file(packed)


def test_what_is_not_there_or_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.pt: cannot be read: No such file"):
        read_torch_file(tmp_path / "none.pt")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_torch_file(tmp_path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 2000), at=st.integers(0, 2000), value=st.integers(0, 255))
def test_damage_is_an_error_or_harmless(cut: int, at: int, value: int, saved: Path) -> None:
    """Truncated anywhere, or with any byte changed: a one-line error or content of the same kind, never a crash."""
    data = bytearray(saved.read_bytes())
    data[at % len(data)] = value
    path = saved.with_name("damaged.pt")
    path.write_bytes(data[: len(data) - cut % len(data)])
    with suppress(InputError):
        assert isinstance(read_torch_file(path), dict)
