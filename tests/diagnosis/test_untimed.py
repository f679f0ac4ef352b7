"""Logs with losses but no step times: the loss is explained, and nothing is said about time."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace import compare, diagnose, render
from nanopace.diagnosis.result import Diagnosis, Wall
from nanopace.run import Row, Run
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.table import NANOCHAT, NANOGPT
from nanopace.sources.runs import open_runs

from .synthetic import nanogpt_run

LANGUAGES = ("en", "de", "fr", "es")


def untimed_run(
    rows: int = 200,
    *,
    every: int = 10,
    first: int = 10,
    eval_ms: float | None = 2000.0,
    wall_ms: float | None = 640_000.0,
    name: str = "state.json",
    **facts: Any,
) -> Run:
    """2,000 iterations of 300 ms, with an evaluation every 100; the 20 evaluations take 40 s."""
    builder = RunBuilder(name, NANOCHAT)
    for fact, value in facts.items():
        builder.fact(fact, value)
    for at in range(first, first + rows * every, every):
        builder.untimed_row(at, 2 + 8 * (at + 1) ** -0.3)
        if at % 100 == 0:
            builder.evaluation(at, None, 2.1 + 8 * (at + 1) ** -0.3, ms=eval_ms)
    if wall_ms is not None:
        builder.wall_ms(wall_ms)
    (run,) = builder.finish()
    return run


def said(diagnosis: Diagnosis) -> str:
    return " ".join(render(diagnosis, lang="en").split())


def numbers(diagnosis: Diagnosis, code: str) -> dict[str, object]:
    (found,) = (dict(finding.numbers) for finding in diagnosis.findings if finding.code == code)
    return found


def test_what_is_known_and_what_is_not() -> None:
    found = diagnose(untimed_run(tokens_per_iteration=65536, max_iters=3000, gpu="H100"))
    assert (found.source.rows, found.source.first_iteration, found.source.last_iteration) == (200, 10, 2000)
    assert found.source.log_interval == 10
    unknown = dict.fromkeys(Wall._fields) | {"total_s": 640.0, "evaluation_s": 40.0, "unknown_s": 600.0}
    assert {name: getattr(found.wall, name) for name in Wall._fields} == unknown | {"measured": True}
    assert (found.step.median_ms, found.step.spread, found.step.levels) == (None, None, ())
    assert (found.evaluations.count, found.evaluations.each_ms) == (20, 2000.0)
    assert found.throughput.tokens_total == 2000 * 65536
    assert found.throughput.tokens_per_s_overall == pytest.approx(2000 * 65536 / 640)
    assert (found.throughput.tokens_per_s, found.throughput.tokens_per_day) == (None, None)
    assert (found.ahead.remaining_iterations, found.ahead.eta_s, found.ahead.seconds_per_1000) == (999, None, None)
    assert (found.mfu.card, found.mfu.achieved_tflops, found.mfu.verdict) == (None, None, None)
    assert numbers(found, "untimed_log") == {"rows": 200, "total_s": 640.0, "mean_step_s": pytest.approx(0.3)}
    assert found.loss.best_val_iteration == 2000
    assert found.loss.forecast == (), "nanochat's learning rate falls at the end: no trend leads there"
    assert not [finding for finding in found.findings if finding.advice]
    curves = found.curves
    assert len(curves.row_loss) == len(curves.row_iteration) == len(curves.row_ms) == len(curves.row_seconds) == 200
    assert {*curves.row_ms, *curves.row_seconds, *curves.eval_seconds, *curves.row_cause} == {None}
    assert len(curves.eval_val) == len(curves.eval_seconds) == 20


@pytest.mark.parametrize(
    ("run", "mean_s"),
    [
        (untimed_run(wall_ms=None), None),
        (untimed_run(eval_ms=None), None),  # the evaluations' share is unknown
        (untimed_run(first=1000), None),  # so is the time of the earlier part
        (untimed_run(wall_ms=30_000.0), None),  # evaluations longer than the total are not part of it
        (untimed_run(first=0), 600 / 1991),  # a trainer that counts from 0
        (untimed_run(first=7, eval_ms=None), 640 / 1997),  # no evaluation
    ],
)
def test_the_mean_step_is_told_only_where_it_is_known(run: Run, mean_s: float | None) -> None:
    told = numbers(diagnose(run), "untimed_log")["mean_step_s"]
    assert told == (None if mean_s is None else pytest.approx(mean_s, rel=0.004))


def test_what_is_said_of_the_loss() -> None:
    builder = RunBuilder("log", NANOGPT)
    for at in range(0, 1000, 10):
        builder.untimed_row(at, 9.0 if at == 500 else 4.0 - at / 500 + 0.01 * (at % 3))
        if at % 50 == 0:
            builder.evaluation(at, 4.0 - at / 500, 4.0 - min(at, 500) / 500 + max(0, at - 500) / 1000)
    (run,) = builder.finish()
    found = diagnose(run)
    codes = {finding.code for finding in found.findings}
    assert {"overfitting", "loss_spikes", "loss_noise", "training_loss_course"} <= codes
    assert numbers(found, "training_loss_course")["rows"] == 10
    assert "overfitting" in said(found).split("Where the time went")[0]
    assert "0 ms" not in said(found)


def test_a_loss_that_diverges_gets_advice() -> None:
    builder = RunBuilder("log", NANOGPT)
    builder.fact("dtype", "float16")
    for at in range(50):
        builder.untimed_row(at, math.inf if at > 30 else 3.0)
    builder.ending("diverged")
    (run,) = builder.finish()
    found = diagnose(run)
    assert numbers(found, "loss_diverged") == {"iteration": 31, "first": None}
    assert numbers(found, "ended_diverged") == {"last_iteration": 49}
    assert [finding.code for finding in found.findings if finding.advice] == ["leave_float16", "calm_the_loss"]


def test_no_chart_and_no_tile_of_a_time() -> None:
    page = render(diagnose(untimed_run(wall_ms=None)), format="html", lang="en")
    assert "run0-times" not in page
    assert "loss-seconds" not in page
    assert "Where the time went" not in page
    assert "<dt>wall clock" not in page
    assert "run0-loss-iteration" in page
    timed = render(diagnose(nanogpt_run()), format="html", lang="en")
    assert "run0-times" in timed
    assert "Where the time went" in timed
    assert "<dt>wall clock" in timed


def test_losses_are_compared_at_equal_steps() -> None:
    timed = nanogpt_run(2000, log_interval=10, eval_interval=100)
    for other, code in ((untimed_run(name="b"), "compare_both_untimed"), (timed, "compare_untimed")):
        found = compare(untimed_run(name="a"), other)
        assert [finding.code for finding in found.findings[:1]] == [code]
        assert "compare_loss_iterations" in {finding.code for finding in found.findings} or other is not timed
        assert (found.equal_time, found.arrival, found.median_ms.a) == ((), None, None)
        page = render(found, format="html", lang="en")
        assert ("Loss against time" in page) == ("Iteration times" in page) == (other is timed)


# --- anything --------------------------------------------------------------------------------------------------------

losses = st.one_of(st.floats(0, 12), st.sampled_from([math.inf, 1e9, None]))


@st.composite
def untimed_runs(draw: st.DrawFn) -> Run:
    """Rows at any distance, evaluations with and without their time, before, among and after them, restarts."""
    builder = RunBuilder("a.log", draw(st.sampled_from([NANOGPT, NANOCHAT])))
    facts = {"tokens_per_iteration": 1000, "max_iters": 50, "gpu": "H100", "flops_per_token": 8.5e8, "batch_size": 8}
    for name, value in facts.items():
        if draw(st.booleans()):
            builder.fact(name, value)
    at = draw(st.sampled_from([0, 1, 10, 5000]))
    for _ in range(draw(st.integers(1, 40))):
        if draw(st.integers(0, 2)) == 0:
            ms = draw(st.one_of(st.none(), st.floats(0, 1e6)))
            builder.evaluation(
                at, draw(losses), draw(losses), ms=ms, metric=draw(st.sampled_from(["loss", "bpb", "core"]))
            )
            if draw(st.booleans()):
                builder.checkpoint(path="out")
        builder.untimed_row(at, draw(losses))
        at += draw(st.sampled_from([1, 1, 10, 10, 10, 137, -10 if at > 20 else 1]))
        if draw(st.integers(0, 9)) == 0:
            builder.begin_process(fresh=False)
    if draw(st.booleans()):
        builder.wall_ms(draw(st.floats(0, 1e7)))
    if draw(st.booleans()):
        builder.ending(draw(st.sampled_from(["finished", "interrupted", "error"])))
    return builder.finish()[0]


@settings(max_examples=150, deadline=None)
@given(untimed_runs(), untimed_runs(), st.sampled_from(LANGUAGES))
def test_anything_without_times_is_explained_and_compared(run: Run, other: Run, language: str) -> None:
    found = diagnose(run)
    assert not found.timed
    assert not [finding for finding in found.findings if finding.saves_s is not None]
    document = json.loads(render(found, format="json"))
    assert document["step"]["median_ms"] is document["wall"]["training_s"] is document["wall"]["goodput"] is None
    for axis in ("row", "eval"):
        assert len({len(column) for name, column in document["curves"].items() if name.startswith(f"{axis}_")}) == 1
    assert "None" not in render(found, lang=language)
    timed = nanogpt_run(300, log_interval=10, eval_interval=100)
    for pair in (compare(run, other), compare(run, timed), compare(timed, run)):
        assert "None" not in render(pair, lang=language)
        assert render(pair, format="json")


@pytest.mark.parametrize(("losses", "told"), [((4.0, 3.5, 3.0), True), ((4.0, 3.5, math.inf), False)])
def test_the_last_row_has_a_loss_where_one_is_told_of_it(losses: tuple[float, ...], told: bool) -> None:
    builder = RunBuilder("log", NANOGPT)
    for at, loss in enumerate(losses):
        builder.untimed_row(at, loss)
    (run,) = builder.finish()
    assert ("training_loss_course" in {each.code for each in diagnose(run).findings}) == told


def test_a_log_of_evaluations_says_once_that_it_overfits() -> None:
    vals = [4.2, 1.9, 1.6, 1.5, 1.55, 1.6, 1.7, 1.8]
    log = "".join(f"step {500 * n}: train loss {4.2 / (n + 1):.4f}, val loss {val}0\n" for n, val in enumerate(vals))
    (run,) = open_runs(io.BytesIO(log.encode()))
    said = render(diagnose(run))
    assert said.count("The model is overfitting") == 1
    assert "log_interval" not in said
    assert "312" not in said


@pytest.mark.parametrize("evaluations", [0, 1])
def test_with_times_the_course_is_told_only_where_no_evaluation_tells_more(evaluations: int) -> None:
    builder = RunBuilder("log", NANOGPT)
    for at in range(40):
        builder.row(Row(at, 100.0, 4 - at / 100))
        if evaluations and at == 20:
            builder.evaluation(at, 3.9, 3.9)
    (run,) = builder.finish()
    found = [each.numbers for each in diagnose(run).findings if each.code == "training_loss_course"]
    expected = {"first_loss": pytest.approx(3.985), "last_loss": pytest.approx(3.625), "rows": 4}
    assert found == ([] if evaluations else [expected])
