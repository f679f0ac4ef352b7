"""Every moment belongs to one phase, whatever a loop does, on the host and on a card."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace import Clock
from nanopace.clock.phases import Phase, Step
from nanopace.ledger import CheckpointEvent, CompileEvent, EndEvent, EvalEvent, SpanEvent, StepEvent
from nanopace.ledger.codec import to_json

from .hands import hands_of_a_clock, ledger_of

MS = st.integers(0, 40).map(float)
KINDS = ("step", "evaluation", "checkpoint", "data", "optimizer", "compile", "logging", "other")


class Block:
    """A phase of a made-up loop: some time, phases inside it, and some time."""

    def __init__(self, kind: str, before: float, inside: list[Block], after: float) -> None:
        self.kind, self.before, self.inside, self.after = kind, before, inside, after

    def __repr__(self) -> str:
        return f"Block({self.kind!r}, {self.before}, {self.inside}, {self.after})"

    @property
    def whole(self) -> float:
        return self.before + sum(each.whole for each in self.inside) + self.after


def blocks(children: st.SearchStrategy[list[Block]]) -> st.SearchStrategy[list[Block]]:
    return st.lists(st.builds(Block, st.sampled_from(KINDS), MS, children, MS), max_size=4)


PROGRAMS = st.recursive(st.just([]), blocks, max_leaves=12)


def enter(clock: Clock, kind: str) -> Phase:
    if kind in ("step", "evaluation", "checkpoint", "data"):
        phase: Phase = getattr(clock, kind)()
        return phase
    return clock.phase(kind)


def play(clock: Clock, program: list[Block], work: Any) -> None:
    for block in program:
        with enter(clock, block.kind):
            work(block.before)
            play(clock, block.inside, work)
            work(block.after)


def cut_out_of(step: Block) -> Iterator[Block]:
    """Separate phases inside a step. A step inside a step is not another one, and has nothing of its own."""
    for each in step.inside:
        if each.kind == "step":
            yield from cut_out_of(each)
        elif each.kind not in ("data", "optimizer"):
            yield each


def expected(program: list[Block]) -> tuple[list[float], dict[str, float]]:
    """The expected result: the steps' times, and the time of everything else by phase."""
    steps: list[float] = []
    rest: defaultdict[str, float] = defaultdict(float)
    waiting = 0.0
    for block in program:
        if block.kind == "step":
            cut_out = list(cut_out_of(block))
            for each in cut_out:
                rest[each.kind] += each.whole
            steps.append(waiting + block.whole - sum(each.whole for each in cut_out))
            waiting = 0.0
        elif block.kind == "data":
            waiting += block.whole
        else:
            rest["other" if block.kind == "optimizer" else block.kind] += block.whole
    rest["other"] += waiting  # for a step that never came
    return steps, {kind: ms for kind, ms in rest.items() if ms}


@settings(max_examples=60)
@given(PROGRAMS, st.sampled_from(("host", "card, in step with its host", "card, behind its host")))
def test_every_moment_belongs_to_one_phase(program: list[Block], where: str) -> None:
    first = Block("step", 1.0, [], 0.0)  # everything before it is start-up
    with TemporaryDirectory() as folder, hands_of_a_clock(card=where != "host") as (hands, card):

        def work(ms: float) -> None:
            card.work(ms)
            if where != "card, behind its host":
                hands.work(ms)

        clock = Clock(folder)
        play(clock, [first, *program], work)
        clock.close()
        ledger = ledger_of(Path(folder))
    found: defaultdict[str, float] = defaultdict(float)
    steps = [event.ms for event in ledger.events if isinstance(event, StepEvent)]
    for event in ledger.events:
        if isinstance(event, EvalEvent):
            found["evaluation"] += event.ms or 0.0
        elif isinstance(event, CheckpointEvent):
            found["checkpoint"] += event.stall_ms or 0.0
        elif isinstance(event, CompileEvent):
            found["compile"] += event.ms
        elif isinstance(event, SpanEvent):
            found[event.phase] += event.ms
    parts = found.pop("step", 0.0) + found.pop("data", 0.0) + found.pop("optimizer", 0.0)
    of_steps, of_others = expected([first, *program])
    assert ledger.damaged == 0
    assert steps == pytest.approx(of_steps, abs=1e-3)
    assert parts == pytest.approx(sum(steps), abs=1e-2)
    assert {kind: ms for kind, ms in found.items() if ms > 1e-3} == pytest.approx(of_others, abs=1e-2)
    [end] = [event for event in ledger.events if isinstance(event, EndEvent)]
    assert end.wall_ms == pytest.approx(sum(steps) + sum(found.values()), abs=2.0)  # the end is found to 1 ms
    assert card.synchronized <= 1


def test_what_a_phase_inside_another_costs() -> None:
    with TemporaryDirectory() as folder, hands_of_a_clock() as (hands, _):
        clock = Clock(folder)
        hands.work(100)  # start-up
        with clock.data():
            hands.work(3)
        with clock.step(0) as step:
            hands.work(10)
            with clock.data():
                hands.work(2)
            with clock.evaluation() as evaluation:
                hands.work(50)
                with clock.data(), clock.step(7):
                    hands.work(5)
            with clock.phase("optimizer"):
                hands.work(1)
            step.loss = 6.5
        step.loss, evaluation.val = 4.5, 4.0  # in time, before the next phase
        hands.work(20)
        clock.close()
        events = [event for event in ledger_of(Path(folder)).events if not isinstance(event, EndEvent)][1:]
    said = {
        getattr(event, "phase", event.name): (event.ms, getattr(event, "loss", None) or getattr(event, "val", None))
        for event in events
        if isinstance(event, (StepEvent, EvalEvent, SpanEvent)) and event.ms is not None
    }
    assert said == {
        "eval": (pytest.approx(55), None),  # its loss came after the end of the step around it: too late
        "step": (pytest.approx(10), None),
        "data": (pytest.approx(5), None),
        "optimizer": (pytest.approx(1), None),
        "startup": (pytest.approx(100), None),
        "other": (pytest.approx(20), None),
    }
    [step_event] = [event for event in events if isinstance(event, StepEvent)]
    assert (step_event.iteration, step_event.ms, step_event.loss) == (0, pytest.approx(16), 4.5)


@given(
    st.integers(0, 2**40),
    st.floats(0, 1e9),
    st.dictionaries(st.sampled_from(("loss", "lr", "grad_norm", "tokens")), st.floats()),
)
def test_the_quick_line_of_a_step_is_the_codecs(iteration: int, ms: float, taken: dict[str, float]) -> None:
    step = Step(None)  # type: ignore[arg-type]
    step.iteration, step.ms, step.taken = iteration, ms, dict(taken)
    line = step.line(12.5)
    assert (line if isinstance(line, str) else to_json(line)) == to_json(step.event(12.5))


def test_a_captured_graph_is_left_alone(tmp_path: Path) -> None:
    with hands_of_a_clock(card=True) as (hands, card):
        clock = Clock(tmp_path)
        for _ in range(2):
            with clock.step():
                card.capturing = True
                with clock.data():
                    hands.work(5)
                for _ in range(2):
                    with clock.evaluation():
                        pass
                card.capturing = False
                hands.work(5)
        clock.close()
    events = ledger_of(tmp_path).events
    assert [event.ms for event in events if isinstance(event, StepEvent)] == pytest.approx([10, 10])
    assert len([event for event in events if isinstance(event, EvalEvent)]) == 4


def test_a_cards_timer_that_cannot_be_believed(tmp_path: Path) -> None:
    with hands_of_a_clock(card=True) as (hands, card):
        clock = Clock(tmp_path)
        for i in range(4):
            with clock.step():
                hands.work(10)
                if i == 2:
                    card.busy_until = hands.now + 3600  # an hour ahead, although the host saw milliseconds
                    event_at = hands.now
            card.busy_until = 0.0
            for mark in clock._timeline._marks:  # type: ignore[union-attr]
                mark.event.query = lambda: True
        clock.close()
        assert event_at < hands.now
    steps = [event.ms for event in ledger_of(tmp_path).events if isinstance(event, StepEvent)]
    assert len(steps) == 4
    assert max(steps) < 60
