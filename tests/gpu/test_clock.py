"""The clock in a user's loop on a card: times are the card's, and nothing waits for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from nanopace import Clock, diagnose, open_run
from nanopace.ledger import EvalEvent, RunEvent, StepEvent

from ..clock.hands import ledger_of

pytestmark = pytest.mark.gpu
CYCLES = 20_000_000  # about ten milliseconds on a card


@contextmanager
def without_waiting() -> Iterator[None]:
    """Inside this context, waiting for the card is an error."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def card_ms(cycles: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(cycles)
    begin.record()
    torch.cuda._sleep(cycles)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def test_the_time_of_a_step_is_the_cards(tmp_path: Path) -> None:
    expected = card_ms(CYCLES)
    loss = torch.zeros((), device="cuda")
    loss += 1  # CUDA loads a kernel when it is first used, which takes longer than a step here
    loss.div(2)
    loss.zero_()
    began = time.perf_counter()
    with Clock(tmp_path) as clock:
        with clock.step():  # the first one waits for the card, once
            torch.cuda._sleep(CYCLES)
        with without_waiting():
            launched = time.perf_counter()
            for _ in range(20):
                with clock.data():
                    pass
                with clock.step() as step:
                    torch.cuda._sleep(CYCLES)
                    loss += 1
                    step.loss = loss  # which the next step changes
            launched = time.perf_counter() - launched
            with clock.evaluation() as evaluation:
                torch.cuda._sleep(3 * CYCLES)
                evaluation.val = loss / 2
    took = time.perf_counter() - began
    events = ledger_of(tmp_path).events
    steps = [event for event in events if isinstance(event, StepEvent)]
    assert len(steps) == 21
    assert launched * 1000 < 10 * expected  # the host was ahead of the card
    assert [event.ms for event in steps] == pytest.approx([expected] * 21, rel=0.3)
    assert [event.loss for event in steps[1:]] == list(range(1, 21))
    [evaluated] = [event for event in events if isinstance(event, EvalEvent)]
    assert (evaluated.ms, evaluated.val) == (pytest.approx(3 * expected, rel=0.3), 10.0)
    run = events[0]
    assert isinstance(run, RunEvent)
    assert run.gpu == torch.cuda.get_device_name()
    assert run.gpu_sms == torch.cuda.get_device_properties(0).multi_processor_count
    wall = diagnose(open_run(tmp_path / "ledger.jsonl")).wall
    assert wall.total_s >= took - 0.1
    assert wall.unknown_s == pytest.approx(0, abs=0.02 * wall.total_s)


def test_a_graph_can_be_captured_and_replayed_inside(tmp_path: Path) -> None:
    x = torch.ones(1000, device="cuda")
    y = torch.zeros((), device="cuda")
    with Clock(tmp_path) as clock:
        for i in range(6):
            with clock.step() as step:
                y += 0 * x.sum()  # a captured operation must have run before
                if i == 2:
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph), clock.data(), clock.phase("optimizer"):
                        y += x.sum()
                if i >= 2:
                    graph.replay()
                step.loss = y
    assert [event.loss for event in ledger_of(tmp_path).events if isinstance(event, StepEvent)] == [
        *(0, 0, 1000, 2000, 3000, 4000)
    ]


def test_the_first_value_may_come_from_inference_mode(tmp_path: Path) -> None:
    with Clock(tmp_path) as clock:
        with clock.step():
            pass
        with torch.inference_mode(), clock.evaluation() as evaluation:
            evaluation.val = torch.full((), 3.5, device="cuda", dtype=torch.bfloat16)
        with clock.step() as step:
            step.loss = torch.full((1,), 2.5, device="cuda", requires_grad=True)
    events = ledger_of(tmp_path).events
    assert [event.val for event in events if isinstance(event, EvalEvent)] == [3.5]
    assert [event.loss for event in events if isinstance(event, StepEvent)] == [None, 2.5]
