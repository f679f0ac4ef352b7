"""Rank three or more runs.

The ranking is by best validation loss at equal time, the question of anyone waiting for a model; if too few runs have
it, at equal tokens; if losses are not comparable, by tokens per second. A run without the figure comes last. Losses are
compared within the largest group of comparable runs, at the furthest point that most of them reach. A run that ended
earlier keeps its best loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

from nanopace.diagnosis.compare.align import Curve, largest_tie, trained_curve
from nanopace.diagnosis.compare.arrival import clock_known, training_seconds
from nanopace.diagnosis.compare.comparable import same_data, why_incomparable
from nanopace.diagnosis.result import Diagnosis
from nanopace.record import Record, replace

RankedBy = Literal["loss_time", "loss_tokens", "tokens_per_s"]


class Ranked(Record):
    """One run by its position in the list, with its figures; None if unknown."""

    run: int
    name: str
    tokens_per_s: float | None
    loss_tokens: float | None  # best validation loss up to `Ranking.tokens`
    loss_time: float | None  # the same up to `Ranking.seconds`
    ended: bool  # before those seconds
    best_val: float | None  # None also if not comparable with the others
    overhead_share: float | None
    mfu_card: float | None
    tied: bool = False  # ranked by loss, and not clearly behind the run above


class Ranking(Record):
    by: RankedBy | None  # None if the runs have no figure in common; they keep their own order
    tokens: float | None
    seconds: float | None
    same_data: bool  # whether the logs show that all runs with a loss here train on the same data
    runs: tuple[Ranked, ...]


def rank(runs: Sequence[Diagnosis]) -> Ranking:
    """Rank the runs, best first."""
    comparable = _comparable(runs)
    tokens, at_tokens = _at_one_point({i: _over_tokens(runs[i]) for i in comparable})
    over_time = {i: trained_curve(runs[i], training_seconds(runs[i])) for i in comparable if clock_known(runs[i])}
    seconds, at_time = _at_one_point(over_time)
    ended = {i: min(curve.ys) for i, curve in over_time.items() if seconds and curve.xs and curve.xs[-1] < seconds}
    at_time |= ended
    ranked = [
        Ranked(
            run=number,
            name=run.source.name,
            tokens_per_s=run.throughput.tokens_per_s,
            loss_tokens=at_tokens.get(number),
            loss_time=at_time.get(number),
            ended=number in ended,
            best_val=run.loss.best_val if number in comparable else None,
            overhead_share=run.wall.overhead_share,
            mfu_card=run.mfu.card,
        )
        for number, run in enumerate(runs)
    ]
    by = _ranked_by(ranked)
    ranked.sort(key=lambda each: _place(each, by))
    noises = [trained_curve(run).noise for run in runs]
    same = all(same_data(runs[one], runs[other]) for one, other in pairwise(comparable))
    return Ranking(by, tokens, seconds, same, (*ranked[:1], *_with_ties(ranked, by, noises)))


def _comparable(runs: Sequence[Diagnosis]) -> list[int]:
    """The largest group of runs whose losses are comparable with those of one of them."""
    with_losses = [number for number, run in enumerate(runs) if any(val is not None for val in run.curves.eval_val)]
    groups = (
        [other for other in with_losses if why_incomparable(runs[one], runs[other]) is None] for one in with_losses
    )
    return max(groups, key=len, default=[])


def _over_tokens(run: Diagnosis) -> Curve:
    each = run.throughput.tokens_per_iteration
    return trained_curve(run, [iteration * each for iteration in run.curves.eval_iteration]) if each else Curve((), ())


def _at_one_point(curves: Mapping[int, Curve]) -> tuple[float | None, dict[int, float]]:
    """The furthest point that most of the curves reach, and the lowest losses up to it; nothing for a single curve."""
    known = {number: curve.best_so_far() for number, curve in curves.items() if curve.xs}

    def there(x: float) -> dict[int, float]:
        return {number: curve.at(x) for number, curve in known.items() if curve.xs[0] <= x <= curve.xs[-1]}

    ends = {curve.xs[-1] for curve in known.values()}
    point = max(ends, key=lambda x: (len(there(x)), x), default=None)
    if point is None or len(there(point)) < 2:
        return None, {}
    return point, there(point)


def _ranked_by(ranked: Sequence[Ranked]) -> RankedBy | None:
    """The first figure that at least half of the runs have."""
    order: tuple[RankedBy, ...] = ("loss_time", "loss_tokens", "tokens_per_s")
    known = (by for by in order if sum(getattr(each, by) is not None for each in ranked) >= max(2, len(ranked) / 2))
    return next(known, None)


def _place(each: Ranked, by: RankedBy | None) -> float:
    value: float | None = getattr(each, by) if by else None
    if value is None:
        return math.inf
    return -value if by == "tokens_per_s" else value


def _with_ties(ranked: Sequence[Ranked], by: RankedBy | None, noises: Sequence[float | None]) -> Iterator[Ranked]:
    """All but the first, each compared with the one above."""
    for before, each in pairwise(ranked):
        better, worse = (getattr(one, by) if by and by != "tokens_per_s" else None for one in (before, each))
        if better is None or worse is None:
            yield each
        else:
            tied = worse - better <= largest_tie((noises[before.run], noises[each.run]), worse)
            yield replace(each, tied=tied)
