"""What a run survives, in its ledger: rollbacks, skipped steps, full memory, lagging ranks."""

from __future__ import annotations

import math

import pytest

from nanopace.incidents import LossSpike, Note
from nanopace.ledger import (
    CheckpointEvent,
    EndEvent,
    EvalEvent,
    Event,
    MicroBatchEvent,
    NoteEvent,
    ResumeEvent,
    RollbackEvent,
    StepEvent,
    codec,
    read_ledger,
)
from nanopace.ledger.events import EVENTS
from nanopace.run import Span

from ..ledgers import documented_example, run_event, runs_from, runs_of, steps

OF_1_2 = {"micro_batch", "rollback"}
KEYS_SINCE_1_2 = {"skipped", "spike", "slowest_rank", "lag", "measured_tflops"}


def test_a_reader_of_1_1_skips_what_came_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guarantee of a minor version, tested with that reader's tables."""
    example = documented_example()
    (run,) = runs_from(example)
    known = {name: kind for name, kind in EVENTS.items() if name not in OF_1_2}
    schema = {
        name: tuple(entry for entry in entries if entry[0] not in KEYS_SINCE_1_2)
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
    """Saved at 4, failed at 5 to 7, and continued from 4 with other data."""
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
    assert Span("evaluation", 4, 30.0) in run.spans  # a repeated evaluation still took time
    assert run.wall_ms == 1600.0
    assert run.ending == "finished"


def test_what_is_done_again_was_saved_for_nothing_too() -> None:
    events = [*rolled_back()[:-1], CheckpointEvent(8, "d.pt", 6.0), RollbackEvent(4, 7, "c.pt", 1, at_ms=900.0)]
    (run,) = runs_of([*events, *steps(4, 9, 1000.0)])
    assert [each.beside_ms for each in run.rollbacks] == [56.0]
    assert [each.iteration for each in run.checkpoints] == [4]


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


@pytest.mark.parametrize(("resumed", "batch_size"), [(2, 16), (6, 4)])
def test_a_checkpoint_remembers_the_micro_batch(resumed: int, batch_size: int) -> None:
    config = {"batch_size": 16}
    events = [run_event(config=config), *steps(0, 5), MicroBatchEvent(5, 4, 16), *steps(5, 7)]
    (run,) = runs_of([*events, run_event(config=config), ResumeEvent(resumed), *steps(resumed, 9)])
    assert run.value("batch_size") == batch_size
    first, second = runs_of([*events, run_event(config=config), *steps(0, 9)])
    assert (first.value("batch_size"), second.value("batch_size")) == (4, 16)


def test_notes_belong_to_their_run() -> None:
    first = [run_event(), NoteEvent("slow disk"), *steps(0, 3), NoteEvent("full disk", 3)]
    second = [run_event(), NoteEvent("no card"), *steps(0, 3)]
    one, two = runs_of([*first, *second])
    assert one.notes == (Note(0, "slow disk"), Note(3, "full disk"))
    assert two.notes == (Note(0, "no card"),)
