"""How much of the card does useful work: as printed, as printed but corrected, and for the card that ran.

nanoGPT divides by the peak of an A100 whatever the card, and smooths over rows that contain evaluations, so its figure
falls although nothing gets slower. All TFLOP/s here are per GPU, like the printed figure.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from nanopace.diagnosis.result import FigureBasis, Mfu, Throughput, Verdict
from nanopace.diagnosis.time.gpu_use import at_power_limit
from nanopace.diagnosis.time.rows import Pace
from nanopace.errors import CardError
from nanopace.hardware.cards import Peak, family_name, find_cards, variant_name
from nanopace.medians import median
from nanopace.run import Run
from nanopace.sources.infer.mfu_smoothing import printed_work

# Large matrix products alone reach 80 to 87% of a card's peak, and training is more than those: above two thirds, no
# setting can gain much. A well-tuned training on a card that is large for its model reaches about half. Cards run up to
# 12% above the boost clock in their data sheet; anything beyond that must be a different card.
BEYOND_ANY_CLOCK = 1.15
_VERDICTS: tuple[tuple[float, Verdict], ...] = (
    (BEYOND_ANY_CLOCK, "above_peak"),
    (0.65, "near_limit"),
    (0.45, "good"),
    (0.20, "half_idle"),
    (0.0, "mostly_idle"),
)
# A card at its power limit is not idle, and no batch setting makes it faster.
_BELOW_THE_LIMIT: frozenset[Verdict] = frozenset({"good", "half_idle", "mostly_idle"})
_EXACT_ENOUGH = 0.01  # if the printed figure is at least this accurate, FLOPs are not needed
_ROUNDS_TO_ZERO = 0.00005  # at two decimals of a percentage


class Variant(NamedTuple):
    """One of the cards that a name may stand for."""

    name: str
    peak: Peak


class Candidates(NamedTuple):
    """The cards that the run's card may be, lowest peak first; empty if no peak is known."""

    name: str | None = None
    variants: tuple[Variant, ...] = ()
    verified: str | None = None

    @property
    def peak(self) -> Peak | None:
        """The peak that all of them have; None if they differ."""
        return self.variants[0].peak if len({each.peak.tflops for each in self.variants}) == 1 else None


def find_mfu(run: Run, pace: Pace, throughput: Throughput) -> Mfu:
    """All three figures, as far as known."""
    printed_peak = run.number("printed_peak_tflops")
    by_flops = _achieved(run, throughput, "flops_per_token")
    steady, steady_basis = _steady_printed(run, pace, by_flops)
    achieved, basis = by_flops, _basis_of_flops(run)
    if achieved is None and steady and printed_peak:
        achieved, basis = steady * printed_peak, "printed"
    causal = _achieved(run, throughput, "flops_per_token_causal")
    cards = card_of(run, achieved)
    peak = None if cards.peak is None else cards.peak.tflops
    shares = [achieved / each.peak.tflops for each in cards.variants] if achieved is not None else []
    precisions = {each.peak.precision for each in cards.variants}
    verdicts = {_verdict(run, share) for share in shares}
    return Mfu(
        printed_last=_printed_last(run),
        steady_printed=steady,
        printed_peak_tflops=printed_peak,
        achieved_tflops=achieved,
        achieved_tflops_causal=causal,
        card=achieved / peak if achieved is not None and peak else None,
        card_causal=causal / peak if causal is not None and peak else None,
        card_name=cards.name,
        card_tflops=peak,
        card_verified=cards.verified,
        verdict=verdicts.pop() if len(verdicts) == 1 else None,
        card_low=min(shares) if shares and peak is None else None,
        card_high=max(shares) if shares and peak is None else None,
        card_precision=precisions.pop() if len(precisions) == 1 else None,
        steady_basis=steady_basis,
        achieved_basis=None if achieved is None else basis,
    )


def card_of(run: Run, achieved_tflops: float | None) -> Candidates:
    """The cards of that name in the table, without those too slow for what was achieved.

    A card given by flag was checked when it was read; the log's own name may be missing from the table.
    """
    name = run.value("gpu")
    if not isinstance(name, str):
        return Candidates()
    try:
        cards = find_cards(name, memory_gb=run.number("gpu_memory_gb"))
    except CardError:
        return Candidates(name)
    dtype = str(run.value("dtype") or "")
    peaks = [(peak, card) for card in cards if (peak := card.peak_for(dtype)) is not None]
    if achieved_tflops is not None:
        peaks = [each for each in peaks if achieved_tflops < BEYOND_ANY_CLOCK * each[0].tflops] or peaks
    if not peaks:
        return Candidates(family_name(cards, name))
    peaks.sort(key=lambda each: each[0].tflops)
    left = [card for _, card in peaks]
    return Candidates(
        name=family_name(left, name),
        variants=tuple(Variant(variant_name(card, left), peak) for peak, card in peaks),
        verified=left[0].verified if len({card.verified for card in left}) == 1 else None,
    )


def _verdict(run: Run, share: float) -> Verdict:
    found = next(verdict for bound, verdict in _VERDICTS if share >= bound)
    return "power_limited" if found in _BELOW_THE_LIMIT and at_power_limit(run) else found


def _achieved(run: Run, throughput: Throughput, flops_fact: str) -> float | None:
    flops = run.number(flops_fact)
    if not flops or throughput.tokens_per_s is None:
        return None
    return flops * throughput.tokens_per_s / max(1.0, run.number("gpu_count") or 1.0) / 1e12


def _basis_of_flops(run: Run) -> FigureBasis:
    """The basis of a figure from FLOPs: if the tokens were derived from the printed mfu, it is just the printed mfu
    again."""
    tokens = run.facts.get("tokens_per_iteration")
    return "printed" if tokens is not None and tokens.because == "mfu_time_parameters" else "flops"


def _printed_last(run: Run) -> float | None:
    """The last printed mfu; None if only zeros are printed, because that is not a measurement."""
    if not any(mfu > 0 for mfu in run.rows.mfu):
        return None
    return next((mfu for mfu in reversed(run.rows.mfu) if not math.isnan(mfu)), None)


def printed_zero(run: Run) -> bool:
    """Whether every printed mfu is 0."""
    return 0.0 in run.rows.mfu and not any(mfu > 0 for mfu in run.rows.mfu)


def _steady_printed(run: Run, pace: Pace, achieved: float | None) -> tuple[float | None, FigureBasis | None]:
    """The mfu that the trainer would print for a plain step, and its basis."""
    if pace.basis != "rows" or not pace.step_ms or all(map(math.isnan, run.rows.mfu)):
        return None, None
    peak = run.number("printed_peak_tflops")
    by_flops = achieved / peak if achieved is not None and peak else None
    if printed_zero(run):  # too small to print, or the trainer does not know the card; then its peak is a different one
        fits = by_flops is not None and by_flops < _ROUNDS_TO_ZERO
        return (by_flops, "flops") if fits else (None, None)
    if run.mfu_smoothing is None:
        known = [mfu for index in pace.plain if not math.isnan(mfu := run.rows.mfu[index])]
        return (median(known), "printed") if known else (None, None)
    work = printed_work(run)
    if by_flops is not None and (work is None or work.uncertainty > _EXACT_ENOUGH):
        return by_flops, "flops"
    return (None, None) if work is None else (work.ms / pace.step_ms, "printed")
