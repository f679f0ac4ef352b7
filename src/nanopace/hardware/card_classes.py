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


_GDDR = 0.8  # of the bandwidth, where the peak is low enough that little else waits for memory
# Half the tensor rate with FP32 accumulation, which they nearly reach.
_GEFORCE = CardClass("geforce", 0.97, _GDDR, 0.78, 1.22, True, "RTX 3090, 4070, 4090, 5060 Ti, 5090")
# Full rate: the narrower the model, the more its products wait for memory.
_FULL_RATE = "A100, L40S, RTX PRO 6000, H100, H200"
_SERVER = CardClass("server", 0.86, 0.43, 0.78, 1.22, True, _FULL_RATE)
_HOPPER = CardClass("hopper", 0.86, 0.43, 0.8, 1.2, True, _FULL_RATE)  # a hundred points of ours are from one H200
# One card, a V100: it has no bf16, and torch's kernels for it are old. Its host was the limit in five of 18 points.
_VOLTA = CardClass("volta", 0.46, _GDDR, 0.65, 1.3, True, "V100")
# No point: between a V100's and a GeForce card's.
_TURING = CardClass("turing", 0.65, _GDDR, 0.55, 1.5, False)
_SINGLE = CardClass("single", 0.85, _GDDR, 0.7, 1.3, True, "P100, GTX TITAN X")  # float32 without tensor cores
# One laptop: 31k tokens/s where a desktop card with its figures would have 34k. Power supplies differ.
_LAPTOP = CardClass("laptop", 0.97, _GDDR, 0.55, 1.2, False, "RTX 4070 Laptop")
# llm.c reached 22.5% of the A10's 125 TFLOP/s (github.com/karpathy/llm.c/pull/621): 150 W is not enough for more.
_LOW_POWER = CardClass("low_power", 0.28, 0.43, 0.55, 1.7, False, "A10")
_AMD = CardClass("amd", 0.32, _GDDR, 0.5, 1.5, False, "MI300X")  # one log that is probably from an MI300X
_GIVEN = CardClass("given", 0.9, 0.6, 0.55, 1.4, False)  # between GeForce and server
CLASSES = {
    kind.name: kind
    for kind in (
        *(_GEFORCE, _SERVER, _HOPPER, _VOLTA, _TURING),
        *(_SINGLE, _LAPTOP, _LOW_POWER, _AMD, _GIVEN),
    )
}
_CAPPED_WATTS = 150


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
    if card.tdp_w is not None and card.tdp_w <= _CAPPED_WATTS and "GeForce" not in card.name:
        return _LOW_POWER
    if card.without_bf16:
        return _VOLTA if card.arch == "Volta" else _TURING
    if "GeForce" in card.name:
        return _GEFORCE
    if card.arch == "Hopper" and card.bf16_tflops is not None and card.bf16_tflops > 900:
        return _HOPPER
    return _SERVER
