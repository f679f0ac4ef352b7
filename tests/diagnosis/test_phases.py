from __future__ import annotations

from nanopace import render
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.phases import find_phases
from nanopace.diagnosis.result import Phases
from nanopace.run import Checkpoint, Fact, Row, Rows, Run, Span

from .synthetic import nanogpt_run


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
    assert find_phases(measured()) == Phases(0.05, 8.0, 0.7, 1.0, 2.0, 0.005, 0.007, 5.0)


def test_a_log_of_rows_does_not_know() -> None:
    assert find_phases(nanogpt_run()) is None


def test_the_reports_show_it() -> None:
    diagnosis = diagnose(measured())
    text = render(diagnosis)
    for label in ("waiting for data", "forward and backward", "optimizer", "compiling", "logging and other"):
        assert label in text
        assert label in render(diagnosis, format="html")
    assert "Checkpoints were written beside training, in 5.00 s." in text


def test_on_a_cpu_nobody_speaks_of_a_card() -> None:
    codes = {finding.code for finding in diagnose(measured()).findings}
    assert "ran_on_cpu" in codes
    assert not codes & {"memory_spill", "turn_on_compile", "mfu_unknown"}
    assert {"memory_spill", "turn_on_compile"} <= {finding.code for finding in diagnose(measured("cuda")).findings}
