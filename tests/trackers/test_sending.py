"""A tracker may be slow, hang or fail in any way: a run never waits for it, and reports it once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from threading import Event

import pytest

from nanopace.trackers import sending
from nanopace.trackers.sending import Sending
from nanopace.trackers.tracker import Heading

HEADING = Heading("project", "run", {"batch_size": 8}, Path("out"))


class Kept:
    """A tracker that records what it receives, and fails on request."""

    def __init__(self, fails: str = "", error: BaseException | None = None, wait: Event | None = None) -> None:
        self.got: list[object] = []
        self._fails, self._error, self._wait = fails, error, wait

    def open(self, heading: Heading) -> str | None:
        self._did("open", heading)
        return "look at it there"

    def log(self, step: int, figures: Mapping[str, float], at_s: float | None) -> None:
        self._did("log", (step, dict(figures), at_s))

    def close(self) -> None:
        self._did("close", "closed")

    def _did(self, what: str, got: object) -> None:
        if self._wait is not None:
            self._wait.wait(60)
        if what == self._fails and self._error is not None:
            raise self._error
        self.got.append(got)


def send(tracker: Kept, steps: int = 5, patience_s: float = 20.0) -> list[str]:
    said: list[str] = []
    sending = Sending("kept", tracker, HEADING, said.append)
    for step in range(steps):
        sending.log(step, {"loss": 3.0 - step})
    sending.finish(patience_s)
    return said


def test_everything_arrives_in_its_order() -> None:
    tracker = Kept()
    assert send(tracker) == ["look at it there"]
    assert tracker.got == [HEADING, *((step, {"loss": 3.0 - step}, None) for step in range(5)), "closed"]


@pytest.mark.parametrize("fails", ["open", "log", "close"])
@pytest.mark.parametrize("error", [OSError("no\nnetwork"), SystemExit(3), KeyboardInterrupt(), ValueError()])
def test_a_failure_is_said_once_and_ends_only_the_tracker(fails: str, error: BaseException) -> None:
    said = send(Kept(fails, error))
    reason = " ".join(str(error).split()) or type(error).__name__
    assert said[-1] == f"kept: {reason}; training continues without it"
    assert len(said) == (1 if fails == "open" else 2)


def test_one_that_hangs_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MOST_WAITING", 3)
    wait = Event()
    began = time.perf_counter()
    said = send(Kept(wait=wait), steps=1000, patience_s=0.1)
    assert time.perf_counter() - began < 5
    wait.set()
    assert said == ["kept: still busy after 0 s; its last figures may be missing"]


def test_what_had_to_be_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MOST_WAITING", 3)
    wait, said = Event(), list[str]()
    tracker = Kept(wait=wait)
    slow = Sending("kept", tracker, HEADING, said.append)
    for step in range(2003):
        slow.log(step, {})
    wait.set()
    slow.finish(20)
    assert said[-1] == "kept: too slow to keep up; steps missing there: 2,000"
    assert [got[0] for got in tracker.got if isinstance(got, tuple) and got is not HEADING] == [0, 1, 2]
