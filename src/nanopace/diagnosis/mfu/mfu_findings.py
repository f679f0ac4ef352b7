"""Findings about the mfu: the verdict on the card, what is odd about the printed figure, what is missing."""

from __future__ import annotations

import math

from nanopace.diagnosis.mfu.mfu import Variant, card_of, printed_zero
from nanopace.diagnosis.result import Finding, Mfu, Number
from nanopace.diagnosis.time.gpu_use import power_limited
from nanopace.diagnosis.time.rows import Pace, steady
from nanopace.diagnosis.time.throughput import measured_step_ms, missing_for_tokens
from nanopace.run import Run

LEAST_DEVIATION = 0.03  # of the last figure from the steady one, to be worth reporting
SAME_PEAK = 0.02  # two peaks that differ by less belong to the same card
SAME_FIGURE = 0.02  # two estimates of one figure that differ by less agree


def mfu_findings(run: Run, pace: Pace, mfu: Mfu) -> list[Finding]:
    """The verdict first, then what is odd about the printed figure, then what is missing."""
    return [
        *_card_findings(run, mfu),
        *_printed_findings(run, mfu),
        *_smoothing_findings(run, pace, mfu),
        *_missing_facts(run, pace, mfu),
        *_measured_findings(run, mfu),
    ]


def _measured_here(run: Run) -> float | None:
    """The peak measured on this machine for a card of exactly that name, for a run that does not report its own. A
    16-bit measurement says nothing about a run in 8 bits."""
    gpu, dtype = run.value("gpu"), run.value("dtype")
    if not isinstance(gpu, str) or not isinstance(dtype, str) or run.value("fp8"):
        return None
    from nanopace.hardware.calibration import measured_tflops  # needed only if the run names its card

    return measured_tflops(gpu, dtype)


def _measured_findings(run: Run, mfu: Mfu) -> list[Finding]:
    peak = run.number("measured_tflops")
    if peak is None:
        peak = _measured_here(run)
    if peak is None or mfu.achieved_tflops is None or not 0 < peak < math.inf:
        return []
    numbers = {"measured_share": mfu.achieved_tflops / peak, "measured_tflops": peak}
    return [Finding("utilisation_measured", {**numbers, "card_name": str(run.value("gpu") or "CPU")})]


def _card_findings(run: Run, mfu: Mfu) -> list[Finding]:
    variants = card_of(run, mfu.achieved_tflops).variants
    if mfu.card_name is not None and not variants:
        return [Finding("card_without_peak", {"card_name": mfu.card_name})]
    if mfu.card_low is not None:
        return [_between(variants[0], variants[-1], mfu)]
    findings = []
    numbers: dict[str, Number] = {"card": mfu.card, "card_name": mfu.card_name}
    if mfu.verdict == "above_peak":
        findings.append(Finding("card_above_peak", {**numbers, "card_tflops": mfu.card_tflops}))
    elif mfu.verdict is not None:
        if mfu.verdict == "power_limited":
            numbers |= power_limited(run)
        findings.append(Finding(f"utilisation_{mfu.verdict}", numbers))
    if mfu.card is not None and run.value("dtype") == "float32" and mfu.card_precision != "fp32":
        numbers = {"card_tflops": mfu.card_tflops, "card_precision": mfu.card_precision}
        findings.append(Finding("dtype_float32", numbers))
    return findings


def _between(slow: Variant, fast: Variant, mfu: Mfu) -> Finding:
    """The utilisation of the fastest and of the slowest card of that name."""
    numbers: dict[str, Number] = {
        "card_name": mfu.card_name,
        "card_low": mfu.card_low,
        "fast_card_name": fast.name,
        "fast_tflops": fast.peak.tflops,
        "card_high": mfu.card_high,
        "slow_card_name": slow.name,
        "slow_tflops": slow.peak.tflops,
    }
    return Finding("card_variants", numbers)


def _printed_findings(run: Run, mfu: Mfu) -> list[Finding]:
    of_a_step, peak, achieved = mfu.steady_printed, mfu.printed_peak_tflops, mfu.achieved_tflops
    if printed_zero(run):
        return [Finding("mfu_zero", {"achieved_tflops": achieved, "printed_peak_tflops": peak})] if peak else []
    if not of_a_step or not peak or achieved is None:
        return []
    findings = []
    printed: dict[str, Number] = {"steady_printed": of_a_step, "printed_peak_tflops": peak}
    by_flops = achieved / peak
    counted = [by_flops]
    if not run.nanogpt_knobs and mfu.achieved_tflops_causal is not None:
        counted.append(mfu.achieved_tflops_causal / peak)  # as llm.c counts
    differs = all(abs(each / of_a_step - 1) > SAME_FIGURE for each in counted)
    if mfu.achieved_basis == "flops" and mfu.steady_basis == "printed" and differs:
        findings.append(Finding("mfu_disagrees", {"steady_printed": of_a_step, "computed_mfu": by_flops}))
    elif mfu.card and mfu.card_tflops and abs(peak / mfu.card_tflops - 1) > SAME_PEAK:
        of_card = {"card": mfu.card, "card_name": mfu.card_name, "card_tflops": mfu.card_tflops}
        findings.append(Finding("mfu_other_card", {**printed, **of_card}))
    if mfu.card_name is None:
        findings.append(Finding("mfu_card_unknown", {**printed, "achieved_tflops": achieved}))
    if of_a_step > 1 and by_flops > 1 and (mfu.card_tflops is None or mfu.card_tflops > peak):
        findings.append(Finding("mfu_over_100", {**printed, "achieved_tflops": achieved}))
    return findings


def _smoothing_findings(run: Run, pace: Pace, mfu: Mfu) -> list[Finding]:
    """Why the last printed figure is below that of a plain step. Claims that nothing slowed down only if that is
    true."""
    of_a_step, last = mfu.steady_printed, mfu.printed_last
    if run.mfu_smoothing is None or mfu.steady_basis != "printed" or not of_a_step or last is None:
        return []
    if last > of_a_step * (1 - LEAST_DEVIATION):
        return []
    step = pace.step
    printed: dict[str, Number] = {"printed_last": last, "steady_printed": of_a_step}
    if steady(step):
        return [Finding("mfu_smoothed", printed)]
    if (step.change_share or 0.0) > 0:
        ends = {"first_ms": step.first_fifth_ms, "last_ms": step.last_fifth_ms, "change_share": step.change_share}
        return [Finding("mfu_smoothed_and_slower", {**printed, **ends})]
    return [Finding("mfu_smoothed_only", printed)]


def _missing_facts(run: Run, pace: Pace, mfu: Mfu) -> list[Finding]:
    """The facts that are missing to compute the card's utilisation. Without a step time, none of them would help."""
    if run.on_cpu:
        return [Finding("ran_on_cpu")]
    if mfu.card is not None or (mfu.card_name is not None and mfu.achieved_tflops is not None):
        return []
    if measured_step_ms(pace.step) is None:
        return []
    missing = []
    if mfu.achieved_tflops is None:
        missing += missing_for_tokens(run)
        if run.number("flops_per_token") is None:
            knobs = ("n_layer", "n_embd", "vocab_size", "block_size")
            missing += [knob for knob in knobs if run.number(knob) is None and knob not in missing]
    elif mfu.steady_printed and not printed_zero(run):
        return []  # already reported by mfu_card_unknown
    if mfu.card_name is None:
        missing.append("gpu")
    return [Finding("mfu_unknown", {"missing": ", ".join(missing)})] if missing else []
