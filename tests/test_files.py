"""Files are written completely or not at all, and leave nothing behind."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanopace.errors import InputError
from nanopace.files import (
    atomic_file,
    check_own,
    discard,
    open_own,
    open_regular,
    read_bounded,
    sync_directory,
    takes_much_memory,
    walk,
    write_durably,
)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "corpus.json"
    path.write_bytes(b"something longer that was there before")
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["corpus.json"]


def test_others_may_read_it_as_the_person_allows(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_durably(tmp_path / "a", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_new_file_may_be_read_and_written_but_not_run(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        os.close(open_own(tmp_path / "a", os.O_WRONLY | os.O_CREAT))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_what_was_there_stays_if_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    path = tmp_path / "corpus.json"
    path.write_bytes(b"old")

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["corpus.json"]


def test_the_file_and_then_its_name_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        found = os.fstat(handle)
        order.append("directory" if stat.S_ISDIR(found.st_mode) else f"file of {found.st_size}")
        sync(handle)

    def replaced(*names: Path) -> None:
        order.append("rename")
        replace(*names)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_durably(tmp_path / "a", b"data")
    assert order == ["file of 4", "rename", "directory"]


def test_syncing_leaves_no_directory_open(tmp_path: Path) -> None:
    before = os.listdir("/dev/fd")
    sync_directory(tmp_path)
    assert os.listdir("/dev/fd") == before


def test_a_file_that_somebody_else_made_first_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with atomic_file(path, overwrite=False, durable=False) as file:
        file.write(b"first")
    with pytest.raises(FileExistsError), atomic_file(path, overwrite=False) as file:
        file.write(b"second")
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["a"]


def test_a_link_can_be_read_and_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"old")
    (tmp_path / "link").symlink_to("victim")
    assert read_bounded(tmp_path / "link", 10) == b"old"
    for flags in (os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_APPEND | os.O_CREAT):
        with pytest.raises(OSError, match="it is a link, and links are not followed here"):
            open_own(tmp_path / "link", flags)
    assert (tmp_path / "victim").read_bytes() == b"old"


def test_a_link_to_nothing_makes_no_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("absent")
    with pytest.raises(OSError, match="it is a link"):
        open_own(tmp_path / "link", os.O_WRONLY | os.O_CREAT)
    assert os.listdir(tmp_path) == ["link"]


def test_a_pipe_is_neither_waited_for_nor_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a regular file"):
        open_regular(tmp_path / "pipe")
    for flags in (os.O_WRONLY, os.O_RDWR):
        with pytest.raises(OSError, match=r"it is not a regular file|No such device"):
            open_own(tmp_path / "pipe", flags)


def test_what_could_not_be_written_is_said_before_anything_is_touched(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "absent"):
        check_own(tmp_path / name)
    for name in ("link", "folder", "pipe"):
        with pytest.raises(InputError, match=f"{name}: is a link, a pipe or a directory"):
            check_own(tmp_path / name)


def test_a_device_without_an_end_is_no_file() -> None:
    with pytest.raises(OSError, match="it is not a regular file"):
        read_bounded(Path("/dev/zero"), 10)


@pytest.fixture
def nested(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Deeper than Python's recursion limit, which is why Python cannot remove it either: not below pytest's directory,
    since a later session could not remove what a killed one leaves there."""
    top = Path(tempfile.mkdtemp())
    with monkeypatch.context() as there:
        there.chdir(top)
        for _ in range(1300):
            os.mkdir("d")
            os.chdir("d")
        Path("a.txt").touch()
    yield top / "d"
    subprocess.run(["rm", "-rf", str(top)], check=True)


def test_a_directory_of_any_depth_is_walked(nested: Path) -> None:
    top = nested.parent
    (top / "b").mkdir()
    (top / "loop").symlink_to(top)
    found = list(walk(top))
    assert len(found) == 1302  # itself, b, and those below one another
    assert [files for _, _, files in found if files] == [["a.txt"]]


def test_a_walk_leaves_out_what_the_caller_does(tmp_path: Path) -> None:
    for name in ("a/x", "b/y", "c/z"):
        (tmp_path / name).mkdir(parents=True)
    seen = []
    for folder, folders, _ in walk(tmp_path):
        folders[:] = sorted(name for name in folders if name != "b")
        seen.append(os.path.relpath(folder, tmp_path))
    assert seen == [".", "a", "a/x", "c", "c/z"]


def test_whatever_has_a_name_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    os.mkfifo(tmp_path / "pipe")  # must not be waited for
    (tmp_path / "link").symlink_to("victim")
    (tmp_path / "file").touch()
    (tmp_path / "folder/below").mkdir(parents=True)
    os.mkfifo(tmp_path / "folder/below/pipe")
    for name in ("pipe", "link", "file", "folder", "absent"):
        discard(tmp_path / name)
    assert os.listdir(tmp_path) == ["victim"]


def test_what_cannot_be_removed_keeps_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    for name in "abc":
        (tmp_path / "folder" / name).touch()
    real, asked = os.unlink, list[str]()

    def unlink(name: str, **at: int) -> None:
        asked.append(name)
        if len(asked) == 1:
            raise PermissionError(1, "Operation not permitted", name)
        real(name, **at)

    monkeypatch.setattr(os, "unlink", unlink)
    discard(tmp_path / "folder")
    assert os.listdir(tmp_path / "folder") == asked[:1]


def test_what_is_too_deep_to_be_removed_ends_nothing(nested: Path) -> None:
    discard(nested)


def test_a_small_file_takes_little_memory_whatever_the_bound(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"small")
    tracemalloc.start()
    try:
        assert read_bounded(tmp_path / "a", 1 << 26) == b"small"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert read_bounded(tmp_path / "a", 4) is None
    assert read_bounded(tmp_path / "a", 5) == b"small"


@pytest.mark.parametrize(
    ("text", "each"), [(b"{", 241), (b"[", 73), (b",", 41), (b'"', 31), (b"a", 1), ("é".encode(), 16)]
)
def test_memory_is_judged_by_what_python_makes_of_a_text(
    monkeypatch: pytest.MonkeyPatch, text: bytes, each: int
) -> None:
    monkeypatch.setattr("nanopace.files._MUCH_MEMORY", 100 * each)
    assert not takes_much_memory(100 * text)
    assert takes_much_memory(101 * text)


def test_much_memory_is_384_mb() -> None:
    most = (384 << 20) // 241
    assert not takes_much_memory(b"{" * most)
    assert takes_much_memory(b"{" * (most + 1))
