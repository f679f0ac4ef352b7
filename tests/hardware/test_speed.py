"""Expected speeds: every measured point is inside its range, and what cannot be known is unknown."""

from __future__ import annotations

import pytest

from nanopace.hardware.cards import all_cards, find_card, given_card
from nanopace.hardware.speed import Point, Range, card_class, measured_points, own_kernels, pace, pace_of

POINTS = measured_points()
GPT2 = (12, 768, 50304, 1024)


def name_of(point: Point) -> str:
    return f"{point.card} {point.trainer} {point.n_layer}x{point.n_embd} {point.batch_size} {'+'.join(point.steps)}"


@pytest.mark.parametrize("point", POINTS, ids=name_of)
def test_every_measured_point_is_in_its_range(point: Point) -> None:
    found = pace_of(point)
    assert found is not None
    assert found.low <= point.tokens_per_s <= found.high


def test_the_points_are_those_that_the_ranges_are_about() -> None:
    """They include the logs of two runs on a 4070, and nanoGPT and ours on an H200; each names its source."""
    have = {(point.card, point.trainer, point.n_embd, point.batch_size): point.tokens_per_s for point in POINTS}
    assert have["RTX 4070", "nanogpt", 768, 8] == 56_100
    assert have["RTX 4070", "nanogpt", 384, 16] == 134_100
    assert have["H200", "nanogpt", 768, 8] == 461_000
    assert have["H200", "nanogpt", 384, 16] == 936_000
    assert all(point.source for point in POINTS)


def test_ranges_are_worth_something() -> None:
    """A range that contains everything would pass the test above."""
    for point in POINTS:
        kind = card_class(find_card(point.card))
        assert kind.measured
        assert kind.above / kind.below < 1.5


def test_classes_that_nobody_measured_are_wider() -> None:
    widest_known = max(
        card_class(card).above / card_class(card).below for card in all_cards() if card_class(card).measured
    )
    for name in ("L4", "A100 SXM 80GB", "4090 laptop", "MI300X"):
        kind = card_class(find_card(name))
        assert not kind.measured
        assert kind.above / kind.below > widest_known


@pytest.mark.parametrize("name", ["2080 Ti", "T4", "1080 Ti", "M2 Max", "5090 laptop", "GB10"])
def test_no_bf16_peak_no_speed(name: str) -> None:
    assert pace(find_card(name), *GPT2, 8, 64) is None


@pytest.mark.parametrize(
    ("name", "ours"),
    [("4070", True), ("A100 SXM 80GB", True), ("5090 laptop", True), ("2080 Ti", False), ("MI300X", False)],
)
def test_where_our_kernels_run(name: str, ours: bool) -> None:
    assert own_kernels(find_card(name)) is ours


def test_a_larger_micro_batch_is_never_slower_and_a_longer_ladder_never_faster() -> None:
    card = find_card("H200")
    paces = [pace(card, *GPT2, count, 512 // count) for count in (1, 2, 4, 8, 16, 32, 64, 128)]
    expected = [found.expected for found in paces if found is not None]
    assert expected == sorted(expected)
    assert len(expected) == 8
    steps = ("activation", "hidden", "attention", "averages")
    climbed = [pace(card, *GPT2, 64, 8, steps=steps[:count]) for count in range(5)]
    rates = [found.expected for found in climbed if found is not None]
    assert rates == sorted(rates, reverse=True)


def test_our_kernels_may_gain_nothing_where_they_were_not_measured() -> None:
    ours, theirs = (pace(find_card("4070"), *GPT2, 8, 64, trainer=each) for each in ("nanopace", "nanogpt"))
    assert ours is not None
    assert theirs is not None
    assert ours.expected > theirs.expected
    assert ours.low == theirs.low


def test_a_card_by_hand() -> None:
    found = pace(given_card("mine", 58.3, 12), *GPT2, 8, 64, trainer="nanogpt")
    assert found is not None
    assert found.low < 56_100 < found.high
    assert found.high / found.low > 2


def test_the_slowest_rate_is_the_longest_time() -> None:
    assert Range(1.0, 2.0, 4.0).time_of(8.0) == Range(2.0, 4.0, 8.0)
