"""When two runs reached the same loss: from a real log and a real ledger, and from curves made by hand."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nanopace import open_run
from nanopace.diagnosis.compare.arrival import arrive, training_curve
from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.comparison import Arrival
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Curves, Diagnosis, Finding
from nanopace.ledger import (
    CheckpointEvent,
    CompileEvent,
    EndEvent,
    EvalEvent,
    Event,
    LedgerWriter,
    RunEvent,
    SpanEvent,
    StepEvent,
)
from nanopace.run import Fact

EVERY, STEP_MS, EVAL_MS, SAVE_MS = 10, 100.0, 250.0, 50.0
SHAPE = "batch_size = 4\ngradient_accumulation_steps = 2\nblock_size = 16\n"
LOSSES = (5.0, 4.0, 3.5, 3.2, 3.0)
TO_EACH = EVERY * STEP_MS / 1000 + (EVAL_MS + SAVE_MS) / 1000  # seconds from one evaluation to the next


def nanogpt(folder: Path, losses: Sequence[float] = LOSSES, *, startup_ms: float = 0.0, name: str = "log.txt") -> Path:
    """A log as nanoGPT writes it: an evaluation and its checkpoint are in the row of their iteration."""
    lines = [SHAPE.rstrip()]
    for iteration in range(EVERY * (len(losses) - 1) + 1):
        ms = STEP_MS + (startup_ms if not iteration else 0.0)
        if iteration % EVERY == 0:
            loss = losses[iteration // EVERY]
            ms += EVAL_MS + (SAVE_MS if iteration else 0.0)
            lines.append(f"step {iteration}: train loss {loss:.4f}, val loss {loss:.4f}")
            if iteration:
                lines.append("saving checkpoint to out")
        lines.append(f"iter {iteration}: loss {loss:.4f}, time {ms:.2f}ms, mfu 12.00%")
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("Overriding config with c.py:\n" + "\n".join(lines) + "\n")
    return path


def ledger(
    folder: Path,
    losses: Sequence[float] = LOSSES,
    *,
    startup_ms: float = 0.0,
    error: float = 0.01,
    tokenizer: str | None = None,
    bytes_per_token: float | None = None,
) -> Path:
    """A ledger as our trainer writes it: every piece of time has its own event."""
    folder.mkdir(exist_ok=True)
    path, at = folder / "ledger.jsonl", 0.0
    path.unlink(missing_ok=True)
    writer = LedgerWriter(path)

    def write(event: Event, ms: float = 0.0) -> None:
        nonlocal at
        at += ms
        writer.append(dataclasses.replace(event, at_ms=at))

    knobs = {"batch_size": 4, "gradient_accumulation_steps": 2, "block_size": 16, "eval_interval": EVERY}
    write(RunEvent("2026-01-01T00:00:00+00:00", "0", knobs, tokens_per_iteration=128, tokenizer=tokenizer))
    write(SpanEvent("startup", 0, startup_ms / 2), startup_ms / 2)
    write(CompileEvent(startup_ms / 2), startup_ms / 2)
    for iteration in range(EVERY * (len(losses) - 1) + 1):
        if iteration % EVERY == 0:
            val = losses[iteration // EVERY]
            bits = None if bytes_per_token is None else val / math.log(2) / bytes_per_token
            write(EvalEvent(iteration, val=val, ms=EVAL_MS, val_error=error, bits_per_byte=bits), EVAL_MS)
            if iteration:
                write(CheckpointEvent(iteration, "x", SAVE_MS), SAVE_MS)
        write(StepEvent(iteration, STEP_MS, 3.0, 128), STEP_MS)
    write(EndEvent("finished", at))
    writer.close()
    return path


def read(path: Path) -> Diagnosis:
    return diagnose(open_run(path))


def arrived(a: Diagnosis, b: Diagnosis) -> Arrival:
    arrival = compare(a, b).arrival
    assert arrival is not None
    return arrival


def sooner(a: Diagnosis, b: Diagnosis) -> list[Finding]:
    codes = ("sooner", "arrival", "clock", "late_start")
    return [each for each in compare(a, b).findings if any(code in each.code for code in codes)]


# --- the clock -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("startup_ms", [0.0, 30_000.0])
@pytest.mark.parametrize("written", [nanogpt, ledger])
def test_the_clock_runs_from_the_first_step_with_evaluations_and_checkpoints(
    tmp_path: Path, written: Any, startup_ms: float
) -> None:
    run = read(written(tmp_path, startup_ms=startup_ms))
    assert run.wall.total_s > startup_ms / 1000
    curve = training_curve(run)
    assert [moment.iteration for moment in curve] == [0, 10, 20, 30, 40]
    assert [moment.seconds for moment in curve] == pytest.approx([TO_EACH * k for k in range(5)], rel=1e-3)
    assert tuple(moment.val for moment in curve) == LOSSES


def test_without_an_evaluation_before_the_first_step_start_up_is_left_out(make_diagnosis: Any) -> None:
    run = make_diagnosis(curve=[(10, 35.0, 4.0), (20, 40.0, 3.0)], wall={"startup_s": 30.0})
    assert [moment.seconds for moment in training_curve(run)] == [5.0, 10.0]


def test_each_says_where_its_seconds_come_from(tmp_path: Path, make_diagnosis: Any) -> None:
    arrival = arrived(read(nanogpt(tmp_path)), read(ledger(tmp_path)))
    assert (arrival.a.clock, arrival.b.clock) == ("rows", "measured")
    curve = [(0, 0.0, 5.0), (10, 10.0, 3.0)]
    slow = make_diagnosis(name="a.log", curve=[(0, 0.0, 5.0), (10, 90.0, 3.0)])
    holes = make_diagnosis(name="b.log", curve=curve, wall={"unknown_s": None})
    assert arrived(slow, holes).b.clock == "incomplete"
    assert Finding("compare_clock_incomplete", {"run": "b.log"}) in sooner(slow, holes)


# --- who is sooner ---------------------------------------------------------------------------------------------------


def test_the_time_to_the_best_loss_of_the_worse_one(tmp_path: Path) -> None:
    theirs = read(nanogpt(tmp_path))
    ours = read(ledger(tmp_path, (5.0, 3.2, 2.8, 2.5, 2.4), startup_ms=60_000.0))
    arrival = arrived(theirs, ours)
    assert arrival.target == 3.0
    assert arrival.a.seconds == pytest.approx(4 * TO_EACH, rel=1e-3)
    assert (arrival.a.iteration, arrival.a.after_iteration, arrival.a.by_iteration) == (40, 30, 40)
    assert arrival.b.seconds == pytest.approx(1.5 * TO_EACH, rel=1e-3)
    assert (arrival.b.iteration, arrival.b.after_iteration, arrival.b.by_iteration) == (pytest.approx(15), 10, 20)
    assert (arrival.a.tokens, arrival.b.tokens) == (40 * 128, pytest.approx(15 * 128))
    assert arrival.ratio == pytest.approx(1.5 / 4, rel=1e-3)
    assert arrival.sooner == "b"
    (finding,) = sooner(theirs, ours)
    assert finding.code == "compare_sooner"
    assert finding.numbers == {
        "sooner": ours.source.name, "later": "log.txt", "target_loss": 3.0, "sooner_s": arrival.b.seconds,
        "later_s": arrival.a.seconds, "sooner_ratio": pytest.approx(4 / 1.5, rel=1e-3),
        "sooner_tokens": arrival.b.tokens, "later_tokens": arrival.a.tokens,
    }  # fmt: skip


def test_the_other_way_round_is_the_same(tmp_path: Path) -> None:
    theirs, ours = read(nanogpt(tmp_path)), read(ledger(tmp_path, (5.0, 3.2, 2.8, 2.5, 2.4)))
    there, back = arrived(theirs, ours), arrived(ours, theirs)
    assert (there.a, there.b, there.target, there.error) == (back.b, back.a, back.target, back.error)
    assert there.ratio == pytest.approx(1 / (back.ratio or 0))
    assert (there.sooner, back.sooner) == ("b", "a")
    assert sooner(theirs, ours) == sooner(ours, theirs)


def test_the_first_time_counts_even_if_the_loss_rises_again(make_diagnosis: Any) -> None:
    steady = make_diagnosis(curve=[(0, 0.0, 5.0), (10, 100.0, 3.0)])
    bouncing = make_diagnosis(curve=[(0, 0.0, 5.0), (10, 10.0, 2.0), (20, 20.0, 6.0), (30, 30.0, 2.5)])
    assert arrived(steady, bouncing).b.seconds == pytest.approx(10 * 2 / 3)


def test_a_first_evaluation_that_is_there_already_is_taken_as_it_is(make_diagnosis: Any) -> None:
    late = make_diagnosis(curve=[(10, 50.0, 2.0)])
    reached = arrived(make_diagnosis(curve=[(0, 0.0, 5.0), (10, 10.0, 3.0)]), late).b
    assert (reached.seconds, reached.after_iteration, reached.by_iteration) == (50.0, None, 10)


def test_without_tokens_iterations_are_said(make_diagnosis: Any) -> None:
    slow = make_diagnosis(name="a.log", curve=[(0, 0.0, 5.0), (10, 90.0, 3.0)])
    fast = make_diagnosis(name="b.log", curve=[(0, 0.0, 5.0), (20, 10.0, 1.0)], tokens=128)
    (finding,) = sooner(slow, fast)
    assert finding.code == "compare_sooner_iterations"
    assert (finding.numbers["sooner_iterations"], finding.numbers["later_iterations"]) == (10, 10)


# --- noise -----------------------------------------------------------------------------------------------------------


def test_standard_errors_make_a_range_of_the_time(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    a = read(ledger(one, error=0.03))
    b = read(ledger(other, (5.0, 3.2, 2.8, 2.5, 2.4), error=0.04))
    arrival = arrived(a, b)
    assert (arrival.error, arrival.error_basis) == (pytest.approx(0.05), "standard_error")
    assert arrival.b.early_s == pytest.approx(1.375 * TO_EACH, rel=1e-3)  # at 3.05
    assert arrival.b.late_s == pytest.approx(1.625 * TO_EACH, rel=1e-3)  # at 2.95
    assert arrival.a.early_s == pytest.approx(3.75 * TO_EACH, rel=1e-3)
    assert arrival.a.late_s is None, "it never was at 2.95"
    assert arrival.sooner == "b"


def test_a_lead_within_the_error_is_none(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    slightly = (5.0, 4.0, 3.5, 3.19, 2.98)

    def both(error: float) -> tuple[Diagnosis, Diagnosis]:
        return read(ledger(one, error=0.001)), read(ledger(other, slightly, error=error))

    sure, unsure = arrived(*both(0.001)), arrived(*both(0.2))
    assert sure.ratio == unsure.ratio
    assert (sure.sooner, unsure.sooner) == ("b", "tie")
    (finding,) = sooner(*both(0.2))
    assert finding.code == "compare_arrival_equal"
    assert finding.numbers["loss_error"] == unsure.error


def test_with_too_few_evaluations_the_error_is_unknown_and_only_a_large_lead_is_one(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    theirs, slightly = read(nanogpt(one)), read(nanogpt(other, (5.0, 4.0, 3.5, 3.19, 2.98)))
    arrival = arrived(theirs, slightly)
    assert (arrival.error, arrival.error_basis, arrival.sooner) == (None, "unknown", None)
    assert arrival.a.early_s is arrival.a.late_s is arrival.b.early_s is arrival.b.late_s is None
    assert [each.code for each in sooner(theirs, slightly)] == ["compare_arrival_uncertain"]
    assert arrived(theirs, read(nanogpt(other, (5.0, 3.2, 2.8, 2.5, 2.4)))).sooner == "b"


def test_without_standard_errors_the_scatter_has_to_do(tmp_path: Path) -> None:
    smooth = [3 + 2 / (1 + k) for k in range(12)]
    rough = [val + 0.1 * (-1) ** k for k, val in enumerate(smooth)]
    a, b = read(nanogpt(tmp_path, smooth, name="a.log")), read(nanogpt(tmp_path, rough, name="b.log"))
    arrival = arrived(a, b)
    assert arrival.error_basis == "scatter"
    assert arrival.error is not None
    assert 0.05 < arrival.error < 0.3
    assert arrived(a, read(ledger(tmp_path, rough))).error_basis == "mixed"


def test_a_run_is_not_sooner_than_itself(tmp_path: Path) -> None:
    run = read(nanogpt(tmp_path))
    assert (arrived(run, run).ratio, arrived(run, run).sooner) == (1.0, "tie")


# --- unknown stays unknown -------------------------------------------------------------------------------------------


def test_no_validation_loss_no_claim(make_diagnosis: Any) -> None:
    known = make_diagnosis(curve=[(0, 0.0, 5.0), (10, 10.0, 3.0)])
    for curve in ([], [(0, 0.0, 5.0)], [(0, 0.0, None), (10, 10.0, None)], [(0, 0.0, 5.0), (10, 10.0, float("nan"))]):
        unknown = make_diagnosis(curve=curve)
        assert arrive(known, unknown) is arrive(unknown, known) is None
        assert sooner(known, unknown) == []


def test_with_other_tokens_bits_per_byte_are_compared_where_both_have_them(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    a = read(ledger(one, tokenizer="x", bytes_per_token=1.0))  # down to 3 nats per byte
    finer = (10.0, 6.4, 5.6, 5.0, 4.8)  # a higher loss per token, a lower one per byte
    b = read(ledger(other, finer, tokenizer="y", bytes_per_token=2.0))
    arrival = arrived(a, b)
    assert (arrival.metric, arrival.error_basis) == ("bpb", "unknown"), "errors are told of the losses alone"
    assert arrival.target == pytest.approx(3 / math.log(2))
    assert arrival.b.iteration == pytest.approx(15)
    assert [each.code for each in sooner(a, b)] == ["compare_sooner_bits"]
    assert compare(a, b).findings[1] == Finding("compare_other_tokenizer"), "losses still cannot be compared"
    assert compare(a, read(ledger(other, finer, tokenizer="y"))).arrival is None


def test_a_log_that_begins_in_the_middle_has_no_time_to_a_loss(make_diagnosis: Any) -> None:
    whole = make_diagnosis(name="a.log", curve=[(0, 0.0, 5.0), (10, 10.0, 3.0)])
    part = make_diagnosis(name="b.log", curve=[(5000, 1.0, 3.1), (5500, 10.0, 2.0)])
    part = dataclasses.replace(part, source=dataclasses.replace(part.source, first_iteration=5000))
    assert compare(whole, part).arrival is None
    assert sooner(whole, part) == [Finding("compare_late_start", {"run": "b.log", "iteration": 5000})]
    other_data = dataclasses.replace(part, facts={"dataset": Fact("code", "flag")})
    assert sooner(whole, other_data) == [], "there is no time to ask for"
    assert sooner(whole, dataclasses.replace(part, curves=Curves())) == []


def test_bits_per_byte_may_be_equal_within_their_noise(make_diagnosis: Any) -> None:
    def run(tokenizer: str, seconds: float) -> Diagnosis:
        bits = [2.0, 1.5, 1.2, 1.05, 1.06, 1.0, 1.06, 1.0, 1.05, 0.99]
        curve = [(10 * k, seconds * k, 4.0) for k in range(10)]
        made: Diagnosis = make_diagnosis(name=tokenizer, curve=curve, knobs={"tokenizer": tokenizer}, log_interval=10)
        return dataclasses.replace(made, curves=dataclasses.replace(made.curves, eval_bits=tuple(bits)))

    (tie,) = sooner(run("x", 10.0), run("y", 10.5))
    assert tie.code == "compare_arrival_equal_bits"
    assert tie.numbers["loss_error"] == pytest.approx(arrived(run("x", 10.0), run("y", 10.5)).error)


def test_one_that_was_there_before_its_first_step_has_no_ratio(make_diagnosis: Any) -> None:
    tuned = make_diagnosis(curve=[(0, 0.0, 2.0), (10, 10.0, 1.9)])
    arrival = arrived(make_diagnosis(curve=[(0, 0.0, 5.0), (10, 10.0, 3.0)]), tuned)
    assert (arrival.b.seconds, arrival.ratio, arrival.sooner) == (0.0, None, None)


def test_what_the_first_steps_compile_is_start_up_where_the_clock_stops_for_evaluations(tmp_path: Path) -> None:
    """modded-nanogpt evaluates before the first step and compiles in it; until 2025, its clock began anew after the
    tenth."""

    def modded(name: str, *first_ms: int) -> Diagnosis:
        clock_ms, lines = 0, [f"step:0/60 val_loss:{10.8:.4f} train_time:0ms step_avg:nanms"]
        for step in range(1, 61):
            clock_ms += first_ms[step - 1] if step <= len(first_ms) else 200
            lines.append(f"step:{step}/60 train_time:{clock_ms}ms step_avg:{'nan' if step < 13 else 200}ms")
            clock_ms = 0 if step == 10 else clock_ms
            if step % 10 == 0:
                lines.append(f"step:{step}/60 val_loss:{8 - step / 10:.4f} train_time:{clock_ms}ms step_avg:200.00ms")
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return read(tmp_path / name)

    slow, quick = modded("slow.txt", 960_000, 2_900), modded("quick.txt")
    assert slow.wall.total_s == pytest.approx(60 * 0.2 + 959.8 + 2.7, rel=0.01)
    assert [moment.seconds for moment in training_curve(slow)][1:] == pytest.approx([2, 4, 6, 8, 10, 12], abs=0.25)
    found = arrive(slow, quick)
    assert found is not None
    assert found.ratio == pytest.approx(1.0, abs=0.03)


def test_a_first_evaluation_below_the_goal_only_bounds_the_time(make_diagnosis: Any) -> None:
    falls = [(1000 * k, 100.0 * k, 4 - 0.1 * k) for k in range(1, 11)]

    def said(a: list[tuple[int, float, float]], b: list[tuple[int, float, float]]) -> list[Finding]:
        runs = (make_diagnosis(name=name, curve=curve) for name, curve in (("a.log", a), ("b.log", b)))
        return [each for each in compare(*runs).findings if "arrival" in each.code or "sooner" in each.code]

    (unclear,) = said(falls, [(20_000, 4000.0, 2.9)])
    assert (unclear.code, unclear.numbers["later"], unclear.numbers["at_most_s"]) == (
        *("compare_arrival_uncertain", "b.log"),
        4000.0,
    )
    assert [each.code for each in said(falls, [(9_000, 500.0, 2.5)])] == ["compare_sooner_iterations"]
    assert said(falls, [(9_000, 995.0, 2.5)]) == [], "it may have been there long before"
