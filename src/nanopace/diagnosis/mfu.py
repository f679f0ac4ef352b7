"""How much of the card does useful work: as printed, as printed but cleansed, and of the card that ran.

nanoGPT divides by the peak of an A100 whatever card runs, and smooths over rows that contain evaluations: its figure
falls while nothing gets slower. All TFLOP/s here are per GPU, as the printed figure is.
"""

from __future__ import annotations

import math

from nanopace.diagnosis.gpu_use import at_power_limit, power_limited
from nanopace.diagnosis.medians import median
from nanopace.diagnosis.result import Diagnosis, Finding, Mfu, Throughput, Verdict
from nanopace.diagnosis.rows import NORMAL, SLOW, UNEVEN, Pace
from nanopace.diagnosis.throughput import missing_for_tokens
from nanopace.errors import CardError
from nanopace.hardware.cards import Card, find_card
from nanopace.record import replace
from nanopace.run import Rows, Run

# Large matrix products alone reach 80 to 87% of a card's peak, and training is not only those: from two thirds on there
# is little left for any setting to win. Well-kept training on a card that is large for its model reaches about a half.
# Cards run above the boost clock of their datasheet by up to 12%; what is beyond that cannot be true of the card named.
_VERDICTS: tuple[tuple[float, Verdict], ...] = (
    (1.15, "above_peak"),
    (0.65, "near_limit"),
    (0.45, "good"),
    (0.20, "half_idle"),
    (0.0, "mostly_idle"),
)
# What a card's power keeps it from is not idle, and no batch setting gives it back.
_BELOW_THE_LIMIT: frozenset[Verdict] = frozenset({"good", "half_idle", "mostly_idle"})
FORGOTTEN = 0.01  # of a slow row is left in the average: it no longer counts
ENOUGH_ROWS = 3  # untouched by slow rows, before the printed figure is believed as it is
LEAST_DEVIATION = 0.03  # of the last figure from the steady one, to be worth a word
SAME_PEAK = 0.02  # two peaks that differ by less are of the same card


def find_mfu(run: Run, pace: Pace, throughput: Throughput) -> Mfu:
    """All three figures, as far as they are known."""
    steady = _steady_printed(run, pace)
    printed_peak = run.number("printed_peak_tflops")
    achieved = _achieved(run, throughput, "flops_per_token")
    if achieved is None and steady and printed_peak:
        achieved = steady * printed_peak
    causal = _achieved(run, throughput, "flops_per_token_causal")
    card = _card(run)
    peak = None if card is None else card.peak_tflops
    share = achieved / peak if achieved is not None and peak else None
    return Mfu(
        printed_last=next((mfu for mfu in reversed(run.rows.mfu) if not math.isnan(mfu)), None),
        steady_printed=steady,
        printed_peak_tflops=printed_peak,
        achieved_tflops=achieved,
        achieved_tflops_causal=causal,
        card=share,
        card_causal=causal / peak if causal is not None and peak else None,
        card_name=_card_name(run, card),
        card_tflops=peak,
        card_verified=None if card is None else card.verified,
        verdict=None if share is None else _verdict(run, share),
    )


def _verdict(run: Run, share: float) -> Verdict:
    found = next(verdict for bound, verdict in _VERDICTS if share >= bound)
    return "power_limited" if found in _BELOW_THE_LIMIT and at_power_limit(run) else found


def mfu_findings(run: Run, mfu: Mfu) -> list[Finding]:
    """The verdict first, then what is odd about the printed figure, then what is missing."""
    smoothed = run.mfu_smoothing is not None
    findings = [*_of_the_card(run, mfu), *_of_the_print(mfu, smoothed), *_of_what_is_missing(run, mfu)]
    peak = run.number("measured_tflops")
    if peak is not None:
        findings += _of_the_measured(mfu, str(run.value("gpu") or "CPU"), peak)
    return findings


def against_measured(diagnosis: Diagnosis, card_name: str, peak_tflops: float) -> Diagnosis:
    """The diagnosis of a run that does not say its card's measured peak, with what such a card was measured to reach
    here."""
    found = _of_the_measured(diagnosis.mfu, card_name, peak_tflops)
    return replace(diagnosis, findings=(*diagnosis.findings, *found)) if found else diagnosis


def _of_the_measured(mfu: Mfu, card_name: str, peak_tflops: float) -> list[Finding]:
    if mfu.achieved_tflops is None or not 0 < peak_tflops < math.inf:
        return []
    share = mfu.achieved_tflops / peak_tflops
    return [
        Finding(
            "utilisation_measured",
            {"measured_share": share, "measured_tflops": peak_tflops, "card_name": card_name},
        )
    ]


def _of_the_card(run: Run, mfu: Mfu) -> list[Finding]:
    findings = []
    if mfu.verdict == "above_peak":
        numbers = {"card": mfu.card, "card_name": mfu.card_name, "card_tflops": mfu.card_tflops}
        findings.append(Finding("card_above_peak", numbers))
    elif mfu.verdict is not None:
        numbers = {"card": mfu.card, "card_name": mfu.card_name}
        if mfu.verdict == "power_limited":
            numbers |= power_limited(run)
        findings.append(Finding(f"utilisation_{mfu.verdict}", numbers))
    if mfu.card_name is not None and mfu.card_tflops is None:
        findings.append(Finding("card_without_peak", {"card_name": mfu.card_name}))
    return findings


def _of_the_print(mfu: Mfu, smoothed: bool) -> list[Finding]:
    steady, last, peak = mfu.steady_printed, mfu.printed_last, mfu.printed_peak_tflops
    findings = []
    if steady and peak and mfu.card and mfu.card_tflops and abs(peak / mfu.card_tflops - 1) > SAME_PEAK:
        numbers = {
            "steady_printed": steady,
            "printed_peak_tflops": peak,
            "card": mfu.card,
            "card_name": mfu.card_name,
            "card_tflops": mfu.card_tflops,
        }
        findings.append(Finding("mfu_other_card", numbers))
    if steady and peak and mfu.card_name is None and mfu.achieved_tflops is not None:
        numbers = {
            "achieved_tflops": mfu.achieved_tflops,
            "steady_printed": steady,
            "printed_peak_tflops": peak,
        }
        findings.append(Finding("mfu_card_unknown", numbers))
    if smoothed and steady and last is not None and abs(last / steady - 1) > LEAST_DEVIATION:
        findings.append(Finding("mfu_smoothed", {"printed_last": last, "steady_printed": steady}))
    if steady and steady > 1 and peak and mfu.achieved_tflops is not None:
        numbers = {
            "steady_printed": steady,
            "printed_peak_tflops": peak,
            "achieved_tflops": mfu.achieved_tflops,
        }
        findings.append(Finding("mfu_over_100", numbers))
    if steady == 0 and peak:
        findings.append(Finding("mfu_zero", {"achieved_tflops": mfu.achieved_tflops, "printed_peak_tflops": peak}))
    return findings


def _of_what_is_missing(run: Run, mfu: Mfu) -> list[Finding]:
    """Which facts would make the card's share known."""
    if run.on_cpu:
        return [Finding("ran_on_cpu")]
    if mfu.card is not None or (mfu.card_name is not None and mfu.achieved_tflops is not None):
        return []
    missing = []
    if mfu.achieved_tflops is None:
        missing += missing_for_tokens(run)
        if run.number("flops_per_token") is None:
            knobs = ("n_layer", "n_embd", "vocab_size", "block_size")
            missing += [knob for knob in knobs if run.number(knob) is None and knob not in missing]
    elif mfu.steady_printed:
        return []  # mfu_card_unknown has said so
    if mfu.card_name is None:
        missing.append("gpu")
    return [Finding("mfu_unknown", {"missing": ", ".join(missing)})] if missing else []


def _achieved(run: Run, throughput: Throughput, flops_fact: str) -> float | None:
    flops = run.number(flops_fact)
    if not flops or throughput.tokens_per_s is None:
        return None
    return flops * throughput.tokens_per_s / max(1.0, run.number("gpu_count") or 1.0) / 1e12


def _card(run: Run) -> Card | None:
    """The table's card. A flag was checked when it was read; the log's own name may be one that nobody knows."""
    name = run.value("gpu")
    if not isinstance(name, str):
        return None
    try:
        return find_card(name, memory_gb=run.number("gpu_memory_gb"))
    except CardError:
        return None


def _card_name(run: Run, card: Card | None) -> str | None:
    """The table's, or what the log calls a card that the table does not have."""
    name = run.value("gpu")
    return card.name if card is not None else name if isinstance(name, str) else None


def _steady_printed(run: Run, pace: Pace) -> float | None:
    """The printed mfu without the rows that contain more than a step."""
    if pace.basis != "rows":
        return None
    if run.mfu_smoothing is None:
        kept = [mfu for mfu, kind in zip(run.rows.mfu, pace.kind, strict=True) if kind in (NORMAL, UNEVEN)]
        known = [mfu for mfu in kept if not math.isnan(mfu)]
        return median(known) if known else None
    untouched = _untouched(run, pace, run.mfu_smoothing)
    one_level = len(pace.step.levels) == 1 and pace.step.drift_share is None
    if len(untouched) >= ENOUGH_ROWS and one_level:
        return median(untouched)
    return _unsmoothed(run, pace, run.mfu_smoothing) or (median(untouched) if untouched else None)


def _untouched(run: Run, pace: Pace, smoothing: float) -> list[float]:
    """Printed figures whose average holds no slow row, or next to nothing of one."""
    memory = math.log(FORGOTTEN) / math.log(smoothing) if 0 < smoothing < 1 else 1.0
    since_slow = math.inf
    figures = []
    mixed = _mixed(run.rows)
    for index, mfu in enumerate(run.rows.mfu):
        if index in pace.marks.first:
            since_slow = math.inf  # the average is the process's own
        if math.isnan(mfu):
            continue
        if pace.kind[index] == SLOW or mixed[index]:
            since_slow = 0
            continue
        since_slow += run.rows.count[index]
        if since_slow >= memory:
            figures.append(mfu)
    return figures


def _unsmoothed(run: Run, pace: Pace, smoothing: float) -> float | None:
    """Each row's own figure out of the average. Figure x time is the same in all rows: the work of an iteration."""
    rows, mixed = run.rows, _mixed(run.rows)
    work = []
    before = math.nan
    for index, mfu in enumerate(rows.mfu):
        if index in pace.marks.first:
            before = math.nan
        follows = rows.count[index] == 1 and not mixed[index] and not (index and mixed[index - 1])
        if not math.isnan(mfu) and follows and pace.kind[index] in (NORMAL, UNEVEN):
            own = mfu if math.isnan(before) else (mfu - smoothing * before) / (1 - smoothing)
            work.append(own * rows.ms[index])
        before = mfu
    return max(0.0, median(work)) / pace.step.median_ms if work and pace.step.median_ms else None


def _mixed(rows: Rows) -> bytearray:
    """Which rows stand among others of another kind: the row before such a one in the log is not the one before it."""
    mixed = bytearray(len(rows))
    for part in rows.mixtures():
        mixed[part.start : part.stop] = bytes([1]) * len(part)
    return mixed
