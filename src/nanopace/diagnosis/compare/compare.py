"""Compare two runs: what changed, which is faster and why, which learns better, and what stays open.

The speed is split exactly: ln(tokens/s) changes with the FLOPs per token, the number of cards, the peak of one card,
and the share of that peak in use. Losses are compared on one axis at a time, because the answers for equal tokens,
equal time and equal FLOPs may differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from nanopace.diagnosis.compare.align import Aligned, align, trained_curve
from nanopace.diagnosis.compare.arrival import arrive, clock_known, starts_late, training_seconds
from nanopace.diagnosis.compare.attribution import attribute, changes, known_in_one
from nanopace.diagnosis.compare.comparable import number_of, why_incomparable
from nanopace.diagnosis.compare.outlook import outlook
from nanopace.diagnosis.compare.stretches import contradictions
from nanopace.diagnosis.compare.verdict import verdict
from nanopace.diagnosis.comparison import Arrival, AtFlops, AtTime, AtTokens, Comparison, Decomposition, PairOf
from nanopace.diagnosis.invariants import withhold_false_findings
from nanopace.diagnosis.result import Diagnosis
from nanopace.diagnosis.time.throughput import measured_step_ms
from nanopace.record import replace


def compare(a: Diagnosis, b: Diagnosis) -> Comparison:
    """Compare run b with run a."""
    changed = changes(a, b)
    attribution = attribute(a, b, changed)
    parts = decompose(a, b)
    by_iteration = _by_iteration(a, b, 1.0, 1.0)
    by_tokens = _by_iteration(a, b, a.throughput.tokens_per_iteration, b.throughput.tokens_per_iteration)
    by_flops = _by_iteration(a, b, _flops_per_iteration(a), _flops_per_iteration(b))
    by_time = _by_time(a, b)
    arrival = arrive(a, b)
    comparison = Comparison(
        a=a,
        b=b,
        changed=changed,
        unknown_knobs=known_in_one(a, b),
        parameters=_pair(a.model.parameters, b.model.parameters),
        flops_per_token=_pair(a.model.flops_per_token, b.model.flops_per_token),
        median_ms=_pair(measured_step_ms(a.step), measured_step_ms(b.step)),
        micro_batch_ms=_pair(a.throughput.micro_batch_ms, b.throughput.micro_batch_ms),
        tokens_per_s=_pair(a.throughput.tokens_per_s, b.throughput.tokens_per_s),
        mfu_card=_pair(a.mfu.card, b.mfu.card),
        overhead_share=_pair(a.wall.overhead_share, b.wall.overhead_share),
        decomposition=parts,
        equal_tokens=tuple(AtTokens(*point) for point in by_tokens.points),
        equal_time=tuple(AtTime(*point) for point in by_time.points),
        equal_flops=tuple(AtFlops(*point) for point in by_flops.points),
        leader_tokens=by_tokens.leader,
        leader_time=by_time.leader,
        crossover_s=by_time.crossover,
        crossover_tokens=by_tokens.crossover,
        unattributable=attribution.unattributable,
        settling=attribution.settling,
        findings=(
            *verdict(a, b, parts, by_time, by_tokens, by_iteration, arrival),
            *outlook(a, b),
            *contradictions(a, b, by_tokens, by_time),
            *attribution.findings,
        ),
        arrival=arrival,
        arrival_money=_arrival_money(a, b, arrival),
    )
    return withhold_false_findings(comparison)


def _pair(a: float | None, b: float | None) -> PairOf:
    ratio = b / a if a and b is not None else None
    return PairOf(a, b, ratio if ratio is not None and math.isfinite(ratio) else None)


def _arrival_money(a: Diagnosis, b: Diagnosis, arrival: Arrival | None) -> PairOf | None:
    """What it cost to reach the same loss; None without prices."""
    if arrival is None or a.bill is None or b.bill is None:
        return None
    found = _pair(a.bill.money_of(arrival.a.seconds), b.bill.money_of(arrival.b.seconds))
    return replace(found, ratio=None) if a.bill.at_most or b.bill.at_most else found  # of bounds, it says nothing


# --- speed -----------------------------------------------------------------------------------------------------------


def decompose(a: Diagnosis, b: Diagnosis) -> Decomposition:
    """The parts of ln(tokens/s of b / tokens/s of a). Whatever is unknown about the cards counts as utilisation."""
    total = _log_ratio(a.throughput.tokens_per_s, b.throughput.tokens_per_s)
    flops = _log_ratio(b.model.flops_per_token, a.model.flops_per_token)  # more work per token, fewer tokens
    count_a, count_b = number_of(a, "gpu_count"), number_of(b, "gpu_count")
    count = _log_ratio(count_a, count_b)
    peak = _log_ratio(a.mfu.card_tflops, b.mfu.card_tflops)
    if count is None and max(count_a or 1, count_b or 1) > 1:
        peak = None  # the other run's number of cards is unknown
    if total is None or flops is None:
        return Decomposition(total, flops, None, peak, count)
    return Decomposition(total, flops, total - flops - (peak or 0.0) - (count or 0.0), peak, count)


def _log_ratio(a: float | None, b: float | None) -> float | None:
    return math.log(b / a) if a is not None and b is not None and a > 0 and b > 0 else None


# --- loss ------------------------------------------------------------------------------------------------------------


def _by_iteration(a: Diagnosis, b: Diagnosis, scale_a: float | None, scale_b: float | None) -> Aligned:
    """The curves over iterations times a scale: tokens or FLOPs per iteration."""
    if scale_a is None or scale_b is None:
        return Aligned()
    of_a = [iteration * scale_a for iteration in a.curves.eval_iteration]
    of_b = [iteration * scale_b for iteration in b.curves.eval_iteration]
    return _aligned(a, b, of_a, of_b)


def _by_time(a: Diagnosis, b: Diagnosis) -> Aligned:
    """The curves over the time since the first step; nothing if a clock is unknown."""
    if not (clock_known(a) and clock_known(b)):
        return Aligned()
    return _aligned(a, b, training_seconds(a), training_seconds(b))


def _aligned(a: Diagnosis, b: Diagnosis, places_a: Sequence[float | None], places_b: Sequence[float | None]) -> Aligned:
    if why_incomparable(a, b) is not None:
        return Aligned()
    of_a, of_b = trained_curve(a, places_a), trained_curve(b, places_b)
    found = align(of_a, of_b)
    behind = {"a": (b, of_b), "b": (a, of_a)}.get(found.leader or "")
    if behind is not None and starts_late(behind[0]) and not behind[1].falls_to(found.points[-1][0]):
        return Aligned(found.points)  # it may have had a lower loss before its log starts
    return found


def _flops_per_iteration(diagnosis: Diagnosis) -> float | None:
    tokens, each = diagnosis.throughput.tokens_per_iteration, diagnosis.model.flops_per_token
    return None if tokens is None or each is None else tokens * each
