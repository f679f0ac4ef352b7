from __future__ import annotations

import subprocess
import sys
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nanopace.host_clock import WallClock, process_start
from nanopace.train.clock.clock import SUSPEND, Clock, CudaClock


def test_marks_leave_no_gap() -> None:
    begin = time.monotonic()
    clock = Clock(begin)
    for phase in ("data", "step", "optimizer", "step"):
        time.sleep(0.002)
        before_the_mark = time.monotonic()
        assert clock.mark(phase, 7).passed()
    end = time.monotonic()
    pieces = clock.completed_pieces()
    assert [piece.phase for piece in pieces] == ["data", "step", "optimizer", "step"]
    assert all(piece.ms >= 2 and piece.iteration == 7 for piece in pieces)
    together = sum(piece.ms for piece in pieces) / 1000
    assert before_the_mark - begin - 1e-9 <= together <= end - begin + 1e-9
    assert clock.completed_pieces() == []
    assert clock.totals["step"] == pytest.approx(pieces[1].ms + pieces[3].ms)
    assert sum(clock.shares().values()) == pytest.approx(1)


def test_no_time_no_shares() -> None:
    assert Clock(time.monotonic()).shares() == {}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells when a process began")
def test_a_process_knows_when_it_began() -> None:
    before = time.monotonic()
    code = "import time; time.sleep(0.2); from nanopace.host_clock import process_start; print(process_start())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert before - 0.02 <= float(said) <= time.monotonic() - 0.2


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", refuse)
    before = time.monotonic()
    assert before <= process_start() <= time.monotonic()


# --- clocks that do what they want ---------------------------------------------------------------------------------


class Hands:
    """A machine's clocks, set by hand: seconds awake, and seconds asleep."""

    def __init__(self) -> None:
        self.awake, self.asleep = 1000.0, 50.0

    def wall(self) -> WallClock:
        return WallClock(lambda: self.awake, lambda: self.awake + self.asleep)


def test_a_laptop_that_slept_is_a_stall_and_no_step() -> None:
    hands = Hands()
    clock = Clock(1000.0, hands.wall())
    hands.awake += 0.2
    clock.mark("step", 1)
    hands.awake += 0.1
    hands.asleep += 3600.0
    hands.awake += 0.1
    clock.mark("step", 2)
    hands.awake += 0.3
    clock.mark("step", 3)
    assert [(each.phase, each.iteration, round(each.ms)) for each in clock.completed_pieces()] == [
        ("step", 1, 200),
        ("step", 2, 200),
        (SUSPEND, 2, 3_600_000),
        ("step", 3, 300),
    ]
    assert sum(clock.totals.values()) == pytest.approx((clock.now() - 1000.0) * 1000)


def test_a_moment_between_two_readings_is_no_sleep() -> None:
    """A delay between reading the two clocks makes them differ, but that is not sleep."""
    ticks = iter(float(each) for each in range(1000))
    clock = Clock(0.0, WallClock(lambda: next(ticks), lambda: next(ticks) + 7))
    for step in range(50):
        clock.mark("step", step)
    assert SUSPEND not in clock.totals


def test_a_stop_is_a_stall_and_no_step() -> None:
    hands = Hands()
    clock = Clock(1000.0, hands.wall())
    hands.awake += 0.5
    with clock.paused():
        hands.awake += 60.0
        hands.asleep += 30.0  # meanwhile the lid is closed
    hands.awake += 0.5
    clock.mark("step", 1)
    assert clock.totals == {"step": pytest.approx(1000), SUSPEND: pytest.approx(90_000)}
    assert clock.now() - 1000.0 == pytest.approx(91.0)


moves = st.lists(st.tuples(st.sampled_from(["awake", "asleep", "stop"]), st.floats(-1e4, 1e6)), max_size=40)


@given(moves)
def test_whatever_the_clocks_do_no_time_is_negative_and_none_is_lost(moved: list[tuple[str, float]]) -> None:
    hands = Hands()
    clock = Clock(1000.0, hands.wall())
    for step, (what, by) in enumerate(moved):
        if what == "stop":
            with clock.paused():
                hands.awake += by
        else:
            setattr(hands, what, getattr(hands, what) + by)
        clock.mark("step", step)
    pieces = clock.completed_pieces()
    assert all(each.ms >= 0 for each in pieces)
    assert sum(each.ms for each in pieces) == pytest.approx((clock.now() - 1000.0) * 1000, abs=1e-3)


class Event:
    """A card's event: `at` on its timer, in ms."""

    def __init__(self, at: float) -> None:
        self.at = at

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, later: Event) -> float:
        return later.at - self.at


class Card(CudaClock):
    """A clock with a card whose timer is set by hand."""

    def __init__(self, hands: Hands) -> None:
        self.timer = 0.0
        super().__init__(1000.0, torch.device("cuda", 0), hands.wall())

    def _drain(self) -> None:
        pass

    def _event(self) -> torch.cuda.Event:
        return Event(self.timer)  # type: ignore[return-value]


def test_the_card_is_believed_while_it_can_be_true() -> None:
    """The host is two steps ahead of the card, and sees the marks pass later."""
    hands = Hands()
    card = Card(hands)
    for step in range(3):
        hands.awake += 0.01
        card.timer += 500
        card.mark("step", step)
    hands.awake += 1.5
    assert [each.ms for each in card.completed_pieces()][1:] == [500, 500, 500]


@pytest.mark.parametrize("jump", [-1e9, -400.0, 3.6e6, 1e12])
def test_a_timer_that_jumped_is_not_believed(jump: float) -> None:
    """After a sleep, it may have restarted, counted the sleep, or show nonsense."""
    hands = Hands()
    card = Card(hands)
    card.mark("startup", 0)
    card.completed_pieces()
    hands.awake += 0.3
    hands.asleep += 3600
    card.timer += 300 + jump
    card.mark("step", 1)
    assert [(each.phase, round(each.ms)) for each in card.completed_pieces()] == [("step", 300), (SUSPEND, 3_600_000)]
    hands.awake += 0.2
    card.timer += 200
    card.mark("step", 2)
    assert [(each.phase, round(each.ms)) for each in card.completed_pieces()] == [("step", 200)]
    assert sum(card.totals.values()) == pytest.approx((card.now() - 1000.0) * 1000)


def test_a_card_has_nothing_to_do_while_the_host_is_stopped() -> None:
    hands = Hands()
    card = Card(hands)
    hands.awake += 0.1
    card.timer += 100
    with card.paused():
        hands.awake += 20
        card.timer += 20_000
    hands.awake += 0.3
    card.timer += 300
    card.mark("step", 4)
    hands.awake += 0.1
    card.timer += 100
    card.mark("step", 5)
    assert [(each.phase, each.iteration, round(each.ms)) for each in card.completed_pieces()][1:] == [
        ("step", 4, 400),
        (SUSPEND, 4, 20_000),
        ("step", 5, 100),
    ]
