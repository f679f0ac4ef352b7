"""The time to the same loss with recipe=fast: from nanoGPT's time, only where something comparable was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nanopace.hardware.cards import Card, all_cards, find_card
from nanopace.hardware.memory import fused_peak_bytes, usable_bytes
from nanopace.tune.recommend.config_file import config_text
from nanopace.tune.recommend.datasets import KNOWN, Dataset
from nanopace.tune.recommend.models import NAMED, find_model, in_vocabulary
from nanopace.tune.recommend.notes import notes
from nanopace.tune.recommend.recommend import Recommendation, fits, recommend
from nanopace.wording.catalog import words

GPT2 = NAMED["gpt2"]


def about_fast(found: Recommendation) -> list[str]:
    return [code for code, _ in notes(found) if code.startswith("fast")]


def reason(found: Recommendation) -> str | None:
    said = [words().reason(each.reason, each.numbers) for each in found.knobs if each.knob == "recipe"]
    return said[0] if said else None


def test_it_is_a_share_of_nanogpts_time() -> None:
    """On an H200, where it was measured: our own gpt2 does not enter."""
    found = recommend(find_card("H200"), GPT2)
    theirs = found.nanogpt_tokens_per_s.time_of(found.tokens)
    assert found.fast_seconds.low == pytest.approx(theirs.low / 5.7)
    assert found.fast_seconds.expected == pytest.approx(theirs.expected / 5.0, rel=0.01)
    assert found.fast_seconds.high == pytest.approx(theirs.high / 4.4)


@pytest.mark.parametrize(("tokens", "measured_s"), [(11_500_000, 3.4 + 1.0), (88_500_000, 30.3)])
def test_what_was_measured_is_in_the_range(tokens: int, measured_s: float) -> None:
    """Both comparisons in docs/recipes.md and docs/experiments/recipes.md, by nanoGPT's tokens: the steps, and in the
    shorter one the first update, which compiles."""
    found = recommend(find_card("H200"), GPT2, tokens=tokens).fast_seconds
    assert found.low < measured_s < found.high


def test_elsewhere_our_kernels_may_gain_nothing() -> None:
    found = recommend(find_card("4070"), GPT2)
    gain = found.tokens_per_s.expected / found.nanogpt_tokens_per_s.expected
    assert gain > 1.05
    theirs = found.nanogpt_tokens_per_s.time_of(found.tokens)
    assert found.fast_seconds.high == pytest.approx(gain * theirs.high / 4.4)
    assert found.fast_seconds.expected == pytest.approx(theirs.expected / 5.0, rel=0.01)


def test_the_reason_has_the_hours_and_the_notes_where_they_are_from() -> None:
    found = recommend(find_card("4070"), GPT2)
    hours = "same as nanoGPT; 'fast' should reach the same loss in about 2.7 h (extrapolated), but is not a GPT-2"
    assert str(reason(found)).replace("\u00a0", " ") == hours
    assert f'recipe = "gpt2"  # {hours}\n' in config_text(found)
    assert about_fast(found) == ["fast", "fast_limits"]
    said = " ".join(words().note(code, numbers) for code, numbers in notes(found))
    assert "1/5.7 to 1/4.4 of the time; longer runs and other text were not compared" in said
    assert "no ckpt.pt for nanoGPT, no fine-tuning of GPT-2's weights, no biases, and no FSDP" in said


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(recommend(find_card("4070"), NAMED["gpt2-medium"]), id="larger"),
        pytest.param(recommend(find_card("4070"), replace(GPT2, block_size=2048)), id="longer context"),
        pytest.param(recommend(find_card("4070"), find_model("n_layer=6,n_head=6,n_embd=384")), id="smaller"),
        pytest.param(
            recommend(find_card("4070"), in_vocabulary(GPT2, 65), dataset=Dataset("a", 10**10, 65)), id="chars"
        ),
        pytest.param(recommend(find_card("4070"), GPT2, dataset=KNOWN["shakespeare"]), id="dropout"),
        pytest.param(recommend(find_card("4070"), GPT2, tokens=5_000_000), id="shorter than any"),
        pytest.param(recommend(find_card("5090 laptop"), GPT2), id="unknown peak"),
        pytest.param(recommend(find_card("3050 laptop"), GPT2), id="too little memory for its tables"),
    ],
)
def test_without_a_comparable_run_there_is_no_figure(found: Recommendation) -> None:
    """But our kernels run, so the recipe is named, with what it cannot do."""
    assert found.fast_seconds is None
    assert about_fast(found) == ["fast_limits"]
    assert reason(found) == "same as nanoGPT; 'fast' reached the same loss sooner at GPT-2's size, but is not a GPT-2"


@pytest.mark.parametrize("card", ["MI300X", "2080 Ti", "M2 Max"])
def test_without_our_kernels_the_recipe_is_not_mentioned(card: str) -> None:
    found = recommend(find_card(card), GPT2)
    assert found.fast_seconds is None
    assert about_fast(found) == []
    assert reason(found) is None


@pytest.mark.parametrize("card", [each for each in all_cards() if fits(each, GPT2)], ids=lambda card: card.label)
def test_where_there_is_a_figure_it_fits(card: Card) -> None:
    """With nothing recomputed, as it was measured, and in order."""
    found = recommend(card, GPT2)
    if found.fast_seconds is None:
        return
    assert found.fast_seconds.low < found.fast_seconds.expected < found.fast_seconds.high < found.seconds.high
    peak = fused_peak_bytes(GPT2.size, found.batch_size, recipe="fast", fp8=True)
    assert peak <= usable_bytes(card.memory_gb)
