"""What 2, 4 or 8 cards of one kind would reach together with DDP, if one such card was measured and its link is known.

Each card sends its gradients once per step, while the last backward pass still runs. We could not measure how much of
that overlaps or how fast the link is: the range goes from full overlap to none, on the slower of the link speeds below.
"""

from __future__ import annotations

from dataclasses import dataclass

from nanopace.hardware.card_classes import card_class
from nanopace.hardware.cards import Card
from nanopace.hardware.scaling import traffic_bytes
from nanopace.hardware.speed import Range

SEVERAL = (2, 4, 8)
# GB/s that a card sends. GeForce cards cannot access each other's memory, so the data goes through the host's.
_LINKS = {"nvlink": (100.0, 300.0), "host": (4.0, 12.0)}
_NVLINKED = ("NVIDIA H100 80GB HBM3", "NVIDIA H200")


@dataclass(frozen=True, slots=True)
class Together:
    """Several cards working on the same step."""

    count: int
    batch_size: int
    accumulation: int  # over all cards
    link: str | None
    tokens_per_s: Range | None
    seconds: Range | None  # to the token budget


def link_of(card: Card) -> str | None:
    """How cards of this kind are connected; None if none was measured, or several are not usually combined."""
    if card_class(card).name == "geforce":
        return "host"
    return "nvlink" if card.name in _NVLINKED else None


def together(one: Range, count: int, step_tokens: int, parameters: int, link: str) -> Range:
    """Tokens per second of `count` cards, if a single one reaches `one`."""
    sent = traffic_bytes(parameters, count, "ddp")
    slow, fast = (sent / (1e9 * speed) for speed in _LINKS[link])

    def rate(alone: float, waiting: float) -> float:
        return step_tokens / (step_tokens / (alone * count) + waiting)

    return Range(rate(one.low, slow), rate(one.expected, fast), rate(one.high, 0.0))
