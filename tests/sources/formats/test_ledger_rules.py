"""Single events of a ledger, at the edges of what counts."""

from __future__ import annotations

import math

import pytest

from nanopace.incidents import MicroBatch, RankLag
from nanopace.ledger import (
    EndEvent,
    EvalEvent,
    Event,
    GpuEvent,
    NoteEvent,
    ResumeEvent,
    SpanEvent,
    StallEvent,
    StepEvent,
)
from nanopace.ledger.events import CompileEvent, MicroBatchEvent
from nanopace.run import Fact, Run, Span

from ..ledgers import run_event, runs_of, steps


def run_of(*events: Event, **run: object) -> Run:
    (found,) = runs_of([run_event(**run), *events])
    return found


@pytest.mark.parametrize(("ms", "rows"), [(1e-6, 3), (0.9e-6, 2), (0.0, 2)])
def test_a_step_of_a_nanosecond_is_the_shortest(ms: float, rows: int) -> None:
    assert len(run_of(*steps(0, 2), StepEvent(2, ms)).rows) == rows


@pytest.mark.parametrize(
    ("version", "watched"),
    [("1.0", False), ("1.1", False), ("1.2", True), ("1.3", True), ("1.10", True), ("1", False), ("1.x", False)],
)
def test_since_1_2_the_trainer_reports_every_spike(version: str, watched: bool) -> None:
    assert run_of(*steps(0, 2), ledger=version).spikes == (() if watched else None)


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        *(("parameters", 0, False), ("parameters", 1, True), ("flops_per_token", -1.0, False)),
        *(("gpu_count", 0, False), ("gpu_count", 1, True), ("gpu", "NVIDIA L4", True), ("corpus", "abc", True)),
        *(("world_size", 1, False), ("world_size", 2, True), ("tokens_per_iteration", 0, False)),
    ],
)
def test_facts_of_the_run_event(name: str, value: object, known: bool) -> None:
    assert run_of(*steps(0, 2), **{name: value}).value(name) == (value if known else None)


def test_a_config_is_read_as_its_knobs_are() -> None:
    run = run_of(*steps(0, 2), config={"batch_size": 8, "n_layer": "many", "dropout": 0, "weird": 3})
    assert {name: fact.value for name, fact in run.facts.items()} == {"batch_size": 8, "dropout": 0.0, "weird": 3}


def test_the_first_step_that_has_tokens_gives_those_of_the_run() -> None:
    events = [StepEvent(0, 1.0), StepEvent(1, 1.0, tokens=100), StepEvent(2, 1.0, tokens=200)]
    assert run_of(*events).facts["tokens_per_iteration"] == Fact(100, "log")
    assert run_of(*events, tokens_per_iteration=300).value("tokens_per_iteration") == 300


@pytest.mark.parametrize(
    ("step", "loss", "skipped"),
    [
        (StepEvent(2, 1.0, math.nan), math.inf, False),
        (StepEvent(2, 1.0, math.nan, skipped=True), None, True),  # no weight changed
        (StepEvent(2, 1.0, 5.0, skipped=True), 5.0, True),
    ],
)
def test_a_loss_that_is_not_finite(step: StepEvent, loss: float | None, skipped: bool) -> None:
    run = run_of(*steps(0, 2), step)
    assert run.rows[2].loss == loss
    assert run.skipped == ((2,) if skipped else ())


@pytest.mark.parametrize(("spike", "found"), [(7.0, [2]), (math.nan, []), (math.inf, []), (None, [])])
def test_a_spike_has_a_size(spike: float | None, found: list[int]) -> None:
    run = run_of(*steps(0, 2), StepEvent(2, 1.0, 9.0, spike=spike))
    assert [each.iteration for each in run.spikes or ()] == found


def test_words_of_a_later_version() -> None:
    run = run_of(
        SpanEvent("startup", 0, 1.0),
        SpanEvent("dreaming", 0, 2.0, background=True),
        CompileEvent(iteration=0, ms=3.0),
        StallEvent(0, 4.0, "data"),
        StallEvent(0, 5.0, "boredom"),
        EvalEvent(0, val=0.3, metric="hellaswag", ms=6.0),
        *steps(0, 2),
    )
    assert run.evaluations == ()
    assert run.spans == (
        Span("startup", 0, 1.0),
        Span("other", 0, 2.0, background=True),
        Span("compile", 0, 3.0),
        Span("stall", 0, 4.0, reason="data"),
        Span("stall", 0, 5.0, reason="unknown"),
        Span("evaluation", 0, 6.0),
    )
    assert run_of(*steps(0, 2), EndEvent("bored", 9.0)).ending is None


@pytest.mark.parametrize(
    ("event", "change", "batch_size", "accumulation"),
    [
        (MicroBatchEvent(1, 4, 16, "step"), MicroBatch(1, 4, 16, "step", 8), 4, 16),
        (MicroBatchEvent(1, 4, 16, "startup"), MicroBatch(1, 4, 16, "startup", 8), 4, 16),
        (MicroBatchEvent(1, 4, 16, "evaluation"), MicroBatch(1, 4, 16, "evaluation", None), 8, None),
        (MicroBatchEvent(1, 4, 16, "elsewhere"), MicroBatch(1, 4, 16, "step", 8), 4, 16),
        (MicroBatchEvent(1, 0, 16), None, 8, None),
        (MicroBatchEvent(1, 4, 0), None, 8, None),
    ],
)
def test_a_smaller_micro_batch(
    event: MicroBatchEvent, change: MicroBatch | None, batch_size: int, accumulation: int | None
) -> None:
    run = run_of(*steps(0, 1), event, *steps(1, 3), config={"batch_size": 8})
    assert run.micro_batches == (() if change is None else (change,))
    assert (run.value("batch_size"), run.value("gradient_accumulation_steps")) == (batch_size, accumulation)


def test_the_second_reduction_has_the_first_before_it() -> None:
    events = (MicroBatchEvent(1, 4, 16), MicroBatchEvent(1, 6, 1, "evaluation"), MicroBatchEvent(2, 2, 32))
    run = run_of(*steps(0, 1), *events, MicroBatchEvent(2, 3, 1, "evaluation"), *steps(1, 3), config={"batch_size": 8})
    assert [each.before for each in run.micro_batches] == [8, None, 4, 6]


def test_the_clock_of_a_process_is_its_last_event_or_its_end() -> None:
    killed = run_of(*steps(0, 2))
    assert (killed.wall_ms, killed.ending) == (200.0, None)
    assert run_of(*steps(0, 2), NoteEvent("x", at_ms=150.0)).wall_ms == 200.0  # it does not go back
    assert run_of(*steps(0, 2), NoteEvent("x", at_ms=300.0)).wall_ms == 300.0
    assert run_of(*steps(0, 2), EndEvent("finished", 250.0, at_ms=300.0)).wall_ms == 250.0
    assert run_of(StepEvent(0, 1.0), at_ms=None).wall_ms is None


def lag(rank: int, lag: float | None, iteration: int = 0) -> StepEvent:
    return StepEvent(iteration, 1.0, slowest_rank=rank, lag=lag)


def test_the_lags_of_the_slowest_ranks() -> None:
    events = [lag(1, 0.1, 0), lag(2, 0.4, 1), lag(1, 0.3, 2), lag(0, None, 3), lag(1, 0.2, 4), lag(0, math.nan, 5)]
    run = run_of(*events, world_size=3)
    assert run.rank_lags == (RankLag(1, 3, 0.2), RankLag(0, 2, None), RankLag(2, 1, 0.4))
    two = run_of(lag(1, 0.1, 0), lag(1, 0.3, 1))
    assert two.rank_lags == (RankLag(1, 2, 0.3),)


@pytest.mark.parametrize(("world_size", "count"), [(3, 3), (2, 1)])
def test_ranks_of_another_number_of_processes_are_others(world_size: int, count: int) -> None:
    first = [run_event(world_size=3), lag(1, 0.1, 0), lag(1, 0.1, 1)]
    (run,) = runs_of([*first, run_event(world_size=world_size), ResumeEvent(2), lag(1, 0.5, 2)])
    assert [each.steps for each in run.rank_lags] == [count]


@pytest.mark.parametrize(
    ("samples", "kwh"),
    [
        ([(0, 360.0), (10_000, 360.0)], 0.001),
        ([(0, 0.0), (10_000, 720.0)], 0.001),  # the mean of both ends
        ([(0, 360.0), (10_000, 360.0), (5_000, 360.0)], 0.001),  # a clock that goes back takes nothing away
        ([(0, 360.0), (None, 360.0)], None),
        ([(0, None), (10_000, 360.0)], None),
        ([(0, math.nan), (10_000, 360.0)], None),
        ([(0, 360.0)], None),
    ],
)
def test_energy_by_samples(samples: list[tuple[int | None, float | None]], kwh: float | None) -> None:
    run = run_of(*steps(0, 2), *(GpuEvent(0, watts=watts, at_ms=at) for at, watts in samples))
    assert run.gpu_use is not None
    assert run.gpu_use.energy_kwh == (None if kwh is None else pytest.approx(kwh))
