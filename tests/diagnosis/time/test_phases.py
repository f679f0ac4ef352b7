from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace import render
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Phases
from nanopace.run import Checkpoint, Fact, Phase, Rollback, Row, Rows, Run, Span

from ..synthetic import nanogpt_run


def measured(device: str = "cpu") -> Run:
    return Run(
        "ledger",
        "ledger",
        Rows([Row(iteration, 100.0 if iteration < 25 else 250.0, 3.0) for iteration in range(50)]),
        checkpoints=(Checkpoint(25, ms=40.0, background_ms=5000.0),),
        spans=(
            Span("startup", 0, 1000.0),
            Span("compile", 0, 2000.0),
            Span("data", 3, 50.0),
            Span("step", 3, 8000.0),
            Span("optimizer", 3, 700.0),
            Span("logging", 9, 5.0),
            Span("other", 9, 7.0),
        ),
        facts={"device": Fact(device, "log"), "compile": Fact(False, "log")},
        row_contains_evaluation=False,
        wall_ms=12_000.0,
    )


def test_what_was_measured() -> None:
    assert diagnose(measured()).phases == Phases(0.05, 8.0, 0.7, 1.0, 2.0, 0.005, 0.007, 5.0)


def test_a_log_of_rows_does_not_know() -> None:
    assert diagnose(nanogpt_run()).phases is None


def a_short_run(
    steps: Sequence[tuple[float, float, float]],
    told_at: Sequence[int],
    setbacks: tuple[Rollback, ...] = (),
    cut_off_ms: float = 0.0,
) -> Run:
    """The ms of data, forward and backward, and the optimizer of each step; spans are reported at these iterations.
    `cut_off_ms`: of a step that did not come to its end and has no row."""
    spans, before = [Span("startup", 0, 4000.0), Span("compile", 0, 6000.0)], 0
    phases: tuple[Phase, ...] = ("data", "step", "optimizer")
    for at in told_at:
        sums = [sum(column) for column in zip(*steps[before : at + 1], strict=True)]
        spans += [Span(phase, at, ms) for phase, ms in zip(phases, sums, strict=True)]
        before = at + 1
    spans.append(Span("step", len(steps), cut_off_ms))
    return Run(
        "ledger",
        "ledger",
        Rows([Row(iteration, sum(parts), 3.0) for iteration, parts in enumerate(steps)]),
        rollbacks=setbacks,
        spans=tuple(spans),
        row_contains_evaluation=False,
        wall_ms=10_000.0 + sum(map(sum, steps)) + sum(sum(each.lost.sum_ms) for each in setbacks),
    )


def test_what_the_first_step_took_beyond_a_step_is_no_part_of_training() -> None:
    """The first call of its optimizer takes a second, in a run whose training takes 1.1 seconds."""
    run = a_short_run([(2.0, 80.0, 1020.0), *[(1.0, 80.0, 20.0)] * 10], told_at=(0, 9, 10))
    diagnosis = diagnose(run)
    phases, wall = diagnosis.phases, diagnosis.wall
    assert phases is not None
    assert wall.training_s == pytest.approx(1.111)
    assert phases.optimizer_s == pytest.approx(0.22, abs=0.001)
    assert phases.forward_backward_s == pytest.approx(0.88, abs=0.001)
    assert phases.data_s + phases.forward_backward_s + phases.optimizer_s == pytest.approx(wall.training_s)
    text = " ".join(render(diagnosis).split())
    assert "start-up and compilation 90.8% 11.0 s" in text
    assert "– start-up 33.0% 4.00 s – compilation 49.5% 6.00 s – first steps 8.3% 1.00 s" in text
    assert "first steps" in render(diagnosis, format="html")


def test_waiting_for_host_memory_is_a_part_of_training() -> None:
    run = a_short_run([(1.0, 80.0, 20.0)] * 10, told_at=(9,))
    waited = replace(
        run, spans=(*run.spans, Span("bus", 9, 400.0)), rows=Rows([Row(each, 141.0) for each in range(10)])
    )
    diagnosis = diagnose(replace(waited, wall_ms=10_000.0 + 1410.0))
    assert diagnosis.phases is not None
    assert diagnosis.phases.bus_s == pytest.approx(0.4, abs=0.001)
    assert "– waiting for host memory" in " ".join(render(diagnosis).split())
    assert diagnose(run).phases.bus_s is None  # type: ignore[union-attr]


def test_a_stall_is_taken_from_what_was_waited_for() -> None:
    steps = [(1.0, 80.0, 20.0)] * 30
    steps[15] = (900.0, 80.0, 20.0)
    diagnosis = diagnose(a_short_run(steps, told_at=(9, 19, 29)))
    assert diagnosis.wall.stall_s == pytest.approx(0.899)
    assert diagnosis.phases is not None
    assert diagnosis.phases.data_s == pytest.approx(0.03, abs=0.002)
    assert diagnosis.phases.forward_backward_s == pytest.approx(2.4, abs=0.002)


@given(
    steps=st.lists(st.tuples(*[st.floats(0.5, 3000.0)] * 3), min_size=2, max_size=25),
    cuts=st.sets(st.integers(0, 24), max_size=5),
    lost=st.lists(st.floats(1.0, 3000.0), max_size=4),
    cut_off_ms=st.sampled_from([0.0, 70.0, 5000.0]),
)
@settings(max_examples=60, deadline=None)
def test_the_parts_of_training_are_never_more_than_training(
    steps: list[tuple[float, float, float]], cuts: set[int], lost: list[float], cut_off_ms: float
) -> None:
    told_at = sorted({cut for cut in cuts if cut < len(steps)} | {len(steps) - 1})
    setbacks = (Rollback(1, 1, len(lost), Rows([Row(1 + n, ms) for n, ms in enumerate(lost)])),) if lost else ()
    diagnosis = diagnose(a_short_run(steps, told_at, setbacks, cut_off_ms))
    phases = diagnosis.phases
    assert phases is not None
    parts = (phases.data_s, phases.forward_backward_s, phases.optimizer_s)
    assert min(parts) >= 0
    assert sum(parts) <= diagnosis.wall.training_s * (1 + 1e-9)


def test_the_reports_show_it() -> None:
    diagnosis = diagnose(measured())
    text = render(diagnosis)
    for label in ("waiting for data", "forward and backward", "optimizer", "compilation", "logging and other"):
        assert label in text
        assert label in render(diagnosis, format="html")
    assert "Checkpoints were written in the background, in 5.00 s." in text


@pytest.mark.parametrize(("logging_ms", "shown"), [(5.0, False), (240.0, True)])
def test_logging_has_a_line_where_it_is_worth_one(logging_ms: float, shown: bool) -> None:
    """It is in no row, so multiplying rows by step time misses it."""
    run = measured()
    spans = [Span(each.phase, 9, logging_ms) if each.phase == "logging" else each for each in run.spans]
    diagnosis = diagnose(replace(run, spans=tuple(spans)))
    assert ("– logging" in render(diagnosis)) is shown
    assert ("– logging" in render(diagnosis, format="html")) is shown


def test_on_a_cpu_nobody_speaks_of_a_card() -> None:
    codes = {finding.code for finding in diagnose(measured()).findings}
    assert "ran_on_cpu" in codes
    assert not codes & {"memory_spill", "turn_on_compile", "mfu_unknown"}
    assert "memory_spill" in {finding.code for finding in diagnose(measured("cuda")).findings}
