"""Every card is found by its own name, and no card by another's."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.errors import AmbiguousCard, CardError, UnknownCard
from nanopace.hardware.cards import Card, all_cards, family_name, find_card, find_cards, split_count, variant_name

CARDS = all_cards()
NAMESAKES = Counter(card.name for card in CARDS)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.label)
def test_every_card_by_its_name_sms_and_memory(card: Card) -> None:
    for name in (card.name, card.name.lower(), card.name.removeprefix("NVIDIA "), f"  {card.name} "):
        assert find_card(name, sms=card.sms, memory_gb=card.memory_gb) is card
        assert find_card(name, memory_gb=card.memory_gb * 0.95) is card
        if NAMESAKES[card.name] == 1:
            assert find_card(name) is card
        else:
            assert find_card(f"{name} {card.memory_gb:g}GB") is card
            with pytest.raises(AmbiguousCard, match=rf"{card.memory_gb:g} GB"):
                find_card(name)
    assert find_card(card.label) is card, "what an error lists can be typed"


@pytest.mark.parametrize(
    ("asked", "name", "memory_gb"),
    [
        ("4070", "NVIDIA GeForce RTX 4070", 12),
        ("rtx4070", "NVIDIA GeForce RTX 4070", 12),
        ("GeForce(R) RTX(TM) 4070", "NVIDIA GeForce RTX 4070", 12),
        ("RTX4070Ti Super", "NVIDIA GeForce RTX 4070 Ti SUPER", 16),
        ("4060 Ti 16GB", "NVIDIA GeForce RTX 4060 Ti", 16),
        ("RTX 3080 12 GB", "NVIDIA GeForce RTX 3080", 12),
        ("3060 8g", "NVIDIA GeForce RTX 3060", 8),
        ("4090 D", "NVIDIA GeForce RTX 4090 D", 24),
        ("4090-laptop", "NVIDIA GeForce RTX 4090 Laptop GPU", 16),
        ("4090 Mobile", "NVIDIA GeForce RTX 4090 Laptop GPU", 16),
        ("1080ti", "NVIDIA GeForce GTX 1080 Ti", 11),
        ("A4000", "NVIDIA RTX A4000", 16),
        ("a40", "NVIDIA A40", 48),
        ("a10", "NVIDIA A10", 24),
        ("a10g", "NVIDIA A10G", 24),
        ("l4", "NVIDIA L4", 24),
        ("L40", "NVIDIA L40", 48),
        ("l40s", "NVIDIA L40S", 48),
        ("A6000", "NVIDIA RTX A6000", 48),
        ("quadro rtx 6000", "Quadro RTX 6000", 24),
        ("RTX 6000 Ada", "NVIDIA RTX 6000 Ada Generation", 48),
        ("RTX 6000 24GB", "Quadro RTX 6000", 24),
        ("A100 PCIe 80GB", "NVIDIA A100 80GB PCIe", 80),
        ("a100 sxm 40gb", "NVIDIA A100-SXM4-40GB", 40),
        ("H100 SXM", "NVIDIA H100 80GB HBM3", 80),
        ("H100 94GB", "NVIDIA H100 NVL", 94),
        ("T4", "Tesla T4", 16),
        ("gh200 480gb", "NVIDIA GH200 480GB", 96),
        ("MI300X", "AMD Instinct MI300X", 192),
        ("7900 XTX", "AMD Radeon RX 7900 XTX", 24),
        ("M2 Max", "Apple M2 Max", 96),
    ],
)
def test_what_people_call_them(asked: str, name: str, memory_gb: float) -> None:
    card = find_card(asked)
    assert (card.name, card.memory_gb) == (name, memory_gb)


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        ("3080", ["RTX 3080 (10 GB)", "RTX 3080 (12 GB)"]),
        (
            "A100",
            ["A100-SXM4-40GB (40 GB)", "A100-SXM4-80GB (80 GB)", "A100-PCIE-40GB (40 GB)", "A100 80GB PCIe (80 GB)"],
        ),
        ("V100 32GB", ["V100-SXM2-32GB", "V100-PCIE-32GB"]),
        ("H100", ["H100 80GB HBM3 (80 GB)", "H100 PCIe (80 GB)", "H100 NVL (94 GB)"]),
        ("RTX 6000", ["Quadro RTX 6000 (24 GB)", "RTX 6000 Ada Generation (48 GB)"]),
        ("RTX PRO 6000", ["Max-Q", "Workstation", "Server"]),
    ],
)
def test_shared_names_are_listed_with_their_memory(asked: str, listed: list[str]) -> None:
    with pytest.raises(AmbiguousCard) as caught:
        find_card(asked)
    named = str(caught.value.values["cards"]).split("; ")
    assert len(named) == len(listed)
    assert all(any(card in each for each in named) for card in listed)


@pytest.mark.parametrize(
    "asked",
    [
        "6000",
        "4000",
        "RTX A1000",
        "A1000",
        "4050",
        "Titan",
        "rtx",
        "100",
        "GTX 4070",
        "RTX 4070 16GB",
        "RTX 4070 16",
        "GTX 1670",
        "rtx 40",
        "40",
        "",
        "é",
    ],
)
def test_names_that_are_no_cards(asked: str) -> None:
    for find in (find_card, find_cards):
        with pytest.raises(UnknownCard):
            find(asked)


def test_an_unknown_card_names_its_neighbours() -> None:
    with pytest.raises(UnknownCard, match="RTX 4050 Laptop GPU"):
        find_card("RTX 4050")
    with pytest.raises(UnknownCard, match=r"only NVIDIA GeForce RTX 4070 \(12 GB\)"):
        find_card("RTX 4070 16GB")


def test_sms_tell_namesakes_apart() -> None:
    assert find_card("NVIDIA GeForce RTX 3080", sms=70).memory_gb == 12
    with pytest.raises(UnknownCard, match="68 SMs"):
        find_card("NVIDIA GeForce RTX 3080", sms=69)


def test_what_a_driver_reports_is_close_enough() -> None:
    assert find_card("RTX 3080", memory_gb=9.78).memory_gb == 10
    assert find_card("NVIDIA A40", memory_gb=44.3).name == "NVIDIA A40"
    with pytest.raises(UnknownCard):
        find_card("RTX 3080", memory_gb=20)


@pytest.mark.parametrize(
    ("asked", "dtype", "peak"),
    [
        ("4070", None, (58.3, "bf16")),
        ("4070", "float16", (58.3, "fp16")),
        ("4070", "float32", (58.3, "bf16")),
        ("A10G", "bfloat16", (70, "bf16")),
        ("2080 Ti", "bfloat16", (53.8, "fp16")),  # half of its fp16 rate with FP32 accumulate
        ("T4", "bfloat16", (65, "fp16")),
        ("T4", None, (65, "fp16")),
        ("V100 SXM2 32GB", "float32", (125, "fp16")),
        ("1080 Ti", None, (11.3, "fp32")),
        ("1660 SUPER", None, (5.0, "fp32")),
        ("P100", "float16", (9.3, "fp32")),
        ("GB10", None, None),  # its bf16 is unknown, and its fp32 no measure of it
        ("5090 laptop", None, None),
    ],
)
def test_peaks(asked: str, dtype: str | None, peak: tuple[float, str] | None) -> None:
    assert find_card(asked).peak_for(dtype) == peak


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.label)
def test_no_card_has_a_bf16_peak_that_it_has_not(card: Card) -> None:
    peak = card.peak_for("bfloat16")
    assert peak is None or (peak.precision == "bf16") == (card.bf16_tflops is not None)
    assert not card.without_bf16 or card.bf16_tflops is None


@pytest.mark.parametrize(
    ("asked", "family", "peaks"),
    [
        ("a100", "A100", {312}),
        ("A100 80GB", "A100", {312}),
        ("a100-40gb", "A100 40GB", {312}),
        ("a100-40", "A100 40GB", {312}),
        ("A100_80g", "A100", {312}),
        ("A100-PCIE", "A100", {312}),
        ("h100", "H100", {989.4, 756, 835.5}),
        ("H100 80GB", "H100", {989.4, 756}),
        ("H100 NVL", "NVIDIA H100 NVL", {835.5}),
        ("v100", "V100", {125, 112}),
        ("V100-32", "V100 32GB", {125, 112}),
        ("RTX 3080", "NVIDIA GeForce RTX 3080", {59.5, 61.3}),
        ("4060 ti", "NVIDIA GeForce RTX 4060 Ti", {44.1}),
        ("3090ti", "NVIDIA GeForce RTX 3090 Ti", {80}),
        ("rtx 6000", "rtx 6000", {130.5, 364.2}),
        ("GH200", "NVIDIA GH200 480GB", {989.5}),
        ("RTX 8000", "Quadro RTX 8000", {130.5}),
    ],
)
def test_all_that_a_name_may_mean(asked: str, family: str, peaks: set[float]) -> None:
    cards = find_cards(asked)
    assert family_name(cards, asked) == family
    assert {peak.tflops for card in cards if (peak := card.peak_for())} == peaks
    if len(cards) > 1:
        with pytest.raises(AmbiguousCard):
            find_card(asked)


def test_memory_narrows_a_family() -> None:
    assert [card.name for card in find_cards("h100", memory_gb=93.1)] == ["NVIDIA H100 NVL"]
    assert len(find_cards("v100", memory_gb=31.7)) == 2


def test_variants_have_names_that_tell_them_apart() -> None:
    for asked in ("h100", "3080", "v100", "a100", "rtx pro 6000"):
        cards = find_cards(asked)
        assert len({variant_name(card, cards) for card in cards}) == len(cards)
    assert variant_name(find_card("h100 sxm"), find_cards("h100")) == "H100 SXM"


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=30), st.text(alphabet="rtxa0459 -gb", max_size=16)))
def test_any_name_is_answered(name: str) -> None:
    try:
        card = find_card(name)
    except CardError:
        return
    assert card in CARDS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4090", (1, "4090")),
        ("2x 4090", (2, "4090")),
        ("8 × NVIDIA H100 80GB HBM3", (8, "NVIDIA H100 80GB HBM3")),
        ("4xA100-SXM4-80GB", (4, "A100-SXM4-80GB")),
        ("8*A100", (8, "A100")),
        ("T4 x2", (2, "T4")),
        ("h100x8", (8, "h100")),
        ("A100 80GB x 4", (4, "A100 80GB")),
        ("4090x2", (2, "4090")),
        ("7900 XTX", (1, "7900 XTX")),
        ("RTX 40", (1, "RTX 40")),
        ("0x 4090", (1, "0x 4090")),
        ("2x", (1, "2x")),
    ],
)
def test_several_of_a_card(text: str, expected: tuple[int, str]) -> None:
    assert split_count(text) == expected


def test_no_card_is_taken_for_several() -> None:
    assert all(split_count(card.name) == (1, card.name) for card in all_cards())
