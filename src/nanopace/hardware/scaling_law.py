"""The loss to expect from N parameters and D tokens, from two published fits, adjusted to real runs.

    Hoffmann et al. 2022 (arXiv 2203.15556)    1.69   + 406.4  / N^0.34   + 410.7   / D^0.28
    Besiroglu et al. 2024 (arXiv 2404.10102)   1.8172 + 482.01 / N^0.3478 + 2085.43 / D^0.3658

Both were fitted to another tokenizer and to DeepMind's text. GPT-2's longer tokens carry more information, so its loss
per token is higher: 0.10 to 0.24 above the mean of the two fits in the runs of `CURVES`, all of them web text with
GPT-2's tokenizer and AdamW. The last of these runs came after the range was set; it is 0.12 above the mean. Other text,
another tokenizer or another recipe can shift the loss out of this range.

Repeated text teaches less, and so do parameters for which there is too little text. According to Muennighoff et al.
2023 (arXiv 2305.16264, appendix A), D tokens of which U are different, and N parameters, are worth

    D' = U + U r (1 - exp(-(D / U - 1) / r))          r = 15.387756
    N' = V + V s (1 - exp(-(N / V - 1) / s))          s = 5.309743, where V = 0.051 U is less than N

and D' and N' replace D and N. A loss is given only where someone has checked such a law against runs; see
`where_it_ends` and docs/decisions/0020-repeated-data.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nanopace.hardware.speed import Range

_LEAST_ABOVE, _MOST_ABOVE = 0.05, 0.30
_REPEATED_TOKENS, _REPEATED_PARAMETERS = 15.387756, 5.309743
_PARAMETERS_PER_TOKEN = 0.051  # parameters that one different token supports, by Muennighoff et al.'s fit
ALMOST_FRESH = 4  # passes over the same text: "almost as good as new data" (their figure 1)
WORTHWHILE = 16  # passes: beyond this, "returns diminish extremely fast" (their section 6)
WORTHLESS = 40  # passes: "repeating is worthless" (their figure 1)
# Muennighoff et al. fitted GPT-2's architecture and tokenizer from here on, with 100M different tokens or more ...
_FEWEST_PARAMETERS, _FEWEST_TOKENS = 7e6, 1e8
# ... and Chinchilla is the largest model that was trained as the law says.
_MOST_PARAMETERS, _MOST_TOKENS = 70e9, 1.4e12
_ROUNDING = 0.005  # a run has whole steps, so it trains on slightly more or fewer tokens than asked for
_GPT2_VOCABULARIES = range(50_257, 50_305)  # unchanged, and rounded up as in nanoGPT


@dataclass(frozen=True, slots=True)
class Curve:
    """One validation loss of a real run."""

    parameters: float
    tokens: float
    loss: float
    source: str
    unique: float | None = None  # different tokens, if some were repeated


_STEP = 524_288
CURVES = (
    Curve(40.56e6, 4500 * _STEP, 3.7954, "FineWeb, 384 wide, before the end of its schedule"),
    Curve(40.56e6, 10000 * _STEP, 3.6567, "FineWeb, 384 wide, before the end of its schedule"),
    Curve(40.56e6, 20000 * _STEP, 3.5228, "FineWeb, 384 wide"),
    Curve(123.6e6, 4500 * _STEP, 3.5636, "FineWeb, 768 wide, before the end of its schedule"),
    Curve(123.6e6, 11000 * _STEP, 3.3366, "FineWeb, 768 wide, iteration 11,000 of 12,000"),
    Curve(123.6e6, 10e9, 3.28, "llm.c, GPT-2 124M on FineWeb"),
    Curve(123.6e6, 600_000 * 491_520, 2.85, "nanoGPT's README, GPT-2 124M on OpenWebText, 33 passes", 9_035_582_198),
)


def published(parameters: float, tokens: float) -> tuple[float, float]:
    """The losses that the two fits predict."""
    hoffmann = 1.69 + 406.4 / parameters**0.34 + 410.7 / tokens**0.28
    besiroglu = 1.8172 + 482.01 / parameters**0.3478 + 2085.43 / tokens**0.3658
    return hoffmann, besiroglu


def worth_in_passes(passes: float) -> float:
    """How many passes over fresh text would teach as much as `passes` over the same text."""
    if passes <= 1:
        return passes
    return 1 - _REPEATED_TOKENS * math.expm1(-(passes - 1) / _REPEATED_TOKENS)


def too_often(passes: float) -> bool:
    """Whether more passes teach nothing, and the model overfits instead."""
    return passes > WORTHLESS * (1 + _ROUNDING)


def effective_parameters(parameters: float, unique: float) -> float:
    """How many parameters this many different tokens can make use of."""
    asked_for = min(parameters, _PARAMETERS_PER_TOKEN * unique)
    excess = parameters / asked_for - 1
    return asked_for * (1 - _REPEATED_PARAMETERS * math.expm1(-excess / _REPEATED_PARAMETERS))


def where_it_ends(parameters: float, tokens: float, unique: float, vocab_size: int) -> str | None:
    """Which limit of the law is exceeded: vocabulary, passes, tokens or parameters; None if it holds.

    Outside its limits, the law is far off: it gives 10,000 tokens a loss of 58, although guessing gives ln(50,304).
    """
    if vocab_size not in _GPT2_VOCABULARIES:
        return "vocabulary"
    if too_often(tokens / unique):
        return "passes"
    if not _FEWEST_TOKENS * (1 - _ROUNDING) <= unique <= tokens <= _MOST_TOKENS * (1 + _ROUNDING):
        return "tokens"
    return None if _FEWEST_PARAMETERS <= parameters <= _MOST_PARAMETERS else "parameters"


def expected_loss(
    parameters: float, tokens: float, unique: float | None = None, vocab_size: int = _GPT2_VOCABULARIES[-1]
) -> Range | None:
    """The validation loss at the end of a run, on web text. `unique`: the number of different tokens (default: all)."""
    unique = tokens if unique is None else min(unique, tokens)
    if where_it_ends(parameters, tokens, unique, vocab_size) is not None:
        return None
    both = published(effective_parameters(parameters, unique), unique * worth_in_passes(tokens / unique))
    low, high = min(both) + _LEAST_ABOVE, max(both) + _MOST_ABOVE
    return Range(low, (low + high) / 2, high)


def perplexity(loss: Range) -> Range:
    return Range(math.exp(loss.low), math.exp(loss.expected), math.exp(loss.high))
