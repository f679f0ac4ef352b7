"""What happened to a run: each case from a small ledger, as a trainer would write it."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import pytest

from nanopace import open_run
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis, Finding, Setback, Stall
from nanopace.incidents import LossSpike, RankLag
from nanopace.ledger import (
    EndEvent,
    EvalEvent,
    Event,
    MicroBatchEvent,
    NoteEvent,
    RollbackEvent,
    RunEvent,
    SpanEvent,
    StallEvent,
    StepEvent,
)
from nanopace.ledger.codec import to_json

CONFIG = {"batch_size": 16, "gradient_accumulation_steps": 4, "block_size": 256, "learning_rate": 0.0006}


def ledger(*events: Event, wall_ms: float | None = None, reason: str = "finished", **run: object) -> Diagnosis:
    """The diagnosis of a process with these events and a known reason for its end."""
    begin = RunEvent("2026-01-01T00:00:00+00:00", "0.4.0", config=CONFIG, **run)  # type: ignore[arg-type]
    lines = [to_json(event) for event in (begin, *events, EndEvent(reason, wall_ms))]
    return diagnose(open_run(io.BytesIO("\n".join([*lines, ""]).encode())))


def steps(first: int, last: int, ms: float = 100.0, **more: object) -> list[Event]:
    return [StepEvent(i, ms, loss=4.0 - i / 1000, **more) for i in range(first, last)]  # type: ignore[arg-type]


def found(diagnosis: Diagnosis) -> dict[str, Finding]:
    return {finding.code: finding for finding in diagnosis.findings}


def test_an_uneventful_run_has_nothing_of_all_this() -> None:
    run = ledger(*steps(0, 100), wall_ms=10_000.0)
    assert run.faults.skipped_steps == len(run.faults.spikes) == len(run.faults.stalls) == 0
    assert run.notes == ()
    assert set(found(run)) == {"mfu_unknown", "nothing_to_change", "training_loss_course"}


# --- sleep and data --------------------------------------------------------------------------------------------------


def slept(*naps: float) -> Diagnosis:
    events = [*steps(0, 30)]
    for number, ms in enumerate(naps):
        events += [StallEvent(30 + number, ms, "suspend"), *steps(30 + number, 31 + number)]
    events += [*steps(40, 70), EvalEvent(70, val=3.0, ms=300.0), *steps(70, 90), EvalEvent(90, val=3.0, ms=200.0)]
    return ledger(*events, *steps(90, 100), wall_ms=10_000.0 + 500.0 + sum(naps))


def test_sleep_is_its_own_part_of_the_wall_clock_and_no_riddle() -> None:
    run = slept(7_200_000.0, 4_320_000.0)
    assert run.wall.total_s == pytest.approx(10.5 + 11_520)
    assert run.wall.suspended_s == 11_520
    assert run.wall.stall_s == 0
    assert run.wall.unknown_s == pytest.approx(0.0, abs=1e-6)
    assert found(run)["suspended"] == Finding("suspended", {"count": 2, "suspended_s": 11_520.0})
    assert "find_the_stall" not in found(run)
    assert "stalls" not in found(run)
    assert run.faults.stalls[0] == Stall(30, "suspend", 7200.0, pytest.approx(7203.0))


def test_sleep_changes_no_figure_that_judges_the_training() -> None:
    run, awake = slept(7_200_000.0), slept()
    assert run.wall.overhead_share == pytest.approx(awake.wall.overhead_share)
    assert run.wall.goodput == pytest.approx(awake.wall.goodput, rel=0.02)
    assert run.throughput.tokens_per_s_overall == pytest.approx(awake.throughput.tokens_per_s_overall, rel=0.02)
    assert run.ahead.seconds_per_1000 == pytest.approx(awake.ahead.seconds_per_1000, rel=0.02)
    advice, of_awake = found(run)["lower_eval_iters_unknown"], found(awake)["lower_eval_iters_unknown"]
    assert advice.saves_s == pytest.approx(of_awake.saves_s)
    assert advice.saves_share == pytest.approx(of_awake.saves_share)


def test_a_stall_without_a_name_is_still_to_be_found() -> None:
    run = ledger(*steps(0, 50), StallEvent(50, 2000.0), *steps(50, 100), wall_ms=12_000.0)
    assert (run.wall.stall_s, run.wall.suspended_s) == (2.0, 0.0)
    assert found(run)["find_the_stall"].saves_s == 2.0


def test_waiting_for_data_has_its_name() -> None:
    waits = [StallEvent(20, 500.0, "data"), *steps(20, 40), StallEvent(40, 1500.0, "data")]
    run = ledger(*steps(0, 20), *waits, *steps(40, 100), wall_ms=12_000.0)
    numbers = {"count": 2, "total_s": 2.0, "total_share": pytest.approx(1 / 6), "largest_s": 1.5, "iteration": 40}
    assert found(run)["data_stalls"] == Finding("data_stalls", numbers)
    assert run.wall.stall_s == 2.0
    assert "find_the_stall" not in found(run)  # it is found
    assert "nothing_to_change" not in found(run)


# --- losses that are none --------------------------------------------------------------------------------------------


def skipping(*iterations: int) -> list[Event]:
    return [StepEvent(i, 100.0, loss=math.nan if i in iterations else 4.0, skipped=i in iterations) for i in range(100)]


def test_skipped_steps_are_counted_with_their_streaks() -> None:
    run = ledger(*skipping(7, 8, 40))
    assert found(run)["skipped_steps"].numbers == {"count": 3, "streaks": 2, "iterations": "7, 8, 40"}
    assert "loss_diverged" not in found(run)  # the weights never saw it
    assert "calm_the_loss" not in found(run)  # a few are nothing


def test_many_skipped_steps_are_worth_an_advice() -> None:
    run = ledger(*skipping(*range(20, 32)))
    assert found(run)["skipped_steps"].numbers == {
        "count": 12,
        "streaks": 1,
        "iterations": "20, 21, 22, 23, 24, 25, 26, 27, 28, 29 …",
    }
    assert run.faults.skipped_iterations == tuple(range(20, 30))
    assert found(run)["calm_the_loss"] == Finding("calm_the_loss", {"learning_rate": 0.0006}, advice=True)


def test_a_loss_that_nobody_skipped_has_diverged() -> None:
    run = ledger(*steps(0, 50), *(StepEvent(i, 100.0, loss=math.nan) for i in range(50, 60)))
    assert found(run)["loss_diverged"].numbers == {"iteration": 50, "first": None}


def went_back(reason: str = "finished") -> Diagnosis:
    failed = [StepEvent(i, 100.0, loss=math.nan, skipped=True) for i in range(1200, 1203)]
    back = [SpanEvent("other", 1000, 700.0), RollbackEvent(1000, 1202, "c"), *steps(1000, 1300)]
    return ledger(*steps(0, 1200), *failed, *back, wall_ms=151_000.0, reason=reason)


def test_a_rollback_is_lost_work_and_no_restart() -> None:
    run = went_back()
    assert run.restarts.count == 0
    assert run.source.rows == 1300
    assert run.faults.rollbacks == (Setback(1000, 1202, 203, pytest.approx(20.3)),)
    numbers = {"count": 1, "failed_at": 1202, "iteration": 1000, "lost_iterations": 203, "lost_s": pytest.approx(20.3)}
    assert found(run)["rollbacks"] == Finding("rollbacks", numbers)
    assert run.wall.rollback_s == pytest.approx(20.3)
    assert run.wall.training_s == pytest.approx(130.0)
    assert run.wall.unknown_s == pytest.approx(0.0, abs=1e-9)
    assert (run.wall.restart_s, run.wall.stall_s) == (0.0, 0.0)
    assert "calm_the_loss" in found(run)
    assert "nothing_to_change" not in found(run)


def test_a_run_that_gave_up_says_so_first() -> None:
    run = went_back("diverged")
    assert run.findings[0] == Finding("ended_diverged", {"last_iteration": 1299})
    assert run.source.ending == "diverged"
    assert "calm_the_loss" in found(run)


def test_the_trainers_flags_are_the_spikes() -> None:
    odd = [StepEvent(60, 100.0, loss=9.0, spike=8.25), StepEvent(61, 100.0, loss=7.0, spike=6.5)]
    run = ledger(*steps(0, 60), *odd, *steps(62, 100))
    assert run.faults.spikes == (LossSpike(60, 8.25, 9.0), LossSpike(61, 6.5, 7.0))
    assert found(run)["loss_spikes"].numbers == {"count": 2, "largest_z": 8.25, "iteration": 60}
    unflagged = [StepEvent(60, 100.0, loss=9.0)]
    assert "loss_spikes" not in found(ledger(*steps(0, 60), *unflagged, *steps(61, 100)))
    assert "loss_spikes" in found(ledger(*steps(0, 60), *unflagged, *steps(61, 100), ledger="1.1"))


# --- memory ----------------------------------------------------------------------------------------------------------


def test_a_full_memory_is_said_with_what_to_start_with() -> None:
    halved = [MicroBatchEvent(50, 8, 8), MicroBatchEvent(50, 4, 16)]
    run = ledger(*steps(0, 50), *halved, *steps(50, 100, 130.0))
    numbers = {"iteration": 50, "from_batch": 16, "to_batch": 4, "to_accumulation": 16}
    assert found(run)["micro_batch_reduced"] == Finding("micro_batch_reduced", numbers)
    advice = Finding("smaller_micro_batch", {"to_batch": 4, "to_accumulation": 16}, advice=True)
    assert found(run)["smaller_micro_batch"] == advice
    assert run.throughput.micro_batch_sequences == 4
    assert len(run.step.levels) == 2
    assert "level_shift" not in found(run)  # smaller pieces take longer: the card does not slow down
    assert "level_shift" in found(ledger(*steps(0, 50), *steps(50, 100, 130.0)))


def test_memory_at_the_start_and_in_an_evaluation() -> None:
    run = ledger(MicroBatchEvent(0, 8, 8, "startup"), *steps(0, 50), MicroBatchEvent(50, 32, 8, "evaluation"))
    start, evaluation = found(run)["micro_batch_reduced_at_start"], found(run)["micro_batch_reduced_in_evaluation"]
    assert start.numbers == {"from_batch": 16, "to_batch": 8, "to_accumulation": 8}
    assert evaluation.numbers == {"iteration": 50, "from_batch": None, "to_batch": 32}
    only_evaluation = ledger(*steps(0, 50), MicroBatchEvent(50, 32, 4, "evaluation"), *steps(50, 60))
    assert "smaller_micro_batch" not in found(only_evaluation)
    assert only_evaluation.throughput.micro_batch_sequences == 16


def test_nobody_is_told_to_try_a_larger_one_again() -> None:
    shape = {"n_layer": 12, "n_embd": 768, "vocab_size": 50304}
    card = {"gpu": "NVIDIA H200", "gpu_memory_gb": 139.0, "gpu_count": 1, "parameters": 124_000_000}
    config = {**CONFIG, **shape}
    begin = RunEvent("2026-01-01T00:00:00+00:00", "0.4.0", config=config, flops_per_token=8e8, **card)  # type: ignore[arg-type]

    def codes(*events: Event) -> set[str]:
        lines = [to_json(event) for event in (begin, *events)]
        return set(found(diagnose(open_run(io.BytesIO("\n".join([*lines, ""]).encode())))))

    tokens = {"tokens": 16 * 4 * 256}
    assert "larger_micro_batch" in codes(*steps(0, 50, **tokens))
    assert "larger_micro_batch" not in codes(MicroBatchEvent(0, 8, 8, "startup"), *steps(0, 50, **tokens))


# --- several ranks ---------------------------------------------------------------------------------------------------


def ranks(slowest: Sequence[int], lag: float | None = 0.12, world_size: int = 4) -> Diagnosis:
    events = [StepEvent(i, 100.0, 4.0, slowest_rank=rank, lag=lag) for i, rank in enumerate(slowest)]
    return ledger(*events, world_size=world_size)


MOSTLY_2 = [2] * 93 + [0, 1, 3, 0, 1, 3, 0]


def test_a_straggler_is_named() -> None:
    run = ranks(MOSTLY_2)
    numbers = {"rank": 2, "slowest_share": 0.93, "lag_share": 0.12}
    assert found(run)["straggler"] == Finding("straggler", numbers)
    assert found(run)["find_the_straggler"] == Finding("find_the_straggler", {"rank": 2}, advice=True)
    assert run.faults.ranks[0] == RankLag(2, 93, 0.12)
    assert run.facts["world_size"].value == 4


@pytest.mark.parametrize(
    "run",
    [
        ranks([0, 1, 2, 3] * 25),
        ranks([2] * 59 + [0] * 41),  # less than most
        ranks(MOSTLY_2, 0.02),  # too little to matter
        ranks(MOSTLY_2, None),  # unknown by how much
        ranks(MOSTLY_2, world_size=1),
        ranks([2] * 19),  # too few to say
        ranks([0] * 13 + [1] * 7, world_size=2),  # happens by chance for one of two
    ],
)
def test_what_is_no_straggler(run: Diagnosis) -> None:
    assert not {"straggler", "find_the_straggler"} & set(found(run))


def test_on_the_cpu_ranks_share_the_micro_batches_too() -> None:
    assert ranks(MOSTLY_2).throughput.micro_batch_ms == pytest.approx(100.0)
    assert ranks(MOSTLY_2, world_size=2).throughput.micro_batch_ms == pytest.approx(50.0)


def test_notes_are_handed_on() -> None:
    run = ledger(NoteEvent("the disk is slow"), *steps(0, 30), NoteEvent("full", 30))
    assert [(note.iteration, note.text) for note in run.notes] == [(0, "the disk is slow"), (30, "full")]
