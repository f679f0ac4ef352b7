from __future__ import annotations

import subprocess
import sys
import time

import pytest

from nanopace.train.clock import Clock, process_start


def test_marks_leave_no_gap() -> None:
    begin = time.monotonic()
    clock = Clock(begin)
    for phase in ("data", "step", "optimizer", "step"):
        time.sleep(0.002)
        before_the_mark = time.monotonic()
        assert clock.mark(phase, 7).passed()
    end = time.monotonic()
    pieces = clock.settled()
    assert [piece.phase for piece in pieces] == ["data", "step", "optimizer", "step"]
    assert all(piece.ms >= 2 and piece.iteration == 7 for piece in pieces)
    together = sum(piece.ms for piece in pieces) / 1000
    assert before_the_mark - begin - 1e-9 <= together <= end - begin + 1e-9
    assert clock.settled() == []
    assert clock.totals["step"] == pytest.approx(pieces[1].ms + pieces[3].ms)
    assert sum(clock.shares().values()) == pytest.approx(1)


def test_no_time_no_shares() -> None:
    assert Clock(time.monotonic()).shares() == {}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells when a process began")
def test_a_process_knows_when_it_began() -> None:
    before = time.monotonic()
    code = "import time; time.sleep(0.2); from nanopace.train.clock import process_start; print(process_start())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert before - 0.02 <= float(said) <= time.monotonic() - 0.2


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", refuse)
    before = time.monotonic()
    assert before <= process_start() <= time.monotonic()
