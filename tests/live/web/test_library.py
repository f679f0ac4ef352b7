"""Which runs there are, when each is read, and what becomes of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nanopace.live.web import library as shelf
from nanopace.live.web.library import Key, Library
from nanopace.run import Run
from nanopace.sources.runs import open_runs

from ..made_up import HEADER, rows


class Clock:
    """A monotonic clock that advances on request."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def write(path: Path, last: int = 100, *, first: int = 0, mode: str = "w", age_s: float | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode) as file:
        file.write((HEADER if mode == "w" else "") + "\n".join(rows(first, last)) + "\n")
    if age_s is not None:
        then = path.stat().st_mtime - age_s
        os.utime(path, (then, then))


def library(
    clock: Clock, *paths: Path, read: Callable[..., list[Run]] = open_runs, spent: Callable[[], float] = lambda: 0.0
) -> Library:
    return Library([str(path) for path in paths], read, now=clock, spent=spent)


def costly(clock: Clock, spent: Clock, takes_s: float) -> Callable[..., list[Run]]:
    """Reading uses 0.2 s of CPU time, and takes much longer on busy cores."""

    def read(*arguments: Any) -> list[Run]:
        spent.now += 0.2
        clock.now += takes_s
        return open_runs(*arguments)

    return read


def settle(library: Library, clock: Clock, seconds: float = 3.0) -> set[str]:
    changed: set[str] = set()
    for _ in range(int(seconds * 2)):
        clock.now += 0.5
        changed |= library.look()
    return changed


def settled(clock: Clock, *paths: Path, **how: Any) -> Library:
    found = library(clock, *paths, **how)
    settle(found, clock)
    return found


def reached(library: Library, key: Key) -> int:
    run = library.run(key)
    assert run is not None
    return run.source.last_iteration


def test_a_log_that_grows_is_read_again(tmp_path: Path, clock: Clock) -> None:
    log = tmp_path / "train.log"
    write(log)
    found = library(clock, log)
    assert settle(found, clock) == {"train.log"}
    assert found.is_one_log
    assert found.keys == [Key("train.log")]
    assert settle(found, clock) == set()
    write(log, 150, first=100, mode="a")
    assert settle(found, clock) == {"train.log"}
    assert reached(found, Key("train.log")) == 149


@pytest.mark.parametrize("there_is", ["nothing", "a directory"])
def test_what_is_not_there_yet_is_waited_for(tmp_path: Path, clock: Clock, there_is: str) -> None:
    place = tmp_path / "out"
    found = settled(clock, place)
    assert found.keys == []
    if there_is == "nothing":
        write(place)
    else:
        write(place / "a" / "train.log")
    settle(found, clock)
    assert found.keys == [Key("out")] if there_is == "nothing" else [Key("a/train.log")]


def test_new_runs_of_a_directory_come_first(tmp_path: Path, clock: Clock) -> None:
    write(tmp_path / "old.log", age_s=9000)
    write(tmp_path / "new.log", age_s=10)
    found = settled(clock, tmp_path)
    assert [key.log for key in found.keys] == ["new.log", "old.log"]
    write(tmp_path / "newest.log")
    settle(found, clock)
    assert [key.log for key in found.keys] == ["newest.log", "new.log", "old.log"]
    write(tmp_path / "old.log", 110, first=100, mode="a")
    settle(found, clock)
    assert [key.log for key in found.keys] == ["newest.log", "new.log", "old.log"], "a list that jumps cannot be read"


def test_states(tmp_path: Path, clock: Clock) -> None:
    write(tmp_path / "running.log")
    write(tmp_path / "asleep.log", age_s=4000)
    write(tmp_path / "whole.log", 201)
    write(tmp_path / "dead.log")
    with (tmp_path / "dead.log").open("a") as file:
        file.write("torch.OutOfMemoryError: CUDA out of memory.\n")
    found = library(clock, tmp_path)
    settle(found, clock, 10)

    def states() -> dict[str, str]:
        return {key.log.removesuffix(".log"): found.log(key).state(key.number) for key in found.keys}

    assert states() == {"running": "running", "asleep": "silent", "whole": "finished", "dead": "stopped"}
    assert "running.log" in settle(found, clock, 700)
    assert states()["running"] == "silent"
    write(tmp_path / "running.log", 110, first=100, mode="a")
    settle(found, clock)
    assert states()["running"] == "running"


def test_several_runs_of_one_log_keep_their_names(tmp_path: Path, clock: Clock) -> None:
    log = tmp_path / "train.log"
    write(log, 60)
    with log.open("a") as file:
        file.write(HEADER)
    write(log, 40, mode="a")
    found = settled(clock, log)
    assert [str(key) for key in found.keys] == ["train.log@2", "train.log"]
    assert [found.find(name) for name in ("train.log", "train.log@2")] == [Key("train.log"), Key("train.log", 1)]
    assert found.log(Key("train.log")).state(0) == "stopped"
    assert reached(found, Key("train.log", 1)) == 39


@pytest.mark.parametrize("asked", ["../secret.log", "/etc/passwd", "", "a.log@0", "a.log@2", "a.log@99999999", "b.log"])
def test_no_address_opens_a_file(tmp_path: Path, clock: Clock, asked: str) -> None:
    write(tmp_path / "logs" / "a.log")
    write(tmp_path / "secret.log")
    found = settled(clock, tmp_path / "logs")
    assert found.find("a.log") == Key("a.log")
    assert found.find(asked) is None


def test_only_a_few_are_kept_in_memory(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "MOST_HELD", 2)
    for number in range(5):
        write(tmp_path / f"{number}.log", 40 + number, age_s=number)
    found = library(clock, tmp_path)
    settle(found, clock, 10)
    held = [key.log for key in found.keys if found.log(key)._diagnoses is not None]
    assert len(held) == 2
    assert len(found.keys) == 5
    for number in range(5):
        assert reached(found, Key(f"{number}.log")) == 39 + number, "read again when it is asked for"


@pytest.mark.parametrize(("busy", "takes_s"), [(False, 0.5), (True, 30.0)])
def test_reading_leaves_most_of_the_time_to_others(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, busy: bool, takes_s: float
) -> None:
    monkeypatch.setattr(shelf, "cores_are_busy", lambda: busy)
    log = tmp_path / "train.log"
    write(log)
    spent = Clock()
    found = settled(clock, log, read=costly(clock, spent, takes_s), spent=spent)
    write(log, 110, first=100, mode="a")
    assert settle(found, clock, 0.5) == {"train.log"}
    began_s = clock.now - takes_s
    spent.now += 0.3  # for rendering and sending it
    write(log, 120, first=110, mode="a")
    rest_s = 0.5 * (shelf.BUSY_SHARE if busy else shelf.SHARE)
    settle(found, clock, began_s + rest_s - clock.now - 2)
    assert reached(found, Key("train.log")) == 109
    settle(found, clock, 4)
    assert reached(found, Key("train.log")) == 119


def test_waiting_does_not_use_up_the_budget(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all cores are busy, waking up every second takes more than the budget: it would never read again."""
    monkeypatch.setattr(shelf, "cores_are_busy", lambda: True)
    log = tmp_path / "train.log"
    write(log)
    spent = Clock()
    found = settled(clock, log, read=costly(clock, spent, 30.0), spent=spent)
    write(log, 110, first=100, mode="a")
    assert settle(found, clock) == {"train.log"}
    write(log, 120, first=110, mode="a")
    for _ in range(60):
        spent.now += 0.02
        settle(found, clock, 1)
    assert reached(found, Key("train.log")) == 119


def test_a_log_that_is_replaced_or_cannot_be_read_for_a_moment(tmp_path: Path, clock: Clock) -> None:
    log = tmp_path / "train.log"
    write(log)
    found = settled(clock, log)
    log.rename(tmp_path / "train.log.1")
    settle(found, clock)
    assert found.keys == [Key("train.log")], "between two files the old one is shown"
    log.write_text("")
    settle(found, clock)
    assert found.keys == [Key("train.log")]
    write(log, 160, first=100)
    settle(found, clock)
    assert reached(found, Key("train.log")) == 159


def test_a_log_without_rows_says_why(tmp_path: Path, clock: Clock) -> None:
    log = tmp_path / "notes.txt"
    log.write_text("nothing of a training\n" * 40)
    found = settled(clock, log)
    assert found.keys == []
    assert [each.error is not None for each in found.waiting] == [True]
