"""The complete diagnosis, on improbable runs."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.diagnosis.codes import FINDINGS
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.run import Checkpoint, Evaluation, Restart, Row, Rows, Run, Span

from .synthetic import known, nanogpt_run, rows_run

times = st.floats(0.01, 1e6)
CHECKPOINT_INTERVAL = ("checkpoint_low_s", "checkpoint_high_s")
NULLABLE = {
    ("evaluation_rows", "interval"),
    ("checkpoint_unknown", "predicted_s"),
    *((code, end) for code in ("checkpoint_measured", "checkpoint_stamped") for end in CHECKPOINT_INTERVAL),
    ("mfu_zero", "achieved_tflops"),
    ("evaluations_outside_clock", "timed"),
    ("evaluations_outside_clock", "timed_s"),
    ("loss_noise", "accumulation"),
    ("find_the_stall", "interval"),
    ("overfitting", "gap_trend"),
    ("overfitting", "train_steps"),
    ("gap_grows", "train_steps"),
}


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Anything the contract allows: gaps, folded rows, evaluations anywhere, restarts, every clock."""
    rows, clock, stamped = Rows(), 1e9, draw(st.booleans())
    iteration = draw(st.sampled_from([0, 0, 0, 1, 5000]))
    for _ in range(draw(st.integers(0, 30))):
        count = draw(st.sampled_from([1, 1, 1, 1, 7]))
        spacing = draw(st.sampled_from([1, 10]))
        last = iteration + (count - 1) * spacing
        ms = draw(st.one_of(st.just(100.0), times))
        mfu = draw(st.one_of(st.none(), st.floats(0, 2)))
        clock += draw(st.sampled_from([-5.0, 0.0, 1.0, 1.0, 300.0]))
        loss_of_row, at_s = draw(st.one_of(st.none(), st.floats(0, 12))), clock if stamped else None
        rows.append(Row(iteration, ms, loss_of_row, mfu, count, last, ms * count, at_s))
        iteration = last + draw(st.sampled_from([1, 10, 10, 137]))
    inside = draw(st.booleans())
    indices = st.lists(st.integers(0, len(rows) - 1), unique=True, max_size=12) if len(rows) else st.just([])
    measured = st.one_of(st.none(), times)
    evaluated = [(rows.iteration[index], index if inside else None) for index in draw(indices)]
    evaluated += [(at, None) for at in draw(st.lists(st.integers(0, iteration + 50), max_size=4))]
    saved = [(rows.iteration[index], index if inside else None) for index in draw(indices)]
    saved += [(at, None) for at in draw(st.lists(st.integers(0, iteration + 50), max_size=2))]
    loss = st.one_of(st.none(), st.floats(0, 12))
    restarts = [
        Restart(index, rows.iteration[index], rows.iteration[index] + draw(st.integers(-1, 200)), Rows(list(rows[:1])))
        for index in sorted(draw(indices))[:3]
    ]
    knobs = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "eval_iters": st.sampled_from([0, 20, 200]),
                "gradient_accumulation_steps": st.sampled_from([0, 1, 40]),
                "gpu_count": st.sampled_from([0, 1, 8]),
                "batch_size": st.just(12),
                "eval_interval": st.sampled_from([0, 100]),
                "tokens_per_iteration": st.just(491_520),
                "flops_per_token": st.just(8.5e8),
                "gpu": st.sampled_from(["RTX 4070", "RTX 3080", "no such card", "GTX 1080 Ti"]),
                "max_iters": st.sampled_from([0, 100, 600_000]),
            },
        )
    )
    return Run(
        name="train.log",
        format="nanogpt" if inside else "ledger",
        rows=rows,
        evaluations=tuple(
            Evaluation(
                at,
                draw(loss),
                draw(loss),
                row=row,
                ms=None if inside else draw(measured),
                at_s=draw(st.floats(1e9, clock)) if stamped and clock > 1e9 else None,
            )
            for at, row in sorted(evaluated, key=str)
        ),
        checkpoints=tuple(
            Checkpoint(at, row=row, ms=None if inside else draw(measured)) for at, row in sorted(saved, key=str)
        ),
        restarts=tuple(restarts),
        spans=()
        if inside
        else tuple(
            Span(phase, 0, 50.0)
            for phase in draw(st.lists(st.sampled_from(["data", "compile", "stall", "other"]), max_size=3))
        ),
        facts=known(knobs),
        row_contains_evaluation=inside,
        mfu_smoothing=draw(st.sampled_from([None, 0.9])),
        wall_ms=None if inside else draw(measured),
        ending=draw(st.sampled_from([None, "finished", "out_of_memory"])),
    )


def numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from numbers_in(each)
    elif isinstance(value, dict):
        yield from numbers_in(list(value.values()))
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from numbers_in(getattr(value, name))


@settings(max_examples=150, deadline=None)
@given(runs())
def test_anything_that_can_happen_has_a_diagnosis(run: Run) -> None:
    diagnosis = diagnose(run)
    assert all(map(math.isfinite, numbers_in(diagnosis)))

    wall = diagnosis.wall
    parts = (wall.training_s, wall.evaluation_s, wall.checkpoint_s, wall.startup_s, wall.stall_s, wall.restart_s)
    assert math.fsum(part or 0.0 for part in (*parts, wall.other_s, wall.unknown_s)) == pytest.approx(wall.total_s)
    assert all(part is None or part >= -1e-9 * wall.total_s for part in parts)
    assert wall.overhead_share is None or 0 <= wall.overhead_share <= 1

    for row in diagnosis.slow_rows:
        assert sum(row.parts_ms.values()) == pytest.approx(row.excess_ms)
    evaluations = diagnosis.evaluations
    assert evaluations.visible + evaluations.hidden == evaluations.count
    assert list(diagnosis.curves.row_seconds) == sorted(diagnosis.curves.row_seconds)

    for finding in diagnosis.findings:
        # An excerpt's only row may be a plain one: it is reported as for other trainers (diagnosis/other_trainers.py).
        more = {"elsewhere"} if finding.code == "no_plain_row" and finding.numbers.get("elsewhere") is True else set()
        assert set(finding.numbers) == set(FINDINGS[finding.code]) | more
        missing = {(finding.code, name) for name, number in finding.numbers.items() if number is None}
        assert missing <= NULLABLE


@pytest.mark.usefixtures("untraced")
@settings(max_examples=60, deadline=None)
@given(runs(), st.sampled_from([0.125, 3.0, 1000.0]))
def test_a_slower_clock_gives_the_same_diagnosis_in_larger_numbers(run: Run, factor: float) -> None:
    def scaled(rows: Rows) -> Rows:
        return Rows([replace(row, ms=row.ms * factor, sum_ms=row.sum_ms * factor) for row in rows])

    run = replace(run, rows=Rows([replace(row, at_s=None) for row in run.rows]))  # their units are not those of a clock

    def times_factor(ms: float | None) -> float | None:
        return None if ms is None else ms * factor

    slower = replace(
        run,
        rows=scaled(run.rows),
        evaluations=tuple(replace(each, ms=times_factor(each.ms)) for each in run.evaluations),
        checkpoints=tuple(replace(each, ms=times_factor(each.ms)) for each in run.checkpoints),
        restarts=tuple(replace(each, lost=scaled(each.lost)) for each in run.restarts),
        spans=tuple(replace(each, ms=each.ms * factor) for each in run.spans),
        wall_ms=times_factor(run.wall_ms),
    )
    a, b = diagnose(run), diagnose(slower)
    assert b.step.median_ms == pytest.approx(a.step.median_ms * factor)
    assert b.wall.total_s == pytest.approx(a.wall.total_s * factor)
    assert b.wall.training_s == pytest.approx(a.wall.training_s * factor)
    assert b.wall.overhead_share == pytest.approx(a.wall.overhead_share)
    assert [(row.iteration, row.causes) for row in a.slow_rows] == [(row.iteration, row.causes) for row in b.slow_rows]
    assert b.evaluations.each_ms == pytest.approx(times_factor(a.evaluations.each_ms))


def test_source_and_model() -> None:
    facts = {"parameters": 123.59e6, "flops_per_token": 854.8e6}
    diagnosis: Diagnosis = diagnose(nanogpt_run(facts=facts))
    source = diagnosis.source
    assert (source.name, source.format, source.rows) == ("train.log", "nanogpt", 201)
    assert (source.first_iteration, source.last_iteration, source.log_interval) == (0, 20_000, 100)
    assert diagnosis.model.parameters == 123.59e6
    assert diagnosis.facts["parameters"].origin == "flag"


def test_advice_comes_last() -> None:
    advice = [finding.advice for finding in diagnose(nanogpt_run()).findings]
    assert advice[-1]
    assert advice == sorted(advice)


def test_a_log_of_every_iteration() -> None:
    diagnosis = diagnose(nanogpt_run(3000, log_interval=1))
    assert [row.iteration for row in diagnosis.slow_rows] == [0, 500, 1000, 1500, 2000, 2500, 3000]
    assert diagnosis.checkpoints.each_ms == pytest.approx(470, abs=3)


@pytest.mark.usefixtures("untraced")
def test_three_hundred_rows_take_no_time() -> None:
    run = nanogpt_run(30_000)
    taken = []
    for _ in range(5):
        start = time.process_time()
        diagnose(run)
        taken.append(time.process_time() - start)
    assert min(taken) < 0.04  # about 6 ms


@pytest.mark.usefixtures("untraced")
@pytest.mark.slow
def test_a_hundred_thousand_rows_take_a_moment() -> None:
    run = rows_run([100.0 + index % 7 if index % 1000 else 900.0 for index in range(100_000)], log_interval=1)
    start = time.perf_counter()
    diagnosis = diagnose(run)
    assert time.perf_counter() - start < 6  # a busy machine; about 0.8 s otherwise
    assert len(diagnosis.slow_rows) == 100


def test_a_card_that_computes_nothing_is_not_praised() -> None:
    facts = {"tokens_per_iteration": 491_520, "flops_per_token": 8.5e8, "gpu": "RTX 4070"}
    run = nanogpt_run(facts=facts, step_ms=10_000.0)
    assert any(finding.code.startswith("utilisation_") for finding in diagnose(run).findings)
    lost = Rows([replace(row, loss=math.inf) if row.iteration > 9000 else row for row in run.rows])
    codes = [finding.code for finding in diagnose(replace(run, rows=lost)).findings]
    assert "loss_diverged" in codes
    assert not any(code.startswith("utilisation_") for code in codes)
    assert "nothing_to_change" not in codes
