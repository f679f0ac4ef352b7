"""The speeds that others published: which are used, which are not, and whether the model knows them."""

from __future__ import annotations

from statistics import fmean

import pytest

from nanopace.hardware.cards import find_card
from nanopace.hardware.speed_points import Point, measured_points, pace_of, published_points
from nanopace.hardware.trainers import TRAINERS

OURS, PUBLISHED = measured_points(), published_points()
USED = [point for point in PUBLISHED if not point.left_out]


def test_ours_are_those_that_the_ranges_are_about() -> None:
    """They include the logs of two runs on a 4070, and nanoGPT and ours on an H200; each names its source."""
    have = {(point.card, point.trainer, point.n_embd, point.batch_size): point.tokens_per_s for point in OURS}
    assert have["RTX 4070", "nanogpt", 768, 8] == 56_100
    assert have["RTX 4070", "nanogpt", 384, 16] == 134_100
    assert have["H200", "nanogpt", 768, 8] == 461_000
    assert have["H200", "nanogpt", 384, 16] == 936_000
    assert have["H200", "llm.c", 768, 64] == 564_000
    assert all(point.source and not point.left_out for point in OURS)


def test_the_log_of_two_rtx_4090_says_32_times_4() -> None:
    """16 x 32 stood here, which was assumed; 32 x 4 x 1024 tokens on each card in 1,191.36 ms."""
    (point,) = (each for each in OURS if each.card == "RTX 4090" and each.trainer == "nanogpt")
    assert (point.batch_size, point.accumulation) == (32, 4)
    assert point.tokens_per_s == pytest.approx(32 * 4 * 1024 / 1.19136, rel=1e-4)


def test_every_point_that_is_used_can_be() -> None:
    assert len(USED) == 182
    for point in USED:
        assert point.trainer in TRAINERS
        assert min(*point.size, point.batch_size, point.accumulation, point.tokens_per_s) > 0
        assert find_card(point.card)
        assert point.source
        assert pace_of(point) is not None


def test_what_is_left_out_has_a_reason_and_a_point_without_a_micro_batch_is() -> None:
    assert len(PUBLISHED) - len(USED) == 35
    for point in PUBLISHED:
        assert bool(point.batch_size and point.n_layer) or point.left_out
    assert all(point.source for point in PUBLISHED)


def off(point: Point) -> float:
    found = pace_of(point)
    return point.tokens_per_s / found.expected - 1


def test_four_of_five_are_within_15_per_cent_and_nine_of_ten_in_their_range() -> None:
    """With the constants in nanopace, to which these points contributed; bench/recommend.py leaves out their cards."""
    points = [point for point in (*USED, *OURS) if point.trainer != "nanopace"]
    assert sum(abs(off(point)) <= 0.15 for point in points) >= 0.85 * len(points)
    inside = [found.low <= point.tokens_per_s <= found.high for point in points if (found := pace_of(point))]
    assert sum(inside) >= 0.9 * len(points)


@pytest.mark.parametrize("trainer", ["llm.c", "llm.q", "nanochat", "nanogpt_early"])
def test_each_trainer_is_met_by_its_own_points(trainer: str) -> None:
    """So that the constants of one trainer are not those of another."""
    slow = "H100 NVL"  # in every program
    points = [point for point in (*USED, *OURS) if point.trainer == trainer and point.card != slow]
    assert len(points) >= 4
    assert all(abs(off(point)) < 0.165 for point in points)
    assert abs(fmean(map(off, points))) < 0.03


def test_an_accumulation_that_is_not_published_makes_a_step_of_gpt2() -> None:
    (point,) = (each for each in USED if "nanochat PR#540" in each.source)
    assert (point.batch_size, point.accumulation) == (16, 16)
    assert point.batch_size * point.accumulation * point.block_size == 524_288
