"""Times in seconds that are called milliseconds."""

from __future__ import annotations

import pytest

from nanopace import diagnose
from nanopace.run import Run

from ..reading import read_one


def run_of(dt: float, rate: float, tokens: int = 524_288, unit: str = "ms") -> Run:
    rows = "".join(
        f"step {n:4d} | loss: 3.000000 | dt: {dt + n % 3 * dt / 1000:.6f}{unit} | tok/sec: {rate:.2f}\n"
        for n in range(30)
    )
    return read_one(f"total desired batch size: {tokens}\n{rows}")


def test_the_rate_shows_that_they_are_seconds() -> None:
    diagnosis = diagnose(run_of(0.41, 524_288 / 0.41))
    assert diagnosis.step.median_ms == pytest.approx(410.4, abs=0.1)
    assert diagnosis.throughput.tokens_per_s == pytest.approx(524_288 / 0.41, rel=0.01)
    (said,) = [each for each in diagnosis.findings if each.code == "seconds_as_ms"]
    assert said.numbers["batch"] == 524_288
    assert said.numbers["step_s"] == pytest.approx(0.41, rel=0.01)
    assert said.numbers["printed_ms"] == pytest.approx(0.41, rel=0.01)


@pytest.mark.parametrize(
    ("dt", "rate", "unit"),
    [
        (410.0, 524_288 / 0.41, "ms"),  # all is right
        (0.41, 524_288 / 0.41, "s"),
        (410.0, 524_288 / 410.0, "ms"),  # the rate was divided by milliseconds
        (0.41, 524_288 / 0.41 / 8, "ms"),  # another factor
    ],
)
def test_other_times_stay_as_they_are(dt: float, rate: float, unit: str) -> None:
    run = run_of(dt, rate, unit=unit)
    assert run.rows.ms[0] == pytest.approx(dt * (1000 if unit == "s" else 1))
    assert "seconds_as_ms" not in {each.code for each in run.caveats}
