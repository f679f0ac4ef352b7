"""Our own ledger becomes a Run: rows contain only steps, everything else has its measured time."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from pathlib import Path

import pytest

from nanopace.errors import InputError
from nanopace.incidents import LossSpike, MicroBatch, Note
from nanopace.ledger import (
    CheckpointEvent,
    CompileEvent,
    EndEvent,
    EvalEvent,
    ResumeEvent,
    SampleEvent,
    SpanEvent,
    StallEvent,
    StepEvent,
    read_ledger,
)
from nanopace.ledger.codec import to_json
from nanopace.ledger.events import EVENTS
from nanopace.run import Checkpoint, Evaluation, Fact, GpuUse, Sample, Span
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.table import LEDGER

from ..ledgers import DOCUMENT, documented_example, run_event, runs_from, runs_of, steps
from ..reading import detected, read_one

VERSION_1_0 = Path(__file__).parent / "ledger-1.0.jsonl"


@pytest.fixture(scope="module")
def example() -> list[str]:
    return documented_example()


def test_the_example_of_the_documentation_has_every_event_and_no_damage(example: list[str]) -> None:
    ledger = read_ledger(example)
    assert {event.name for event in ledger.events} == set(EVENTS)
    assert len(ledger.events) == len(example)
    assert ledger.damaged == ledger.unknown == 0
    assert all("at_ms" in line for line in example)


def test_of_a_long_sample_the_beginning_is_kept() -> None:
    (run,) = runs_of([run_event(), *steps(0, 3), SampleEvent(3, "ab" * 5000)])
    assert run.samples == (Sample(3, "ab" * 1000),)


def test_the_example_of_the_documentation_is_the_run_that_it_tells_of(example: list[str]) -> None:
    assert detected(example) == "ledger"
    builder = RunBuilder("run.jsonl")
    reader = LEDGER.open_reader(builder)
    assert all(reader.feed(line) for line in example)
    reader.finish()
    (run,) = builder.finish()
    assert run.format == "ledger"
    assert run.row_contains_evaluation is False
    assert run.mfu_smoothing is None
    assert [row.iteration for row in run.rows] == [0, 1, 2, 3, 4, 5]
    assert [row.ms for row in run.rows] == [9346.1, 9344.7, 9345.3, 9345.1, 9346.7, 9345.8]
    assert [each.ms for each in run.evaluations] == [6480.0, 6475.0, 6470.0]
    assert run.checkpoints[0] == Checkpoint(3, "out/ckpt-3.pt", ms=18.2, background_ms=1350.0)
    assert [(each.iteration, each.reached, len(each.lost)) for each in run.restarts] == [(3, 4, 2)]
    assert [(each.iteration, each.failed_at, each.row, len(each.lost)) for each in run.rollbacks] == [(3, 5, 3, 3)]
    assert Span("stall", 4, 2750.0, reason="data") in run.spans
    assert Span("stall", 5, 3_600_000.0, reason="suspend") in run.spans
    assert run.skipped == (5,)
    assert run.spikes == (LossSpike(5, 8.3, 10.6993),)
    assert run.micro_batches == (MicroBatch(0, 8, 64, "startup", 16),)
    assert run.notes == (Note(0, "the disk is slow: checkpoints take longer than the steps between them"),)
    assert run.samples == (Sample(3, " the of the, and"),)
    assert Span("other", 3, 327.7) in run.spans
    assert run.wall_ms == pytest.approx(86074.8 + 3_677_210)
    assert run.ending == "finished"
    assert run.facts["gpu"] == Fact("NVIDIA GeForce RTX 4070", "log")
    assert run.facts["tokens_per_iteration"] == Fact(524288, "log")
    assert run.facts["batch_size"] == Fact(8, "log")  # and not the 16 of the config, which the second process has, too
    assert run.facts["gradient_accumulation_steps"] == Fact(64, "log")
    assert "world_size" not in run.facts  # of one process there is nothing to say
    assert run.facts["corpus"] == Fact("b41c6f0e", "log")
    assert [each.val_error for each in run.evaluations] == [0.0021, 0.0024, 0.0026]
    assert [each.train_steps for each in run.evaluations] == [None, 3, 3]
    assert run.gpu_use == GpuUse(
        samples=2,
        sm_mhz=2490,
        memory_mhz=10251,
        watts=198.4,
        celsius=69,
        utilization=1.0,
        memory_used_gb=10.4,
        throttled={"power_cap": 0.5},
        energy_kwh=None,  # the first process was killed after a single sample
        training_samples=2,
        at_power_limit=1,
        limited_mhz=2475,
        limited_watts=198.4,
    )


def test_a_ledger_of_version_1_0_is_still_the_run_that_it_was() -> None:
    """Recorded when that was the current version."""
    lines = VERSION_1_0.read_text().splitlines()
    assert read_ledger(lines).damaged == read_ledger(lines).unknown == 0
    (run,) = runs_from(lines)
    assert [row.ms for row in run.rows] == [9346.1, 9344.7, 9345.3, 9346.4, 9345.2, 9345.8]
    assert run.evaluations[1] == Evaluation(3, 9.4021, 9.4107, ms=6475.0)
    assert run.checkpoints[1] == Checkpoint(6, "out/ckpt-6.pt", ms=1490.0)
    assert run.wall_ms == pytest.approx(86074.8 + 47520)
    assert run.gpu_use is None
    assert run.ending == "finished"


def test_every_key_of_every_event_is_documented() -> None:
    text = DOCUMENT.read_text("utf-8")
    for name, kind in EVENTS.items():
        section = text.partition(f"\n### {name}\n")[2].partition("\n##")[0]
        listed = {
            key.strip(" *")
            for cell in re.findall(r"^\| ([\w*, ]+) \|", section, re.MULTILINE)
            for key in cell.split(",")
        }
        assert {entry.name for entry in fields(kind)} - {"at_ms"} == listed - {"key"}, name


def test_a_run_without_interruption() -> None:
    events = [
        run_event(config={"n_layer": 6, "compile": True}, parameters=1000, gpu_count=2),
        SpanEvent("startup", 0, 900.0),
        CompileEvent(7000.0, "model"),
        EvalEvent(0, 5.1, 5.2, ms=300.0),
        *steps(0, 3, 9000.0),
        SpanEvent("data", 2, 1.0, background=True),
        EvalEvent(3, None, 0.9, metric="bpb", ms=310.0),
        CheckpointEvent(3, "a.pt", 5.0, 50.0, 10),
        StallEvent(3, 800.0, "gc"),
        EndEvent("finished", 12_345.0, at_ms=12_000.0),
    ]
    (run,) = runs_of(events)
    assert run.evaluations == (
        Evaluation(0, 5.1, 5.2, ms=300.0),
        Evaluation(3, None, 0.9, metric="bpb", ms=310.0),
    )
    assert run.checkpoints == (Checkpoint(3, "a.pt", ms=5.0, background_ms=50.0),)
    assert run.spans == (
        Span("startup", 0, 900.0),
        Span("compile", 0, 7000.0),
        Span("data", 2, 1.0, background=True),
        Span("stall", 3, 800.0, reason="gc"),
    )
    assert run.wall_ms == 12_345.0
    assert run.restarts == ()
    assert {name: fact.value for name, fact in run.facts.items()} == {
        "n_layer": 6,
        "compile": True,
        "parameters": 1000,
        "gpu_count": 2,
    }


def test_a_resumed_run_is_one_run_whose_processes_add_up() -> None:
    events = [
        run_event(config={"max_iters": 5}),
        *steps(0, 4),
        CheckpointEvent(3, "c.pt", 1.0),
        run_event(config={"max_iters": 9}),
        ResumeEvent(3, "c.pt", 1, at_ms=20.0),
        *steps(3, 8, 50.0),
        EndEvent("interrupted", 1000.0),
    ]
    (run,) = runs_of(events)
    assert [row.iteration for row in run.rows] == list(range(8))
    (restart,) = run.restarts
    assert (restart.row, restart.iteration, restart.reached) == (3, 3, 3)
    assert [row.iteration for row in restart.lost] == [3]
    assert [each.iteration for each in run.checkpoints] == [3]  # the one it resumed from was really written
    assert run.wall_ms == 400.0 + 1000.0
    assert run.ending == "interrupted"
    assert run.value("max_iters") == 9


def test_a_process_that_resumed_and_died_before_its_first_step_still_took_its_time() -> None:
    (run,) = runs_of(
        [run_event(), *steps(0, 4), run_event(), ResumeEvent(4, at_ms=70.0), run_event(), ResumeEvent(4), *steps(4, 6)]
    )
    assert run.wall_ms == 400.0 + 70.0 + 200.0
    assert len(run.restarts) == 1


def test_a_first_attempt_that_came_to_nothing_is_not_part_of_the_run() -> None:
    (run,) = runs_of([run_event(), EndEvent("out_of_memory", 5000.0), run_event(), *steps(0, 3)])
    assert run.wall_ms == 300.0
    assert run.ending is None


def test_a_run_event_without_a_resume_begins_another_run() -> None:
    narrow = [run_event(config={"n_embd": 384}), *steps(0, 4), EndEvent("finished", 900.0)]
    wide = [run_event(config={"n_embd": 768}), *steps(0, 3), EndEvent("error", 800.0)]
    first, second = runs_of([*narrow, *wide])
    assert (first.value("n_embd"), first.wall_ms, first.ending) == (384, 900.0, "finished")
    assert (second.value("n_embd"), second.wall_ms, second.ending) == (768, 800.0, "error")
    assert len(first.rows) == 4
    assert len(second.rows) == 3


def test_a_diverged_loss_is_infinite_and_not_unknown() -> None:
    (run,) = runs_of(
        [run_event(), StepEvent(0, 5.0, loss=math.nan), EvalEvent(1, math.inf, math.nan), StepEvent(1, 5.0)]
    )
    assert run.rows[0].loss == math.inf
    assert run.rows[1].loss is None
    assert (run.evaluations[0].train, run.evaluations[0].val) == (math.inf, math.inf)


def test_damage_costs_only_what_is_damaged() -> None:
    lines = [to_json(event) for event in (run_event(), *steps(0, 6))]
    lines[3] = lines[3][:30]
    lines.insert(5, "\0\0 warning \0")
    (run,) = runs_from(lines)
    assert [row.iteration for row in run.rows] == [0, 1, 3, 4, 5]


def test_a_cut_last_line_is_taken_if_its_brace_is_there() -> None:
    builder = RunBuilder("run.jsonl")
    reader = LEDGER.open_reader(builder)
    reader.feed(to_json(run_event()))
    reader.feed(to_json(StepEvent(0, 5.0)))
    assert reader.feed_cut(to_json(StepEvent(1, 5.0))) is True
    assert reader.feed_cut(to_json(StepEvent(2, 5.0))[:-1]) is False
    (run,) = builder.finish()
    assert len(run.rows) == 2


def test_a_newer_major_version_is_refused() -> None:
    with pytest.raises(InputError, match="update nanopace"):
        runs_from(['{"event":"run","ledger":"7.1","started":"s","nanopace":"9"}'])


def test_an_error_that_is_no_number_is_unknown() -> None:
    (run,) = runs_of([run_event(), EvalEvent(0, val=3.0, val_error=math.nan), *steps(0, 3)])
    assert run.evaluations[0].val_error is None


def test_the_measured_peak_is_that_of_the_card_on_which_a_run_went_on() -> None:
    first, more = run_event(measured_tflops=790.0), [ResumeEvent(3), *steps(3, 6)]
    (run,) = runs_of([first, *steps(0, 3), run_event(measured_tflops=300.0), *more])
    assert run.number("measured_tflops") == 300.0
    (run,) = runs_of([first, *steps(0, 3), run_event(gpu="another, which nobody measured"), *more])
    assert run.number("measured_tflops") is None


def test_a_step_that_took_ages_is_damaged() -> None:
    lines = ['{"event":"run","ledger":"1.3","started":"","nanopace":"0","config":{}}']
    lines += [f'{{"event":"step","iteration":{n},"ms":{ms}}}' for n, ms in enumerate((1e308, 5.0, 1e16, 1e308))]
    run = read_one("\n".join(lines))
    assert list(run.rows.ms) == [5.0]
