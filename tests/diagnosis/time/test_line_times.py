"""Timestamps on lines: what nanoGPT's clock would have printed before each of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.diagnosis.time.line_times import resolution_s
from nanopace.record import replace
from nanopace.run import Checkpoint, Evaluation, Restart, Row, Rows, Run

STEP_S, EVALUATION_S, SAVE_S = 1.097, 26.2, 8.1


def stamped(
    *,
    unit_s: float = 1.0,
    log_interval: int = 10,
    evaluated: tuple[int, ...] = (3000,),
    pauses: Mapping[int, float] | None = None,
    last: int = 3060,
    restarts: tuple[Restart, ...] = (),
) -> Run:
    """A run from iteration 2920 on that saves at each evaluation; `pauses` are seconds before an iteration that only
    the clock shows."""
    clock, rows = 1_679_477_439.3, Rows()
    evaluations, saves = [], []
    for iteration in range(2920, last + 1):
        clock += (pauses or {}).get(iteration, 0.0)
        began = clock
        shown = iteration % log_interval == 0
        if iteration in evaluated:
            clock += EVALUATION_S
            row = len(rows) if shown else None
            evaluations.append(Evaluation(iteration, 4.0, 4.0, row=row, at_s=clock // unit_s * unit_s))
            clock += SAVE_S
            saves.append(Checkpoint(iteration, row=row))
        clock += STEP_S
        if shown:
            rows.append(Row(iteration, (clock - began) * 1000, 4.0, at_s=clock // unit_s * unit_s))
    return Run("log", "nanogpt", rows, tuple(evaluations), tuple(saves), restarts)


def codes(diagnosis: Diagnosis) -> dict[str, Mapping[str, object]]:
    return {finding.code: finding.numbers for finding in diagnosis.findings}


def test_evaluation_and_save_are_told_apart() -> None:
    diagnosis = diagnose(stamped())
    evaluations, checkpoints = diagnosis.evaluations, diagnosis.checkpoints
    assert checkpoints.basis == "stamps"
    assert evaluations.each_ms == pytest.approx(26_200, abs=1000)
    assert checkpoints.each_ms == pytest.approx(8_100, abs=1000)
    assert evaluations.each_ms + (checkpoints.each_ms or 0.0) == pytest.approx(34_300, abs=5)  # as the row says
    assert not evaluations.contains_checkpoint
    assert (evaluations.high_ms or 0.0) - (evaluations.low_ms or 0.0) == pytest.approx(2000)
    assert diagnosis.wall.checkpoint_s == pytest.approx(8.1, abs=1)
    assert codes(diagnosis)["checkpoint_stamped"]["checkpoint_low_s"] is not None


def test_exact_stamps_are_exact() -> None:
    diagnosis = diagnose(stamped(unit_s=0.001))
    assert diagnosis.evaluations.each_ms == pytest.approx(26_200, abs=10)
    assert codes(diagnosis)["checkpoint_stamped"]["checkpoint_low_s"] is None  # nothing to add


def test_many_coarse_stamps_become_better() -> None:
    diagnosis = diagnose(stamped(evaluated=tuple(range(3000, 3900, 50)), last=3960))
    assert diagnosis.checkpoints.each_ms == pytest.approx(8100, abs=500)
    assert (diagnosis.checkpoints.high_ms or 0.0) - (diagnosis.checkpoints.low_ms or 0.0) < 1000


def test_evaluations_between_rows_are_priced() -> None:
    diagnosis = diagnose(stamped(evaluated=(3005, 3025), last=3100))
    assert diagnosis.evaluations.hidden == 2
    assert diagnosis.evaluations.each_ms == pytest.approx(26_200, abs=1000)
    assert diagnosis.checkpoints.each_ms == pytest.approx(8100, abs=1000)
    assert "gap_between_rows" not in codes(diagnosis)
    assert diagnosis.wall.total_s == pytest.approx(181 * STEP_S + 2 * (EVALUATION_S + SAVE_S), abs=3)


def test_a_save_too_short_for_the_stamps_stays_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.SAVE_S", 1.0)
    diagnosis = diagnose(stamped())
    assert diagnosis.checkpoints.basis == "unknown"
    assert diagnosis.evaluations.contains_checkpoint


def test_what_no_row_contains_is_unknown_time() -> None:
    diagnosis = diagnose(stamped(pauses={2955: 40.0, 3033: 7.0}))
    numbers = codes(diagnosis)["gap_between_rows"]
    assert (numbers["count"], numbers["iteration"]) == (2, 2960)
    assert numbers["largest_s"] == pytest.approx(40, abs=1)
    assert diagnosis.wall.unknown_s == pytest.approx(47, abs=2)
    wall = diagnosis.wall
    parts = (wall.training_s, wall.evaluation_s, wall.checkpoint_s, wall.startup_s, wall.stall_s, wall.unknown_s)
    assert sum(part or 0.0 for part in parts) == pytest.approx(wall.total_s)
    assert diagnosis.checkpoints.each_ms == pytest.approx(8100, abs=1000)


def test_a_second_more_is_no_gap() -> None:
    assert "gap_between_rows" not in codes(diagnose(stamped()))
    assert "gap_between_rows" not in codes(diagnose(stamped(pauses={2955: 1.5})))
    assert "gap_between_rows" not in codes(diagnose(stamped(log_interval=100, pauses={2955: 10.0})))


def test_the_time_between_two_processes_is_not_the_runs() -> None:
    run = stamped(pauses={3020: 5000.0})
    row = list(run.rows.iteration).index(3020)
    assert codes(diagnose(run))["gap_between_rows"]["largest_s"] == pytest.approx(5000, abs=1)
    assert "gap_between_rows" not in codes(diagnose(replace(run, restarts=(Restart(row, 3020, 3019),))))


def test_without_stamps_there_is_nothing_to_tell() -> None:
    run = stamped()
    silent = replace(
        run,
        rows=Rows([replace(row, at_s=None) for row in run.rows]),
        evaluations=tuple(replace(each, at_s=None) for each in run.evaluations),
    )
    diagnosis = diagnose(silent)
    assert (diagnosis.checkpoints.basis, diagnosis.checkpoints.each_ms) == ("unknown", None)
    assert diagnosis.evaluations.each_ms == pytest.approx(34_300, abs=5)


@pytest.mark.parametrize("unit_s", [1.0, 0.1, 0.001])
def test_the_resolution_shows_in_the_stamps(unit_s: float) -> None:
    assert resolution_s(stamped(unit_s=unit_s)) == unit_s


def test_whole_seconds_tell_more_than_whole_seconds_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.EVALUATION_S", 26.5)
    run = stamped(evaluated=tuple(range(2930, 6000, 30)), last=6000)
    evaluations = diagnose(run).evaluations
    assert evaluations.each_ms == pytest.approx(26_500, abs=100)


def test_stamps_that_do_not_resolve_an_evaluation_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.EVALUATION_S", 0.7)
    diagnosis = diagnose(stamped(evaluated=(2950, 3000, 3050)))
    assert diagnosis.checkpoints.basis != "stamps"
    assert diagnosis.evaluations.contains_checkpoint
