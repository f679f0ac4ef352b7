"""Losses that stand out from those before them.

Our trainer flags them while it trains. Other logs are searched here in the same way: by how many standard deviations
does a loss exceed the rows before it? Both the level and the deviation are medians, so that neither a few odd rows nor
the spike itself distorts them. Only upward jumps count: a loss that falls fast is not a spike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from nanopace.diagnosis.loss.trend import MAD
from nanopace.incidents import LossSpike
from nanopace.medians import median
from nanopace.run import Run

STANDS_OUT = 6.0  # standard deviations
WINDOW = 100  # rows before it
FEWEST = 30  # rows before the first possible spike
RISES = 20  # it must exceed this many rows, or it belongs to an earlier spike
LEAST_NOISE = 0.002  # of the loss: less is an artefact of rounding or of identical rows
_TAIL = 1.96  # standard deviations that contain 95% of normal noise


def loss_spikes(run: Run) -> tuple[LossSpike, ...]:
    """The spikes that the trainer flagged; if it does not flag any, those found here."""
    if run.spikes is not None:
        return run.spikes
    rows = run.logged
    if max(rows.count, default=1) > 1:
        return ()  # folded rows have a mean loss, which hides single spikes
    known = [index for index, loss in enumerate(rows.loss) if math.isfinite(loss)]
    losses = [rows.loss[index] for index in known]
    if min(losses, default=1.0) <= 0:
        return ()  # no cross-entropy: the losses of reinforcement learning scatter around 0
    return tuple(LossSpike(rows.iteration[known[place]], z, losses[place]) for place, z in _standing_out(losses))


def _standing_out(losses: Sequence[float]) -> Iterator[tuple[int, float]]:
    """Yield places and deviations. A spike of several rows counts once, where it rises."""
    for place in range(FEWEST, len(losses)):
        loss = losses[place]
        if loss > losses[place - 1] and loss > max(losses[place - RISES : place]):
            z = deviation(losses[max(0, place - WINDOW) : place], loss)
            if z >= STANDS_OUT:
                yield place, z


def deviation(before: Sequence[float], loss: float) -> float:
    """How far a loss is above the later half of those before it, in standard deviations around their trend."""
    half = len(before) // 2
    earlier, later = median(before[:half]), median(before[half:])
    slope = (later - earlier) / (len(before) / 2)
    start = earlier - slope * half / 2
    residuals = sorted(abs(each - start - slope * place) for place, each in enumerate(before))
    tail = residuals[-1 - len(before) // 20] / _TAIL  # with small micro-batches, losses sometimes scatter widely
    noise = max(MAD * residuals[half], tail, LEAST_NOISE * abs(later))
    return (loss - later) / noise if noise > 0 else 0.0
