"""Our own ledger becomes a Run: steps alone in the rows, everything else with the time that was measured."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest

from nanopace.errors import InputError
from nanopace.incidents import LossSpike, MicroBatch, Note, RankLag
from nanopace.ledger import (
    CheckpointEvent,
    CompileEvent,
    EndEvent,
    EvalEvent,
    Event,
    GpuEvent,
    MicroBatchEvent,
    NoteEvent,
    ResumeEvent,
    RollbackEvent,
    RunEvent,
    SpanEvent,
    StallEvent,
    StepEvent,
    codec,
    read_ledger,
)
from nanopace.ledger.codec import to_json
from nanopace.ledger.events import EVENTS
from nanopace.run import Checkpoint, Evaluation, Fact, GpuUse, Run, Span
from nanopace.sources.build import RunBuilder
from nanopace.sources.detect import detect, reader_for
from nanopace.sources.from_ledger import LedgerReader

VERSION_1_0 = Path(__file__).parent / "ledger-1.0.jsonl"
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "ledger-format.md"


def runs_of(events: Iterable[Event]) -> list[Run]:
    return runs_from([to_json(event) for event in events])


def runs_from(lines: Iterable[str]) -> list[Run]:
    builder = RunBuilder("run.jsonl")
    reader = LedgerReader(builder)
    for line in lines:
        reader.feed(line)
    reader.finish()
    return builder.finish()


def run_event(at_ms: float = 0.0, **values: object) -> RunEvent:
    return RunEvent("2026-01-01T00:00:00+00:00", "0.1.0", at_ms=at_ms, **values)  # type: ignore[arg-type]


def steps(first: int, last: int, at_ms: float = 0.0) -> list[Event]:
    return [
        StepEvent(i, 100.0 + i, loss=5.0 - i / 10, at_ms=at_ms + 100.0 * (i - first + 1)) for i in range(first, last)
    ]


@pytest.fixture(scope="module")
def example() -> list[str]:
    """The ledger that the documentation shows."""
    found = re.search(r"```json\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert found
    return found[1].splitlines()


def test_the_example_of_the_documentation_has_every_event_and_no_damage(example: list[str]) -> None:
    ledger = read_ledger(example)
    assert {event.name for event in ledger.events} == set(EVENTS)
    assert len(ledger.events) == len(example)
    assert ledger.damaged == ledger.unknown == 0
    assert all("at_ms" in line for line in example)


def test_the_example_of_the_documentation_is_the_run_that_it_tells_of(example: list[str]) -> None:
    assert detect(example) == "ledger"
    builder = RunBuilder("run.jsonl")
    reader = reader_for("ledger", builder)
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
    )


def test_a_ledger_of_version_1_0_is_still_the_run_that_it_was() -> None:
    """Written down when that was the version."""
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


def test_a_killed_run_has_the_time_of_its_last_event() -> None:
    (run,) = runs_of([run_event(), *steps(0, 5)])
    assert run.wall_ms == 500.0
    assert run.ending is None


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
    assert [each.iteration for each in run.checkpoints] == [3]  # the one that it went on from was really written
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


def test_what_a_later_version_measures_keeps_its_time() -> None:
    events = [
        run_event(),
        EvalEvent(0, val=0.3, metric="hellaswag", ms=70.0),
        SpanEvent("teleport", 0, 5.0),
        *steps(0, 2),
        EndEvent("abducted"),
    ]
    (run,) = runs_of(events)
    assert run.evaluations == ()
    assert run.spans == (Span("evaluation", 0, 70.0), Span("other", 0, 5.0))
    assert run.ending is None


def test_the_tokens_of_the_steps_stand_in_for_those_of_the_run() -> None:
    (run,) = runs_of([run_event(), StepEvent(0, 5.0, tokens=4096), StepEvent(1, 5.0, tokens=8192)])
    assert run.facts["tokens_per_iteration"] == Fact(4096, "log")


def test_a_diverged_loss_is_infinite_and_not_unknown() -> None:
    (run,) = runs_of(
        [run_event(), StepEvent(0, 5.0, loss=math.nan), EvalEvent(1, math.inf, math.nan), StepEvent(1, 5.0)]
    )
    assert run.rows[0].loss == math.inf
    assert run.rows[1].loss is None
    assert (run.evaluations[0].train, run.evaluations[0].val) == (math.inf, math.inf)


def test_a_step_without_time_is_no_row() -> None:
    (run,) = runs_of([run_event(), StepEvent(0, 0.0), StepEvent(1, 5.0)])
    assert [row.iteration for row in run.rows] == [1]


def test_damage_costs_only_what_is_damaged() -> None:
    lines = [to_json(event) for event in (run_event(), *steps(0, 6))]
    lines[3] = lines[3][:30]
    lines.insert(5, "\0\0 warning \0")
    (run,) = runs_from(lines)
    assert [row.iteration for row in run.rows] == [0, 1, 3, 4, 5]


def test_a_cut_last_line_is_taken_if_its_brace_is_there() -> None:
    builder = RunBuilder("run.jsonl")
    reader = LedgerReader(builder)
    reader.feed(to_json(run_event()))
    reader.feed(to_json(StepEvent(0, 5.0)))
    assert reader.feed_cut(to_json(StepEvent(1, 5.0))) is True
    assert reader.feed_cut(to_json(StepEvent(2, 5.0))[:-1]) is False
    (run,) = builder.finish()
    assert len(run.rows) == 2


def test_a_newer_major_version_is_refused() -> None:
    with pytest.raises(InputError, match="update nanopace"):
        runs_from(['{"event":"run","ledger":"7.1","started":"s","nanopace":"9"}'])


# --- the card's sensors ----------------------------------------------------------------------------------------------


def gpu(at_s: float, watts: float | None = 360.0, **values: object) -> GpuEvent:
    return GpuEvent(0, watts=watts, at_ms=1000 * at_s, **values)  # type: ignore[arg-type]


def test_medians_extremes_and_shares_of_the_samples() -> None:
    samples = [
        gpu(1, 300.0, sm_mhz=1900, memory_mhz=3000, celsius=60, utilization=0.5, memory_used_gb=1.0),
        gpu(2, 500.0, sm_mhz=1700, celsius=80, utilization=0.9, memory_used_gb=9.0, throttle="power_cap,thermal"),
        gpu(3, 400.0, sm_mhz=1800, celsius=70, utilization=1.0, memory_used_gb=5.0, throttle=" power_cap, "),
        gpu(4, None, celsius=math.nan),
    ]
    (run,) = runs_of([run_event(), *steps(0, 3), *samples, EndEvent("finished", 5000.0, energy_kwh=0.25)])
    assert run.gpu_use == GpuUse(
        samples=4,
        sm_mhz=1800,
        memory_mhz=3000,
        watts=400.0,
        celsius=80,
        utilization=0.9,
        memory_used_gb=9.0,
        throttled={"power_cap": 0.5, "thermal": 0.25},
        energy_kwh=0.25,
    )


def test_a_run_that_asked_no_sensor_knows_nothing_of_them() -> None:
    (run,) = runs_of([run_event(), NoteEvent("no card"), *steps(0, 3), EndEvent("finished", 5000.0)])
    assert run.gpu_use is None


def test_the_energy_of_processes_adds_up_and_a_killed_one_has_that_of_its_samples() -> None:
    events = [
        run_event(),
        *steps(0, 3),
        *(gpu(at, 360.0) for at in range(0, 101, 5)),  # 36 kJ are 0.01 kWh
        run_event(),
        ResumeEvent(3),
        *steps(3, 5),
        gpu(5, 360.0),
        EndEvent("finished", 9000.0, energy_kwh=0.5),
    ]
    (run,) = runs_of(events)
    assert run.gpu_use is not None
    assert run.gpu_use.energy_kwh == pytest.approx(0.51)
    assert run.gpu_use.samples == 22


@pytest.mark.parametrize("samples", [[], [gpu(5)], [gpu(5, None), gpu(10, None)], [gpu(5, math.inf), gpu(9)]])
def test_energy_that_one_process_did_not_tell_is_unknown(samples: list[Event]) -> None:
    first = [run_event(), *steps(0, 3), EndEvent("interrupted", 9000.0, energy_kwh=0.5)]
    (run,) = runs_of([*first, run_event(), ResumeEvent(3), *steps(3, 5), *samples])
    assert run.gpu_use is None or run.gpu_use.energy_kwh is None


def test_energy_that_is_no_number_is_that_of_the_samples() -> None:
    end = EndEvent("finished", 9000.0, energy_kwh=math.nan)
    (run,) = runs_of([run_event(), *steps(0, 3), gpu(0), gpu(10), end])
    assert run.gpu_use is not None
    assert run.gpu_use.energy_kwh == pytest.approx(0.001)


def test_another_run_in_the_same_ledger_has_its_own_card() -> None:
    first = [run_event(), *steps(0, 3), gpu(1, celsius=90), EndEvent("finished", 900.0, energy_kwh=1.0)]
    failed = [run_event(), gpu(1, celsius=99), EndEvent("out_of_memory", 900.0, energy_kwh=7.0)]
    second = [run_event(), gpu(1, celsius=50), *steps(0, 3), EndEvent("finished", 900.0, energy_kwh=2.0)]
    one, two = runs_of([*first, *failed, *second])
    assert one.gpu_use is not None
    assert two.gpu_use is not None
    assert (one.gpu_use.celsius, one.gpu_use.energy_kwh, one.gpu_use.samples) == (90, 1.0, 1)
    assert (two.gpu_use.celsius, two.gpu_use.energy_kwh, two.gpu_use.samples) == (50, 2.0, 1)


def test_an_error_that_is_no_number_is_unknown() -> None:
    (run,) = runs_of([run_event(), EvalEvent(0, val=3.0, val_error=math.nan), *steps(0, 3)])
    assert run.evaluations[0].val_error is None


# --- what a run survives ---------------------------------------------------------------------------------------------

OF_1_2 = {"micro_batch", "rollback"}
KEYS_OF_1_2 = {"skipped", "spike", "slowest_rank", "lag"}


def test_a_reader_of_1_1_skips_what_1_2_added(example: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The promise behind a minor version, kept with the tables that such a reader had."""
    (run,) = runs_from(example)
    known = {name: kind for name, kind in EVENTS.items() if name not in OF_1_2}
    schema = {
        name: tuple(entry for entry in entries if entry[0] not in KEYS_OF_1_2)
        for name, entries in codec._SCHEMA.items()
    }
    monkeypatch.setattr(codec, "EVENTS", known)
    monkeypatch.setattr(codec, "_SCHEMA", schema)
    ledger = read_ledger(example)
    assert (ledger.damaged, ledger.unknown) == (0, 2)
    (older,) = runs_from(example)
    assert older.rows == run.rows
    assert older.evaluations == run.evaluations
    assert older.wall_ms == run.wall_ms
    assert older.rollbacks == older.micro_batches == older.skipped == ()


def rolled_back(*before: Event) -> list[Event]:
    """Saved at 4, failed at 5 to 7, and on from 4 with other data."""
    failed = [StepEvent(i, 100.0, loss=math.nan, skipped=True, at_ms=100.0 * i + 100) for i in range(5, 8)]
    return [
        run_event(ledger="1.2"),
        *before,
        *steps(0, 4),
        EvalEvent(4, None, 4.6, ms=30.0),
        CheckpointEvent(4, "c.pt", 7.0),
        *steps(4, 5, 400.0),
        *failed,
        EvalEvent(8, None, 4.7, ms=50.0),
        RollbackEvent(4, 7, "c.pt", 1, at_ms=900.0),
    ]


def test_a_rollback_is_no_restart_and_its_iterations_count_once() -> None:
    events = [
        *rolled_back(),
        EvalEvent(4, None, 4.6, ms=31.0),
        *steps(4, 9, 1000.0),
        EndEvent("finished", 1600.0),
    ]
    (run,) = runs_of(events)
    assert [row.iteration for row in run.rows] == list(range(9))
    assert run.restarts == ()
    (rollback,) = run.rollbacks
    assert (rollback.row, rollback.iteration, rollback.failed_at, rollback.data_offset) == (4, 4, 7, 1)
    assert [row.iteration for row in rollback.lost] == [4, 5, 6, 7]
    assert rollback.beside_ms == 50.0  # the evaluation at 8
    assert run.skipped == (5, 6, 7)  # they happened, although their rows are gone
    assert [each.ms for each in run.evaluations] == [31.0]
    assert Span("evaluation", 4, 30.0) in run.spans  # what was evaluated again took its time all the same
    assert run.wall_ms == 1600.0
    assert run.ending == "finished"


def test_a_rollback_to_the_beginning_is_the_same_run() -> None:
    failed = [StepEvent(i, 100.0, loss=math.nan, skipped=True) for i in range(3)]
    (run,) = runs_of([run_event(), *failed, RollbackEvent(0, 2), *failed, EndEvent("diverged", 700.0)])
    assert [row.iteration for row in run.rows] == [0, 1, 2]
    assert [len(each.lost) for each in run.rollbacks] == [3]
    assert run.skipped == (0, 1, 2, 0, 1, 2)
    assert run.ending == "diverged"
    assert [row.loss for row in run.rows] == [None] * 3  # they came to nothing: no loss was lost with them


def test_a_rollback_that_nothing_followed_takes_no_rows_away() -> None:
    (run,) = runs_of(rolled_back())
    assert [row.iteration for row in run.rows] == list(range(8))
    (rollback,) = run.rollbacks
    assert (rollback.row, len(rollback.lost)) == (8, 0)
    first, second = runs_of([*rolled_back(), run_event(), *steps(0, 3)])
    assert (len(first.rows), len(first.rollbacks), len(second.rows), len(second.rollbacks)) == (8, 1, 3, 0)


def test_a_process_that_was_killed_after_going_back_goes_on_from_there() -> None:
    (run,) = runs_of([*rolled_back(), run_event(), ResumeEvent(4, "c.pt"), *steps(4, 9)])
    assert [row.iteration for row in run.rows] == list(range(9))
    assert [len(each.lost) for each in run.rollbacks] == [4]
    assert [(each.iteration, len(each.lost)) for each in run.restarts] == [(4, 0)]


def test_what_a_restart_does_again_is_told_again() -> None:
    odd = [StepEvent(2, 100.0, skipped=True), StepEvent(3, 100.0, loss=9.0, spike=7.5)]
    (run,) = runs_of([run_event(), *steps(0, 2), *odd, run_event(), ResumeEvent(2), *odd, *steps(4, 6)])
    assert run.skipped == (2,)
    assert run.spikes == (LossSpike(3, 7.5, 9.0),)


@pytest.mark.parametrize(("version", "spikes"), [("1.1", None), ("1.2", ()), ("1.x", None), ("1.10", ())])
def test_only_since_1_2_no_flag_means_no_spike(version: str, spikes: tuple[LossSpike, ...] | None) -> None:
    (run,) = runs_of([run_event(ledger=version), *steps(0, 3)])
    assert run.spikes == spikes


def test_a_smaller_micro_batch_is_the_runs_from_then_on() -> None:
    events = [
        run_event(config={"batch_size": 16, "gradient_accumulation_steps": 4}),
        MicroBatchEvent(0, 8, 8, "startup"),
        *steps(0, 3),
        MicroBatchEvent(3, 64, 8, "evaluation"),
        *steps(3, 5),
        MicroBatchEvent(5, 4, 16, "a later word"),
        MicroBatchEvent(5, 32, 16, "evaluation"),
        *steps(5, 7),
    ]
    (run,) = runs_of(events)
    assert run.micro_batches == (
        MicroBatch(0, 8, 8, "startup", 16),
        MicroBatch(3, 64, 8, "evaluation", None),
        MicroBatch(5, 4, 16, "step", 8),
        MicroBatch(5, 32, 16, "evaluation", 64),
    )
    assert (run.value("batch_size"), run.value("gradient_accumulation_steps")) == (4, 16)


@pytest.mark.parametrize(("resumed", "batch_size"), [(2, 16), (6, 4)])
def test_a_checkpoint_remembers_the_micro_batch(resumed: int, batch_size: int) -> None:
    config = {"batch_size": 16}
    events = [run_event(config=config), *steps(0, 5), MicroBatchEvent(5, 4, 16), *steps(5, 7)]
    (run,) = runs_of([*events, run_event(config=config), ResumeEvent(resumed), *steps(resumed, 9)])
    assert run.value("batch_size") == batch_size
    first, second = runs_of([*events, run_event(config=config), *steps(0, 9)])
    assert (first.value("batch_size"), second.value("batch_size")) == (4, 16)


def test_the_slowest_ranks_by_how_often() -> None:
    ranks = [(2, 0.10), (2, 0.30), (0, 0.01), (2, math.nan), (1, None), (2, 0.20)]
    events = [StepEvent(i, 100.0, slowest_rank=rank, lag=lag) for i, (rank, lag) in enumerate(ranks)]
    (run,) = runs_of([run_event(world_size=4), *events])
    assert run.rank_lags == (RankLag(2, 4, 0.2), RankLag(0, 1, 0.01), RankLag(1, 1, None))
    assert run.facts["world_size"] == Fact(4, "log")
    (run,) = runs_of([run_event(world_size=4), *events, run_event(world_size=2), ResumeEvent(6), *steps(6, 8)])
    assert run.rank_lags == ()  # the ranks of two are others than those of four


def test_notes_belong_to_their_run() -> None:
    first = [run_event(), NoteEvent("slow disk"), *steps(0, 3), NoteEvent("full disk", 3)]
    second = [run_event(), NoteEvent("no card"), *steps(0, 3)]
    one, two = runs_of([*first, *second])
    assert one.notes == (Note(0, "slow disk"), Note(3, "full disk"))
    assert two.notes == (Note(0, "no card"),)
