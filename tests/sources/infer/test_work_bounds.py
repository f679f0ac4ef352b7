"""The bounds that each row sets on the work of an iteration, checked by separate arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nanopace.run import Fact, Restart, Row, Rows, Run
from nanopace.sources.infer.infer import complete
from nanopace.sources.infer.mfu_smoothing import _half_step, printed_work

TICK, DUST, HALF = 0.005, 1e-9, 0.00005  # ms, share, and half of 0.01%


def work_of(
    rows: Sequence[tuple[float, float | None]], starts: Sequence[int] = (), weight: float | None = 0.9
) -> object:
    printed = [Row(10 * n, ms, mfu=mfu) for n, (ms, mfu) in enumerate(rows)]
    restarts = tuple(Restart(row, 10 * row, 10 * row) for row in starts)
    return printed_work(Run("log", "nanogpt", Rows(printed), restarts=restarts, mfu_smoothing=weight))


def bounds(mfu: float, inverse: float, ms: float, *, kept: float = 0.0, before: float = 0.0) -> tuple[float, float]:
    """mfu = kept x before + work x inverse, with both figures and the times rounded."""
    rounding = HALF * (1 + kept) + DUST * mfu
    low, high = ((mfu - kept * before + each) / inverse for each in (-rounding, rounding))
    blur = TICK / ms + DUST
    return low - low * blur, high + high * blur


def test_one_row() -> None:
    """It is the first with a figure, so nothing is averaged yet."""
    assert work_of([(50.0, None), (100.0, 0.1)]) == pytest.approx(bounds(0.1, 1 / 100, 100.0), rel=1e-12)
    assert work_of([(100.0, 0.1)]) is None  # there may have been others before it


def test_a_second_row_is_an_average() -> None:
    first = bounds(0.1, 1 / 100, 50.0)  # the shorter row blurs all of them
    second = bounds(0.11, 0.9 / 100 + 0.1 / 50, 50.0)
    found = work_of([(9.0, None), (100.0, 0.1), (50.0, 0.11)])
    assert found == pytest.approx((max(bounds(0.1, 1 / 100, 100.0)[0], second[0]), min(first[1], second[1])), rel=1e-5)
    assert found == pytest.approx(second, rel=2e-3)


def test_a_log_that_begins_later() -> None:
    """The second row adds 0.1 x work / 50."""
    expected = bounds(0.11, 0.1 / 50, 50.0, kept=0.9, before=0.1)
    assert work_of([(100.0, 0.1), (50.0, 0.11)]) == pytest.approx(expected, rel=1e-12)


def test_a_restart_is_a_log_that_begins_later() -> None:
    rows = [(100.0, 0.1), (50.0, 0.11)]
    assert work_of([(9.0, 0.5), *rows], starts=[1]) == work_of(rows)


def test_without_an_average_each_row_tells() -> None:
    narrow = work_of([(100.0, 0.1), (200.0, 0.05), (100.0, 0.1)], weight=None)
    assert narrow == pytest.approx(bounds(0.1, 1 / 100, 100.0), rel=1e-9)


@pytest.mark.parametrize(
    ("figures", "decimals"),
    [
        ([0.1234], 2),
        ([0.12345], 3),
        ([0.123456], 4),
        ([0.12], 2),  # a few figures may end in 0 by accident
        ([n / 100 for n in range(9)], 2),
        ([n / 100 for n in range(10)], 0),
        ([n / 1000 for n in range(10)], 1),
        ([0.1, float("nan")], 2),
        ([0.12345678], 6),
        ([0.1234567855], 7),  # and no more
    ],
)
def test_the_decimals_that_are_printed(figures: list[float], decimals: int) -> None:
    """Half of a percentage's last digit, as a share."""
    assert _half_step(figures) == pytest.approx(0.5 * 10.0**-decimals / 100)


def good(count: int) -> list[tuple[float, float | None]]:
    return [(9.0, None), *((100.0, 0.1) for _ in range(count))]


def test_five_rows_that_agree_are_no_accident() -> None:
    """A stretch that ends in a contradiction still counts if it is that long."""
    other = [(100.0, 0.9), *((100.0, 0.9) for _ in range(3))]
    five, four = work_of([*good(5), *other]), work_of([*good(4), *other])
    assert five == pytest.approx(work_of(good(5)))
    assert four is None


@pytest.mark.parametrize(("percent", "enough"), [(0.17, True), (0.16, False)])
def test_tokens_need_an_mfu_that_is_known_to_three_percent(percent: float, enough: bool) -> None:
    """Half a digit is 2.9% of 0.17%, and 3.1% of 0.16%."""
    printed = [Row(0, 50.0), *(Row(10 * n, 10_000.0, mfu=percent / 100) for n in range(1, 8))]
    facts = {"flops_per_token": Fact(1e9, "log")}
    found = complete(Run("log", "nanogpt", Rows(printed), facts=facts, mfu_smoothing=0.9))
    assert ("tokens_per_iteration" in found.facts) == enough
