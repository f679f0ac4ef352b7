"""The threshold of each statement about two runs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from nanopace.diagnosis.compare.align import Curve, align
from nanopace.diagnosis.compare.comparable import why_incomparable
from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.result import Level
from nanopace.record import replace

from ..conftest import make
from ..thresholds import Holds, codes, threshold


def leader(lead: float, error: float | None) -> str | None:
    a, b = (Curve((1.0, 2.0, 3.0), (5.0, 4.5, 4.0 - off), error) for off in (0.0, lead))
    return align(a, b).leader


def speeds(ratio: float, spread: float = 0.001, **more: Any) -> set[str]:
    runs = [make(median_ms=ms, **more) for ms in (100.0, 100.0 * ratio)]
    return codes(compare(*(replace(run, step=replace(run.step, spread=spread)) for run in runs)).findings)


def starts(a: float, b: float, dataset: str | None = None, later: float = 1.0) -> bool:
    runs = [make(dataset=dataset, curve=[(0, 0.0, val), (10, 10.0, later), (20, 20.0, later)]) for val in (a, b)]
    return why_incomparable(*runs) is None


def risen(rise: float, error: float | None = None) -> bool:
    curve = [(100 * k, 10.0 * k, val) for k, val in enumerate([5.0, 4.0, 3.0, 3.0 + rise], start=1)]
    run = make(curve=curve, tokens=1000.0)
    run = replace(run, loss=replace(run.loss, best_val=3.0, best_val_error=error))
    return "compare_risen" in codes(compare(run, make(curve=curve[:3], tokens=1000.0)).findings)


def overall(ratio: float, level: float = 1.0, stall_s: float = 0.0) -> set[str]:
    """The second run has faster steps, but overall fewer tokens per second by this factor."""
    slow, fast = (make(tokens=1000.0, median_ms=ms) for ms in (100.0, 50.0))
    slow = replace(slow, throughput=replace(slow.throughput, tokens_per_s_overall=9000.0))
    fast = replace(
        fast,
        throughput=replace(fast.throughput, tokens_per_s_overall=9000.0 / ratio),
        step=replace(fast.step, levels=(Level(0, 5000, 50.0), Level(5001, 20_000, 50.0 * level))),
        wall=replace(fast.wall, stall_s=stall_s, training_s=2000.0 - stall_s),
    )
    return codes(compare(slow, fast).findings)


def arrived(factor: float) -> set[str]:
    """b's clock runs slower by this factor."""
    runs = [
        make(name=name, tokens=1000.0, curve=[(100 * k, 10.0 * k * slower, 4.0 - 0.3 * k) for k in range(11)])
        for name, slower in (("a", 1.0), ("b", factor))
    ]
    return codes(compare(*runs).findings)


@pytest.mark.parametrize(
    ("holds", "low", "high", "expected"),
    [
        (lambda x: leader(x, 0.0) == "b", 0.0, 1.0, 0.002),
        (lambda x: leader(x, 0.1) == "b", 0.0, 1.0, 2 * math.hypot(0.1, 0.1)),
        (lambda x: leader(x, None) == "b", 0.0, 1.0, 0.01 * 4.0),
        (lambda x: "compare_speed_equal" in speeds(x, tokens=1000.0), 1.0, 1.1, math.exp(0.005)),
        (lambda x: "compare_speed_unclear" in speeds(x, 0.05, tokens=1000.0), 1.01, 1.1,
         math.exp(2 * math.sqrt(2) * 1.25 * 0.05 / 10)),
        (lambda x: "compare_time_per_iteration" in speeds(x), 1.0, 1.1, 1 / 0.995),
        (lambda x: starts(4.6, x), 4.6, 9.0, 5.1),
        (lambda x: starts(10.9, x), 5.0, 10.9, 0.95 * 10.9),
        (lambda x: starts(10.9, x, "owt"), 5.0, 10.9, 8.9),
        (lambda x: starts(10.9, x), 11.0, 13.9, 10.9 / 0.95),
        (lambda x: starts(10.9, 4.0, later=x), 1.0, 4.0, 0.6 * 4.0),
        (lambda x: "compare_arrival_same" in arrived(x), 1.0, 1.5, 1.02),
        (lambda x: starts(10.9, x), 13.5, 14.5, 14.0),  # no vocabulary is so large
        (lambda x: starts(10.9, x, later=5.0), 6.0, 8.0, math.log(1000)),  # below that, it may be a trained model
        (risen, 0.0, 1.0, 0.01 * 3.0),
        (lambda x: risen(x, 0.05), 0.0, 1.0, 3 * 0.05),
        (lambda x: "compare_overall" in overall(x), 1.0, 1.2, 1.02),
        (lambda x: "compare_stretch" in overall(1.1, level=x), 1.0, 1.5, 1.2),
        (lambda x: "compare_time_share" in overall(1.1, stall_s=x), 0.0, 500.0, 0.02 * 2000),
    ],
)  # fmt: skip
def test_of_two_runs(holds: Holds, low: float, high: float, expected: float) -> None:
    assert threshold(holds, low, high) == pytest.approx(expected, rel=1e-4)
