"""The table of cards, and finding a card by the names that people and logs use.

Names are normalised and must match completely. Substrings would find an A40 in "RTX A4000" and an L4 in "L40". Several
cards can share a name: the RTX 3080 has 10 or 12 GB, the A100 exists in four forms. `find_card` returns one card, and
may need its memory or number of SMs; `find_cards` returns all candidates.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate
from typing import Literal, NamedTuple

from nanopace.errors import AmbiguousCard, CardError, UnknownCard

_TABLE = os.path.join(os.path.dirname(__file__), "cards.csv")

Precision = Literal["bf16", "fp16", "fp32"]


class Peak(NamedTuple):
    """The peak of a card, and in which precision."""

    tflops: float
    precision: Precision


class Card(NamedTuple):
    """One row of the table. Peaks are dense, in TFLOP/s, with FP32 accumulation, as in training."""

    name: str  # as torch and nvidia-smi print it
    arch: str
    compute: str  # compute capability such as 8.9; AMD's gfx name; empty for Apple
    memory_gb: float
    bandwidth_gb_s: float | None
    bf16_tflops: float | None
    fp16_tflops: float | None
    fp32_tflops: float | None
    sms: int | None  # compute units on AMD, cores on Apple
    boost_mhz: float | None
    tdp_w: float | None  # board power from the maker's product page; None if we are not sure
    source: str  # where the figures come from
    verified: str  # how far to trust them
    note: str

    @property
    def without_bf16(self) -> bool:
        """Whether it is known to lack bf16 arithmetic: torch then emulates it in fp32, which is slow."""
        return self.without_tensor_cores or self.arch in ("Volta", "Turing")

    @property
    def without_tensor_cores(self) -> bool:
        """True for Maxwell and Pascal, and for the small Turing cards."""
        return self.arch in ("Maxwell", "Pascal") or " GTX 16" in self.name

    @property
    def without_compiling(self) -> bool:
        """Whether torch.compile refuses it: triton needs compute capability 7.0, and does not know Apple's GPUs."""
        return self.arch in ("Maxwell", "Pascal", "Apple")

    def peak_for(self, dtype: str | None = None) -> Peak | None:
        """The peak that an mfu is a fraction of; None if unknown.

        This is the peak of the run's 16-bit format, if the card has it: bf16, unless the run uses float16 or the card
        has no bf16. A float32 run is measured against the same peak, which it cannot reach. Only a card without tensor
        cores is measured against its fp32 peak.
        """
        if self.bf16_tflops is not None and (dtype != "float16" or self.fp16_tflops is None):
            return Peak(self.bf16_tflops, "bf16")
        if self.fp16_tflops is not None:
            return Peak(self.fp16_tflops, "fp16")
        if self.without_tensor_cores and self.fp32_tflops is not None:
            return Peak(self.fp32_tflops, "fp32")
        return None

    @property
    def label(self) -> str:
        """The name with the memory size, to distinguish cards of the same name."""
        return f"{self.name} ({self.memory_gb:g} GB)"


@cache
def all_cards() -> tuple[Card, ...]:
    """All cards in the table, in order."""
    with open(_TABLE, encoding="utf-8", newline="") as file:
        return tuple(_card(row) for row in csv.DictReader(file))


def _card(row: dict[str, str]) -> Card:
    def number(column: str) -> float | None:
        return float(row[column]) if row[column] else None

    return Card(
        name=row["name"],
        arch=row["arch"],
        compute=row["sm"],
        memory_gb=float(row["memory_gb"]),
        bandwidth_gb_s=number("bandwidth_gb_s"),
        bf16_tflops=number("bf16_dense_tflops"),
        fp16_tflops=number("fp16_dense_fp32acc_tflops"),
        fp32_tflops=number("fp32_tflops"),
        sms=int(row["sms"]) if row["sms"] else None,
        boost_mhz=number("boost_mhz"),
        tdp_w=number("tdp_w"),
        source=row["source"],
        verified=row["verified"],
        note=row["note"].strip(" ;"),
    )


def given_card(name: str, peak_tflops: float, memory_gb: float) -> Card:
    """A card that is not in the table, from what the user knows about it."""
    row = dict.fromkeys(("arch", "sm", "bandwidth_gb_s", "fp16_dense_fp32acc_tflops", "fp32_tflops", "sms"), "")
    row |= dict.fromkeys(("boost_mhz", "tdp_w", "source", "verified", "note"), "")
    return _card({**row, "name": name, "memory_gb": str(memory_gb), "bf16_dense_tflops": str(peak_tflops)})


# --- finding ---------------------------------------------------------------------------------------------------------

# Words that distinguish nothing. "Quadro" is not one of them: a Quadro RTX 6000 is not an RTX 6000 Ada.
_MAKERS = {"nvidia", "corporation", "geforce", "tesla", "amd", "instinct", "radeon", "apple"}
_NOISE = _MAKERS | {"gpu", "graphics", "card", "edition", "generation"}
_SERIES = ("rtx", "gtx", "rx")  # "4070" is enough: no two series share a number
_SAME = {"mobile": "laptop", "sxm2": "sxm", "sxm4": "sxm", "sxm5": "sxm"}
_ALSO = {  # shop names, and abbreviations that fit only one card
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H200": "H200 SXM",
    "NVIDIA GH200 480GB": "GH200",
    "Quadro RTX 8000": "RTX 8000",
    "NVIDIA A800-SXM4-80GB": "A800",
    "Tesla V100S-PCIE-32GB": "V100S",
    "NVIDIA RTX PRO 5000 Blackwell": "RTX PRO 5000",
    "NVIDIA RTX PRO 4500 Blackwell": "RTX PRO 4500",
    "NVIDIA RTX PRO 4000 Blackwell": "RTX PRO 4000",
    "Tesla P100-PCIE-16GB": "P100",  # the one that can be rented by the hour
}

_MEMORY = re.compile(r"(?<![a-z0-9])(\d{1,3}) ?(?:gb|gib|g)(?![a-z0-9])")
_TRADE_MARK = re.compile(r"\((?:r|tm|c)\)")
_WORD = re.compile(r"[a-z0-9]+")
_BARE_MEMORY = re.compile(r"(.*[a-z]\d+[ _-])(\d{2,3})\s*", re.IGNORECASE)  # a100-40
_COUNTED = re.compile(r"\s*([1-9]\d{0,2})\s*[x×*]\s*(?=\S)(.*)", re.IGNORECASE)
_COUNT_LAST = re.compile(r"(.*(?:\s|\d|gb))[x×*]\s*([1-9]\d?)\s*", re.IGNORECASE)


def split_count(cards: str) -> tuple[int, str]:
    """Split off a count: '4x 4090' and 'T4 x2' give (4, '4090') and (2, 'T4'), '4090' gives (1, '4090')."""
    if found := _COUNTED.match(cards):
        return int(found[1]), found[2]
    if found := _COUNT_LAST.fullmatch(cards):
        return int(found[2]), found[1].strip()
    return 1, cards


def find_card(name: str, *, sms: int | None = None, memory_gb: float | None = None) -> Card:
    """The card with that name. `UnknownCard` if there is none, `AmbiguousCard` if there are several.

    `memory_gb` may be what the driver reports, which is a little less than the nominal size.
    """
    cards = find_cards(name, sms=sms, memory_gb=memory_gb)
    if len(cards) > 1:
        listed = "; ".join(card.label for card in cards)
        raise AmbiguousCard("{name}: several cards match; name one of {cards}", name=name, cards=listed)
    return cards[0]


def find_cards(name: str, *, sms: int | None = None, memory_gb: float | None = None) -> tuple[Card, ...]:
    """All cards that the name may mean, at least one. `UnknownCard` if there is none."""
    bare, typed_gb = _without_memory(name)
    bare_key = "".join(_words(bare))
    family = [entry.card for entry in _index() if bare_key in entry.openings]
    called = _called("".join(_words(name)))  # some names include the memory: A100-SXM4-40GB
    cards = called
    if not called:
        called = _called(bare_key) or (family if len(family) > 1 else [])
        cards = [card for card in called if typed_gb in (None, card.memory_gb)]
    cards = [card for card in _nearest_memory(cards, memory_gb) if sms in (None, card.sms)]
    if cards:
        return tuple(cards)
    if found := _BARE_MEMORY.fullmatch(name):
        with suppress(UnknownCard):
            return find_cards(f"{found[1]}{found[2]}GB", sms=sms, memory_gb=memory_gb)
    raise _unknown(name, bare_key, called, family)


def family_name(cards: Sequence[Card], asked: str) -> str:
    """Their common name, such as A100 for all four forms; `asked` if their names have nothing in common."""
    names = [card.name.removeprefix("NVIDIA ").removeprefix("Tesla ") for card in cards]
    if len(set(names)) == 1:
        return cards[0].name
    shared = [
        words[0] for words in zip(*(re.split(r"[ -]", each) for each in names), strict=False) if len({*words}) == 1
    ]
    return " ".join(shared) if any(map(str.isdigit, "".join(shared))) else asked


def variant_name(card: Card, cards: Sequence[Card]) -> str:
    """What distinguishes a card from the others: H100 SXM, RTX 3080 (10 GB)."""
    if sum(each.name == card.name for each in cards) > 1:
        return card.label
    return _ALSO.get(card.name, card.name)


def _called(key: str) -> list[Card]:
    return [entry.card for entry in _index() if key in entry.names]


def _nearest_memory(cards: list[Card], reported_gb: float | None) -> list[Card]:
    """The cards with the memory a driver reports, of which it keeps up to a tenth for itself."""
    if reported_gb is None:
        return cards
    nearest = min((abs(card.memory_gb - reported_gb) for card in cards), default=0.0)
    return [card for card in cards if abs(card.memory_gb - reported_gb) == nearest <= 0.1 * card.memory_gb]


def _unknown(name: str, key: str, namesakes: list[Card], family: list[Card]) -> CardError:
    if namesakes:
        have = "; ".join(f"{card.label}, {card.sms} SMs" for card in namesakes)
        return UnknownCard(
            "{name}: no card with that name, memory and SM count in the table, only {cards}", name=name, cards=have
        )
    from difflib import get_close_matches  # only needed for a wrong name

    close = get_close_matches(key[:40], [spelling for entry in _index() for spelling in entry.names], n=8, cutoff=0.6)
    near = [card.name for card in family] + [
        entry.card.name for each in close for entry in _index() if each in entry.names
    ]
    if near:
        few = ", ".join(list(dict.fromkeys(near))[:3])
        return UnknownCard(
            "{name}: no such card in the table; did you mean {near}? (nanopace cards lists them all)",
            name=name,
            near=few,
        )
    return UnknownCard("{name}: no such card in the table (nanopace cards lists them all)", name=name)


class _Entry(NamedTuple):
    card: Card
    names: frozenset[str]  # all complete names, normalised
    openings: frozenset[str]  # first words of names: "a100" begins four names, so it is not one itself


@cache
def _index() -> tuple[_Entry, ...]:
    return tuple(_entry(card) for card in all_cards())


def _entry(card: Card) -> _Entry:
    bare, memory = _without_memory(card.name)
    spellings = [_words(card.name)]
    if memory == card.memory_gb:  # in a GH200 480GB, the number is the memory of its CPU
        spellings.append(_words(bare))
    if card.name in _ALSO:
        spellings.append(_words(_ALSO[card.name]))
    spellings += [words[1:] for words in spellings if words[0] in _SERIES]
    openings = {opening for words in spellings for opening in list(accumulate(words))[:-1]}
    if spellings[0][0] == "quadro":
        openings.update(accumulate(spellings[0][1:]))
    names = frozenset("".join(words) for words in (*spellings, _words(card.label)))  # as errors list them
    return _Entry(card, names, frozenset(each for each in openings if re.search(r"\d", each)))


def _words(name: str) -> list[str]:
    words = _WORD.findall(_TRADE_MARK.sub(" ", name.lower()))
    return [_SAME.get(word, word) for word in words if word not in _NOISE]


def _without_memory(name: str) -> tuple[str, float | None]:
    """Split off the memory: 'RTX 3080 12 GB' gives ('rtx 3080', 12)."""
    found = _MEMORY.search(name.lower())
    if found is None:
        return name, None
    return name[: found.start()] + " " + name[found.end() :], float(found[1])
