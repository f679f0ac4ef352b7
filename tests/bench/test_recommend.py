"""The fit behind the expected speeds, and the evidence for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nanopace.hardware.card_classes import CLASSES
from nanopace.hardware.speed_points import Point, measured_points, pace_of, published_points
from nanopace.hardware.trainers import FP8_PRODUCTS, TRAINERS
from recommend import left_out_in_turn
from speed_fit import START, expected, fit

POINTS = [point for point in (*measured_points(), *published_points()) if not point.left_out]
SHIPPED = {
    **{name: CLASSES[name.removeprefix("share ")].share for name in START if name.startswith("share")},
    **{f"bandwidth {name}": CLASSES[name].bandwidth_share for name in ("workstation", "server")},
    "power workstation": CLASSES["workstation"].power,
    **{name: TRAINERS[name.removeprefix("bytes ")].layer_bytes for name in START if name.startswith("bytes")},
    **{name: TRAINERS[name.removeprefix("products ")].products for name in START if name.startswith("products")},
    "fp8": FP8_PRODUCTS,
}


@pytest.mark.parametrize("point", POINTS[:: len(POINTS) // 20], ids=lambda point: f"{point.card} {point.trainer}")
def test_the_fit_expects_what_nanopace_expects(point: Point) -> None:
    found = pace_of(point)
    assert found is not None
    assert expected(point, SHIPPED) == pytest.approx(found.expected)


def test_hopper_and_laptops_have_the_constants_they_are_fitted_with() -> None:
    for name, same in (("hopper", "server"), ("laptop", "geforce")):
        first, second = CLASSES[name], CLASSES[same]
        assert (first.share, first.bandwidth_share) == (second.share, second.bandwidth_share)


@pytest.mark.slow
def test_the_constants_in_nanopace_are_those_of_the_fit() -> None:
    """Rounded. After a change to the points: `bench/recommend.py --fit`."""
    found = fit(POINTS)
    assert found.keys() == SHIPPED.keys()
    for name, value in found.items():
        assert SHIPPED[name] == pytest.approx(value, rel=0.015), name


@pytest.mark.slow
@pytest.mark.usefixtures("untraced")
def test_each_card_left_out_four_of_five_points_are_close_and_nine_of_ten_inside() -> None:
    judged = [each for each in left_out_in_turn(POINTS, fit(POINTS)) if each.point.trainer != "nanopace"]
    several = [each for each in judged if each.kind.name not in ("volta", "amd", "blackwell")]
    assert len(several) == 170
    assert sum(each.close for each in several) >= 0.8 * len(several)
    assert sum(each.inside for each in several) >= 0.9 * len(several)
    assert sum(each.inside for each in judged) >= 0.9 * len(judged)


@pytest.mark.slow
def test_a_card_that_is_left_out_tells_nothing_about_itself() -> None:
    """If all its speeds are tenfold, they are ten times as far from the same expectation."""
    few = [point for point in POINTS if point.trainer in ("llm.q", "nanogpt")]
    constants = fit(few)
    lied = [replace(each, tokens_per_s=each.tokens_per_s * (10 if each.card == "RTX 5090" else 1)) for each in few]
    honest, wrong = (
        [1 + each.off for each in left_out_in_turn(points, constants) if each.point.card == "RTX 5090"]
        for points in (few, lied)
    )
    assert len(honest) == 8
    assert wrong == pytest.approx([10 * each for each in honest], rel=1e-6)
