"""How long `--recipe=fast` needs to the loss of a recommended gpt2 run, extrapolated from what was measured.

On one H200, with Python source and GPT-2's size, fast reached the loss of nanoGPT's train.py in 1 / 4.4 of its time
(7 against 32 s, three seeds, with evaluations and saves) and in 1 / 5.7 (30 against 173 s of steps, one seed); both are
in docs/experiments/recipes.md. Longer runs, other text and other sizes were not compared, so there is no figure for
another size or a shorter run. The ratio is to nanoGPT's time, and so is the figure.
"""

from __future__ import annotations

import math

from nanopace.hardware.cards import Card
from nanopace.hardware.memory import fits
from nanopace.hardware.speed import Range, kernels_measured
from nanopace.tune.recommend.micro_batch import fused
from nanopace.tune.recommend.models import NAMED, Model

SOONER = (4.4, 5.7)  # how many times as fast as nanoGPT to the same loss
_COMPARED = NAMED["gpt2"].size
_FEWEST_TOKENS = 11e6  # nanoGPT's shortest run of the two had 11.5M
_MIDDLE = math.sqrt(SOONER[0] * SOONER[1])


def fast_seconds(
    card: Card, model: Model, sequences: int, tokens: int, ours: Range | None, nanogpt: Range | None
) -> Range | None:
    """The time to the loss that gpt2 has after these tokens; None if nothing comparable was measured.

    `sequences`: in a micro-batch; `ours` and `nanogpt`: tokens per second of gpt2.
    """
    if ours is None or nanogpt is None or not fused(card, model):
        return None
    if model.size != _COMPARED or tokens < _FEWEST_TOKENS:
        return None
    if not fits(model.size, sequences, card.memory_gb, (), recipe="fast", fp8=True):
        return None
    theirs = nanogpt.time_of(tokens)
    # The ratio includes what our kernels gain on an H200; elsewhere they may gain nothing.
    gain = 1.0 if kernels_measured(card) else ours.expected / nanogpt.expected
    least, most = SOONER
    return Range(theirs.low / most, theirs.expected / _MIDDLE, theirs.high / least * gain)
