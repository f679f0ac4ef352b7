from __future__ import annotations

import math

import pytest

from nanopace.tune.student import student


@pytest.mark.parametrize(
    ("share", "freedom", "expected"),
    [  # from printed tables
        (0.95, 1, 12.706),
        (0.95, 2, 4.303),
        (0.95, 3, 3.182),
        (0.95, 4, 2.776),
        (0.95, 9, 2.262),
        (0.95, 60, 2.000),
        (0.80, 5, 1.476),
        (0.99, 1, 63.657),
        (0.99, 8, 3.355),
        (0.999, 30, 3.646),
    ],
)
def test_students_t(share: float, freedom: int, expected: float) -> None:
    assert student(share, freedom) == pytest.approx(expected, abs=6e-4)


def test_with_many_measurements_it_is_the_normal_distribution_s() -> None:
    assert student(0.95, 100_000) == pytest.approx(1.95996, abs=1e-4)
    assert student(0.95, 1001) == pytest.approx(1.9623, abs=1e-4)


def test_it_is_exact_for_two_degrees_of_freedom() -> None:
    share = 0.7
    assert student(share, 2) == pytest.approx(math.sqrt(2 * share**2 / (1 - share**2)), rel=1e-12)
