"""What the live display shows, line by line."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace import train
from nanopace.cli.display.frame import PHASES, Losses, State
from nanopace.wording.catalog import words
from nanopace.wording.numbers import LANGUAGES

from ..sample_events import evaluation, introduction, step


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def shown(state: State, width: int = 100) -> list[str]:
    return ["".join(text for text, _ in line) for line in state.frame(width)]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def trained(clock: Clock) -> State:
    """After 500 of 2000 steps of 0.2 s, with evaluations."""
    state = State(words(), clock)
    state.phase("startup")
    state.started(introduction())
    for iteration in range(500):
        clock.now = 1000.0 + 0.2 * iteration
        state.event(step(iteration, loss=11.0 - iteration / 100))
    state.event(evaluation())
    state.phase("evaluation")
    return state


def test_in_the_middle_of_a_run(trained: State) -> None:
    progress, rate, shares, loss = shown(trained)
    bar = "━" * 14 + "─" * 46
    assert progress == f"step 499 of 2,000 {bar} 25%, 5 min 0 s left"
    assert rate == "now: evaluation, 389k tok/s, 169 ms/step, mfu 41.2%"
    assert shares == "forward+backward 82.0%, optimizer 10.0%, evaluation 5.0%, start-up 2.9%, data 0.1%"
    assert loss.startswith("loss 6.01 █")
    assert loss.endswith("▁ 6.06 to 10.5  val 3.284 ±0.003 at 250")


def test_before_the_first_step() -> None:
    state = State(words())
    assert shown(state) == []
    state.phase("startup")
    assert shown(state) == ["now: start-up"]
    state.started(introduction())
    state.phase("compile")
    assert shown(state) == ["step 0 of 2,000 " + "─" * 60 + " 0%", "now: compiling"]


def test_every_phase_of_the_trainer_has_a_word() -> None:
    source = Path(train.__file__).parent
    named = {
        phase
        for path in source.rglob("*.py")
        for phase in re.findall(r"\.(?:phase|mark)\(\"(\w+)\"", path.read_text(encoding="utf-8"))
    }
    assert {"step", "sample", "optimizer"} <= named <= PHASES.keys()


def test_a_phase_that_nobody_knows_has_its_own_name() -> None:
    state = State(words())
    state.started(introduction(phase_shares=lambda: {"teleport": 1.0}))
    state.phase("teleport")
    state.event(step())
    assert shown(state)[1].startswith("now: teleport, ")
    assert shown(state)[2] == "teleport 100.0%"


def test_after_the_first_step_nobody_knows_how_long_it_will_take(clock: Clock) -> None:
    state = State(words(), clock)
    state.started(introduction(peak_flops=None, phase_shares=dict))
    state.event(step(0, ms=0.0))
    assert shown(state)[0].endswith("─ 0%")
    assert shown(state)[1] == "loss 3.28 ▄ 3.28 to 3.28"
    clock.now += 1.5
    state.event(step(1))
    assert shown(state)[0].endswith("─ 0%, 49 min 58 s left")
    assert "mfu" not in shown(state)[1]


@pytest.mark.parametrize(
    ("per_step", "left"),
    [(0.02, "40.0 s"), (0.5, "16 min 40 s"), (5.0, "2 h 47 min"), (100.0, "2 d 8 h")],
)
def test_what_is_left(clock: Clock, per_step: float, left: str) -> None:
    state = State(words(), clock)
    state.started(introduction(last_step=2001))
    state.event(step(0))
    clock.now += per_step
    state.event(step(1))
    assert shown(state)[0].endswith(f", {left} left")


def test_a_resumed_run_begins_where_it_went_on_and_knows_its_own_pace(clock: Clock) -> None:
    state = State(words(), clock)
    state.started(introduction(first_step=1000, last_step=1999))
    assert shown(state)[0].startswith("step 1,000 of 1,999 " + "━" * 30 + "─")
    state.event(step(1000))
    clock.now += 1.0
    state.event(step(1001))
    assert shown(state)[0].endswith("50%, 16 min 38 s left")


@given(st.integers(1, 200))
@settings(max_examples=60)
def test_no_line_is_longer_than_the_terminal_is_wide(width: int) -> None:
    state = State(words())
    state.started(introduction())
    for iteration in range(50):
        state.event(step(iteration))
        state.phase("evaluation")
    state.event(evaluation())
    lines = shown(state, width)
    assert len(lines) == 4
    assert max(map(len, lines)) <= width


def test_a_narrow_terminal_has_whole_parts(trained: State) -> None:
    assert shown(trained, 40) == [
        "step 499 of 2,000, 25%, 5 min 0 s left",
        "now: evaluation, 389k tok/s, 169 ms/step",
        "forward+backward 82.0%, optimizer 10.0%",
        "loss 6.01, val 3.284 ±0.003 at 250",
    ]


def test_a_loss_that_diverged_is_said_and_not_drawn() -> None:
    state = State(words())
    state.event(step(0, loss=5.0))
    state.event(step(1, loss=math.nan))
    state.event(step(2, loss=math.inf))
    assert shown(state)[-1] == "loss ∞ ▄ 5.00 to 5.00"


def test_a_rate_in_its_own_size() -> None:
    for tokens, rate in ((50, "50"), (50_000, "50.0k"), (999_600, "1.00M"), (50_000_000, "50.0M")):
        state = State(words())
        state.event(step(tokens=tokens, ms=1000.0))
        assert shown(state)[0].startswith(f"{rate} tok/s")


def test_the_curve_of_a_long_run_stays_short() -> None:
    losses = Losses(most=64)
    for iteration in range(100_000):
        losses.add(iteration, 3.0 + 8.0 * math.exp(-iteration / 20_000))
    assert 32 <= len(losses._points) < 64
    drawn, low, high = losses.curve(30)
    assert len(drawn) == 30
    assert drawn[0] == "█"
    assert drawn[-1] == "▁"
    assert sorted(drawn, reverse=True) == list(drawn)
    assert 3.0 < low < 3.1
    assert 7.0 < high < 8.5  # without the first tenth


def test_the_curve_has_a_scale_of_its_own() -> None:
    """A loss that falls by a hundredth is drawn as high as one that falls by ten."""
    losses = Losses()
    for iteration in range(200):
        losses.add(iteration, 3.2 - iteration * 1e-4)
    drawn, low, high = losses.curve(20)
    assert set(drawn) == set("▁▂▃▄▅▆▇█")
    assert drawn[0] == "█"
    assert (round(low, 3), round(high, 3)) == (3.18, 3.198)
    assert Losses().curve(20) == ("", 0.0, 0.0)


@pytest.mark.usefixtures("untraced")
def test_a_step_costs_next_to_nothing() -> None:
    state = State(words())
    state.started(introduction())
    report = step()
    begin = time.perf_counter()
    for _ in range(10_000):
        state.event(report)
    assert (time.perf_counter() - begin) / 10_000 < 50e-6


def test_what_was_skipped_is_counted_and_shown(trained: State) -> None:
    assert not any("skipped" in line for line in shown(trained))
    trained.event(step(500, loss=math.nan, skipped=True))
    trained.event(step(501, loss=math.nan, skipped=True))
    assert shown(trained)[1].endswith("mfu 41.2%, 2 skipped")


def test_training_that_goes_back_has_its_time_and_its_curve_from_there(trained: State, clock: Clock) -> None:
    trained.event(step(300))
    assert shown(trained)[0].endswith(" 15%")  # the time left is still unknown
    clock.now += 2
    trained.event(step(310))
    assert shown(trained)[0].endswith("5 min 38 s left")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_word_is_broken(clock: Clock, language: str, width: int) -> None:
    """What does not fit is left out entirely: the shown text is the start of the unlimited line."""
    state = State(words(language), clock)
    state.started(
        introduction(first_step=1_234_567, last_step=2_345_678, phase_shares=lambda: dict.fromkeys(PHASES, 0.1))
    )
    for iteration in range(1_234_567, 1_234_700):
        clock.now += 7.77
        state.event(step(iteration, ms=7777.7, loss=12.34 - iteration * 1e-6, skipped=iteration % 2 == 0))
    state.event(evaluation(iteration=1_234_600))
    state.phase("step")
    whole = {word for line in shown(state, 1000) for word in line.replace(",", " ").split()}
    for line in shown(state, width):
        assert len(line) <= width
        assert {word for word in line.replace(",", " ").split() if word.strip("━─▁▂▃▄▅▆▇█")} <= whole
