"""A log that was rotated: one log, whatever became of its first part."""

from __future__ import annotations

from pathlib import Path

import pytest

from nanopace.live.web import rotation
from nanopace.live.web.library import Key, Library

from ..made_up import rows
from .test_library import Clock, reached, settle, settled, write


@pytest.fixture
def clock() -> Clock:
    return Clock()


def started(found: Library) -> tuple[list[Key], int | None, int]:
    """Which runs there are, and the first and last iteration of the newest."""
    run = found.run(found.keys[0])
    assert run is not None
    return found.keys, run.source.first_iteration, run.source.last_iteration


@pytest.mark.parametrize("then", ["kept", "deleted", "in two steps"])
def test_a_log_that_was_rotated_is_still_one(tmp_path: Path, clock: Clock, then: str) -> None:
    """Its header, without which no token could be counted, is in the first part."""
    log = tmp_path / "train.log"
    write(log)
    found = settled(clock, log)
    for part, (first, last) in enumerate([(100, 130), (130, 160)]):
        log.rename(tmp_path / f"train.log.{part}")
        if then == "in two steps":
            settle(found, clock)
            log.touch()
            settle(found, clock)
        log.write_text("\n".join(rows(first, last)) + "\n")
        if then == "deleted":
            (tmp_path / f"train.log.{part}").unlink()
        settle(found, clock)
        assert started(found) == ([Key("train.log")], 0, last - 1)
    run = found.run(Key("train.log"))
    assert run is not None
    assert run.source.rows == 160
    assert run.throughput.tokens_per_s is not None
    write(log, 170, first=160, mode="a")
    settle(found, clock)
    assert started(found) == ([Key("train.log")], 0, 169)


def test_each_part_begins_a_new_line(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("iter 1")
    parts = rotation.Parts(str(log))
    assert parts.log() == str(log)
    log.rename(tmp_path / "train.log.1")
    assert parts.log() == str(log)
    log.write_text("iter 2\n")
    joined = parts.log()
    assert not isinstance(joined, str)
    assert (joined.name, joined.read()) == ("train.log", b"iter 1\niter 2\n\n")


def test_a_copy_in_the_place_of_the_log_is_no_rotation(tmp_path: Path, clock: Clock) -> None:
    """As rsync writes it: beside the old one, and then renamed."""
    log, copy = tmp_path / "train.log", tmp_path / ".train.log.x7Qp"
    write(log)
    found = settled(clock, log)
    write(copy, 150)
    copy.rename(log)
    settle(found, clock)
    run = found.run(Key("train.log"))
    assert run is not None
    assert (run.source.rows, run.restarts.count) == (150, 0)


def test_of_parts_that_are_too_large_the_oldest_goes(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "train.log"
    write(log)
    monkeypatch.setattr(rotation, "MOST_BYTES", log.stat().st_size + 100)
    found = settled(clock, log)
    log.rename(tmp_path / "train.log.1")
    log.write_text("\n".join(rows(100, 130)) + "\n")
    settle(found, clock)
    assert started(found) == ([Key("train.log")], 100, 129)


def test_in_a_directory_both_parts_are_listed(tmp_path: Path, clock: Clock) -> None:
    log = tmp_path / "train.log"
    write(log)
    found = settled(clock, tmp_path)
    log.rename(tmp_path / "train.log.1")
    log.write_text("\n".join(rows(100, 130)) + "\n")
    settle(found, clock, 5)
    assert {key: reached(found, key) for key in found.keys} == {Key("train.log"): 129, Key("train.log.1"): 99}
