"""Cards that reach a similar share of their data sheet's figures, and the range of speeds that would not surprise us.

The shares of classes with points are fitted to all published and measured speeds at once (`bench/recommend.py --fit`).
Taken together, their ranges hold nine of ten points of cards left out of the fit. The other classes are guesses with a
reason and a wide range.
"""

from __future__ import annotations

from dataclasses import dataclass

from nanopace.hardware.cards import Card


@dataclass(frozen=True, slots=True)
class CardClass:
    """One class of cards."""

    name: str
    share: float  # of the peak, in matrix products
    bandwidth_share: float  # of the memory bandwidth, in everything else
    below: float  # the range, as factors of the expected value
    above: float
    measured: bool  # whether there are points of several cards of this class, or many of one
    seen: str = ""  # the cards whose speeds these shares come from
    power: float = 0.0  # exponent: by how much the share falls with the watts for each TFLOP/s


_GDDR = 0.8  # of the bandwidth, where the peak is low enough that little else waits for memory
# Half the tensor rate with FP32 accumulation, which they nearly reach.
_GEFORCE = CardClass("geforce", 0.95, _GDDR, 0.78, 1.22, True, "RTX 3090, 3090 Ti, 4070, 4090, 5060 Ti, 5090")
# The same chips at the full rate. Their board power lasts for a part of that: an L4 has 0.6 W for each TFLOP/s.
_PROFESSIONAL = "RTX A4000 to A6000, RTX 2000 to 6000 Ada, RTX PRO 6000, A40, L4, L40, L40S"
_WORKSTATION = CardClass("workstation", 0.86, 0.55, 0.75, 1.25, True, _PROFESSIONAL, power=0.66)
# Full rate and fast memory: the narrower the model, the more its products wait for that memory.
_FULL_RATE = "A100, H100, H200"
_SERVER = CardClass("server", 0.86, 0.4, 0.78, 1.22, True, _FULL_RATE)
_HOPPER = CardClass("hopper", 0.86, 0.4, 0.8, 1.2, True, _FULL_RATE)  # a hundred points of ours are from one H200
_BLACKWELL = CardClass("blackwell", 0.57, 0.4, 0.6, 1.3, False, "B200")  # one card
# One card, a V100: it has no bf16, and torch's kernels for it are old. Its host was the limit in five of 18 points.
_VOLTA = CardClass("volta", 0.45, _GDDR, 0.65, 1.3, True, "V100")
# No point: between a V100's and a GeForce card's.
_TURING = CardClass("turing", 0.65, _GDDR, 0.55, 1.5, False)
_SINGLE = CardClass("single", 0.85, _GDDR, 0.7, 1.3, True, "P100, GTX TITAN X")  # float32 without tensor cores
# Two laptops: 31k tokens/s where a desktop card with its figures would have 34k. Power supplies differ.
_LAPTOP = CardClass("laptop", 0.95, _GDDR, 0.55, 1.2, False, "RTX 3060 Laptop, 4070 Laptop")
# Turing at 70 W. One point, not compiled: a T4 reaches half of this.
_LOW_POWER = CardClass("low_power", 0.28, 0.43, 0.55, 1.7, False)
_AMD = CardClass("amd", 0.315, _GDDR, 0.5, 1.5, False, "MI300X")  # one log that is probably from an MI300X
_GIVEN = CardClass("given", 0.9, 0.6, 0.55, 1.4, False)  # between GeForce and server
CLASSES = {
    kind.name: kind
    for kind in (
        *(_GEFORCE, _WORKSTATION, _SERVER, _HOPPER, _BLACKWELL, _VOLTA, _TURING),
        *(_SINGLE, _LAPTOP, _LOW_POWER, _AMD, _GIVEN),
    )
}
_CAPPED_WATTS = 150
_GRAPHICS = ("8.6", "8.9", "12.0")  # compute capabilities that GeForce cards have, too
ENOUGH_WATTS = 1.5  # for each TFLOP/s of the peak: with more, power does not limit the share


def card_class(card: Card) -> CardClass:
    """The class whose shares a card gets."""
    if not card.arch or card.arch == "Apple":  # of which no peak is known but one given by hand
        return _GIVEN
    if card.compute.startswith("gfx"):
        return _AMD
    if card.without_tensor_cores:
        return _SINGLE
    if "Laptop" in card.name:
        return _LAPTOP
    if card.without_bf16:
        return _VOLTA if card.arch == "Volta" else _LOW_POWER if _is_capped(card) else _TURING
    if "GeForce" in card.name:
        return _GEFORCE
    if card.compute in _GRAPHICS:
        return _WORKSTATION
    if card.arch == "Blackwell":
        return _BLACKWELL
    if card.arch == "Hopper" and card.bf16_tflops is not None and card.bf16_tflops > 900:
        return _HOPPER
    return _SERVER


def _is_capped(card: Card) -> bool:
    return card.tdp_w is not None and card.tdp_w <= _CAPPED_WATTS and "GeForce" not in card.name
