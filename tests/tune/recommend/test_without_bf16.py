"""Cards without bf16 have figures of fp16 or fp32, said to be those, and none of what our kernels need."""

from __future__ import annotations

import pytest
from tests.tune.recommend.looked_up import codes, knob

from nanopace.hardware.cards import Card, all_cards, find_card
from nanopace.hardware.memory import largest_micro_batch, peak_bytes
from nanopace.tune.recommend.models import NAMED
from nanopace.tune.recommend.notes import headline
from nanopace.tune.recommend.recommend import recommend


def test_cards_without_bf16() -> None:
    turing, pascal = recommend(find_card("2080 Ti"), NAMED["gpt2"]), recommend(find_card("1080 Ti"), NAMED["gpt2"])
    assert (knob(turing, "dtype"), knob(pascal, "dtype")) == ("float16", "float32")
    assert (turing.precision, turing.peak_tflops) == ("fp16", 53.8)
    assert (pascal.precision, pascal.peak_tflops) == ("fp32", 11.3)
    assert turing.tokens_per_s.expected > 2 * pascal.tokens_per_s.expected
    assert [code for code, _ in headline(turing)] == ["figures_fp16"]
    assert [code for code, _ in headline(pascal)] == ["figures_fp32"]
    assert codes(turing)[:3] == ["unmeasured", "memory", "no_kernels"]
    assert codes(pascal)[:3] == ["speed", "memory", "no_kernels"]  # a P100 and a GTX TITAN X were measured
    assert pascal.batch_size <= pascal.rungs[0].micro_batch < turing.rungs[0].micro_batch
    assert (knob(pascal, "compile"), [each for each in turing.knobs if each.knob == "compile"]) == (False, [])
    apple = recommend(find_card("M2 Max"), NAMED["gpt2"])
    assert (knob(apple, "device"), apple.tokens_per_s, apple.precision, codes(apple)[0]) == (
        "mps",
        None,
        None,
        "no_apple",
    )
    assert codes(recommend(find_card("5090 laptop"), NAMED["gpt2"]))[0] == "peak_unknown"


@pytest.mark.parametrize("card", [card for card in all_cards() if card.without_bf16], ids=lambda card: card.label)
def test_our_kernels_are_not_promised_to_cards_without_bf16(card: Card) -> None:
    """nanopace is nanoGPT's equal there: the same speed, the same micro-batch, no memory ladder, no recipe fast."""
    found = recommend(card, NAMED["gpt2"])
    assert found.tokens_per_s == found.nanogpt_tokens_per_s
    assert [(rung.trainer, rung.steps) for rung in found.rungs] == [("nanopace", ()), ("nanogpt", ())]
    assert found.rungs[0].micro_batch == found.rungs[1].micro_batch
    assert found.fast_seconds is None
    assert "no_kernels" in codes(found)
    assert not {"recipe", "memory"} & {choice.knob for choice in found.knobs}
    assert knob(found, "dtype") == {"fp16": "float16", "fp32": "float32"}[str(found.precision)]
    assert found.tokens_per_s is not None


@pytest.mark.parametrize(
    ("card", "compiled", "single"),
    [("P100", False, True), ("1660 SUPER", True, True), ("T4", True, False), ("M2 Max", False, True)],
)
def test_memory_is_that_of_the_number_format_and_of_what_is_compiled(card: str, compiled: bool, single: bool) -> None:
    found, size = recommend(find_card(card), NAMED["gpt2"]), NAMED["gpt2"].size
    assert found.memory_bytes == peak_bytes(size, found.batch_size, compiled=compiled, single=single)
    largest = largest_micro_batch(size, found.memory_gb, compiled, single=single)
    assert [rung.micro_batch for rung in found.rungs] == [largest, largest]
