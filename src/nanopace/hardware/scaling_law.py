"""The loss to expect of N parameters and D tokens, by two published fits and what real runs add to them.

    Hoffmann et al. 2022 (arXiv 2203.15556)    1.69   + 406.4  / N^0.34   + 410.7   / D^0.28
    Besiroglu et al. 2024 (arXiv 2404.10102)   1.8172 + 482.01 / N^0.3478 + 2085.43 / D^0.3658

Both were fitted to another tokenizer and to DeepMind's text. GPT-2's longer tokens carry more, so a loss per token is
higher: by 0.10 to 0.24 above the mean of the two in the runs of `CURVES`, all of them web text with GPT-2's tokenizer
and AdamW. Other text, another tokenizer or another recipe shift it further than this range.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from nanopace.hardware.speed import Range

_LEAST_ABOVE, _MOST_ABOVE = 0.05, 0.30


class Curve(NamedTuple):
    """One validation loss of a real run."""

    parameters: float
    tokens: float
    loss: float
    source: str


_STEP = 524_288
CURVES = (
    Curve(40.56e6, 4500 * _STEP, 3.7954, "FineWeb, 384 wide, before the end of its schedule"),
    Curve(40.56e6, 10000 * _STEP, 3.6567, "FineWeb, 384 wide, before the end of its schedule"),
    Curve(40.56e6, 20000 * _STEP, 3.5228, "FineWeb, 384 wide"),
    Curve(123.6e6, 4500 * _STEP, 3.5636, "FineWeb, 768 wide, before the end of its schedule"),
    Curve(123.6e6, 11000 * _STEP, 3.3366, "FineWeb, 768 wide, iteration 11,000 of 12,000"),
    Curve(123.6e6, 10e9, 3.28, "llm.c, GPT-2 124M on FineWeb"),
)


def published(parameters: float, tokens: float) -> tuple[float, float]:
    """What the two fits say."""
    hoffmann = 1.69 + 406.4 / parameters**0.34 + 410.7 / tokens**0.28
    besiroglu = 1.8172 + 482.01 / parameters**0.3478 + 2085.43 / tokens**0.3658
    return hoffmann, besiroglu


def expected_loss(parameters: float, tokens: float) -> Range:
    """The validation loss at the end of a run, on web text with GPT-2's tokenizer."""
    both = published(parameters, tokens)
    low, high = min(both) + _LEAST_ABOVE, max(both) + _MOST_ABOVE
    return Range(low, (low + high) / 2, high)


def perplexity(loss: Range) -> Range:
    return Range(math.exp(loss.low), math.exp(loss.expected), math.exp(loss.high))
