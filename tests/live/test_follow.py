"""Following a growing file, whatever happens to it meanwhile."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nanopace.live import follow
from nanopace.live.follow import Follower

PATIENCE_S = 10.0


class Followed:
    """What a thread has read from a file so far."""

    def __init__(self, path: Path) -> None:
        self.stop = threading.Event()
        self.source = Follower(str(path), self.stop)
        self.read = b""
        self.history = b""
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._begun = threading.Event()
        self._thread.start()
        assert self._begun.wait(PATIENCE_S)

    def _follow(self) -> None:
        self.history = b"".join(self.source.history())
        self._begun.set()
        for chunk in self.source.live():
            self.read += chunk

    def expect(self, data: bytes) -> None:
        until = time.monotonic() + PATIENCE_S
        while self.read != data and time.monotonic() < until:
            time.sleep(0.01)
        assert self.read == data

    def end(self) -> None:
        self.stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], Followed]]:
    monkeypatch.setattr(follow, "LOOK_S", 0.02)
    monkeypatch.setattr(follow, "POLL_S", 0.005)
    begun: list[Followed] = []

    def begin(path: Path) -> Followed:
        begun.append(Followed(path))
        return begun[-1]

    yield begin
    for each in begun:
        each.end()


def test_what_is_there_and_what_comes(tmp_path: Path, following: Callable[[Path], Followed]) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"old\n")
    followed = following(log)
    assert followed.history == b"old\n"
    with log.open("ab") as file:
        for part in (b"ne", b"w\n", b"newer\n"):
            file.write(part)
            file.flush()
            time.sleep(0.02)
    followed.expect(b"new\nnewer\n")


def test_a_file_that_is_not_there_yet(tmp_path: Path, following: Callable[[Path], Followed]) -> None:
    log = tmp_path / "train.log"
    followed = following(log)
    assert followed.history == b""
    log.write_bytes(b"first\n")
    followed.expect(b"first\n")


def test_rotation(tmp_path: Path, following: Callable[[Path], Followed]) -> None:
    """The old file is read to its end first, even if something is written to it after the rename."""
    log = tmp_path / "train.log"
    log.write_bytes(b"")
    followed = following(log)
    with log.open("ab", buffering=0) as old:
        old.write(b"1\n")
        log.rename(tmp_path / "train.log.1")
        old.write(b"2\n")
        followed.expect(b"1\n2\n")
        log.write_bytes(b"3\n")
        followed.expect(b"1\n2\n3\n")
    log.rename(tmp_path / "train.log.2")
    log.write_bytes(b"4\n")
    followed.expect(b"1\n2\n3\n4\n")


def test_truncation(tmp_path: Path, following: Callable[[Path], Followed]) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"a long first line\n")
    followed = following(log)
    os.truncate(log, 0)
    time.sleep(0.1)
    with log.open("ab") as file:
        file.write(b"anew\n")
    followed.expect(b"anew\n")


def test_truncation_that_no_look_has_seen(tmp_path: Path, following: Callable[[Path], Followed]) -> None:
    """It has the same beginning, and is already longer than before at the next look."""
    log = tmp_path / "train.log"
    log.write_bytes(b"header\niter 0: time 10ms\n")
    followed = following(log)
    anew = b"header\niter 0: time 11ms\niter 1: time 10ms\n"
    with log.open("r+b", buffering=0) as file:  # in one step, so that nobody sees a shorter file
        file.write(anew)
    followed.expect(anew)


def test_a_writer_that_goes_on_behind_a_truncation(tmp_path: Path, following: Callable[[Path], Followed]) -> None:
    log = tmp_path / "train.log"
    with log.open("wb", buffering=0) as file:
        file.write(b"x" * 1000 + b"\n")
        followed = following(log)
        with log.open("r+b", buffering=0) as other:
            other.write(b"\0" * 1001)
        file.write(b"more\n")
        followed.expect(b"more\n")


def test_of_a_very_long_file_the_beginning_and_the_end(
    tmp_path: Path, following: Callable[[Path], Followed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "MOST_HISTORY", 1000)
    monkeypatch.setattr(follow, "_BEGINNING", 200)
    log = tmp_path / "train.log"
    log.write_bytes(b"".join(b"line %04d\n" % number for number in range(1000)))
    history = following(log).history
    lines = history.decode().split("\n")
    assert lines[0] == "line 0000"
    assert lines[-2] == "line 0999"
    assert 900 < len(history) <= 1000
    assert all(len(line) in (0, 9) for line in lines), "no line is cut into another"


def test_where_the_writer_is_gone_it_ends_behind_the_last_byte(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"")
    followed = Followed(log)
    with log.open("ab") as file:
        file.write(b"last words\n")
    followed.source.ended.set()
    followed._thread.join(PATIENCE_S)
    assert followed.read == b"last words\n"
