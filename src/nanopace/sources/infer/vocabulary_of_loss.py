"""The vocabulary size, from the loss of an untrained model."""

from __future__ import annotations

import math

from nanopace.run import Run

_CHARACTERS = (65, 256)  # vocabularies of characters or bytes
# Common vocabularies, as nanoGPT pads them. A loss cannot distinguish those of nearly the same size.
COMMON = (*_CHARACTERS, 4096, 8192, 16384, 32000, 32768, 50304, 65536, 100277, 128256, 151936, 200019)


def vocabulary_of_loss(run: Run, width: int | None) -> int | None:
    """An untrained model's loss is ln(vocabulary), plus a little more the wider it is. None unless only one fits."""
    first = _first_loss(run)
    if first is None:
        return None
    fits = [each for each in COMMON if -0.03 <= first - math.log(each) <= _most_excess(each, width)]
    if len(fits) != 1:
        return None
    # The loss of a fine-tuned GPT-2 may start here, too, but does not fall as low as that of a character model.
    if fits[0] in _CHARACTERS and not min(run.logged.loss) < 0.6 * first:
        return None
    return fits[0]


def _first_loss(run: Run) -> float | None:
    """The loss of the evaluation before the first step, or of the first step; None if the log starts later."""
    for evaluation in run.evaluations[:1]:
        if evaluation.iteration == 0 and evaluation.metric == "loss" and evaluation.val is not None:
            return evaluation.val
    row = run.logged[0]
    return row.loss if row.iteration == 0 and row.count == 1 else None


def _most_excess(vocabulary: int, width: int | None) -> float:
    """Measured: about 0.0002 per channel, 0.05 at 384, 0.17 at 768."""
    most = 0.15 if vocabulary in _CHARACTERS else 0.35
    return most if width is None else min(most, 0.05 + 0.0003 * width)
