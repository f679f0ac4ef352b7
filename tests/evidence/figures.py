"""What a report shows besides its findings: the figures in its tiles and tables, and the rules that connect them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from statistics import median

from nanopace.diagnosis.result import Diagnosis

from . import hidden_checks as _hidden_checks  # noqa: F401 (notes its checkers)
from . import loss_checks as _loss_checks  # noqa: F401 (the same)
from .check import CHECKS, NOT_IN_TEXT_LOGS, costs_ms, off, open_row_ms, open_step, spikes_ms, stalled_ms
from .speed_checks import steady_off
from .truth import Truth

UNKNOWN_AS_ZERO = re.compile(r"(?<![\d.,])0(?:\.0+)? ms\b|mfu 0\.00%|x0\.00\b|\b(\d[\d.,]*[KMG]) instead of \1\b")
SLOWER = ("level_shift", "memory_spill", "drift", "slower_at_the_end", "pace_changes", "mfu_smoothed_and_slower")
AGAINST_NAN = ("calm_the_loss", "leave_float16")
PRICES = ("checkpoint_measured", "checkpoint_bounded", "checkpoint_unknown", "checkpoint_stamped")


def complaints(truth: Truth, diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """(code, what is false): every finding, then the figures, then contradictions on one page."""
    for finding in diagnosis.findings:
        if finding.code in NOT_IN_TEXT_LOGS:
            yield finding.code, f"it takes {NOT_IN_TEXT_LOGS[finding.code]}"
        elif (checker := CHECKS.get(finding.code)) and (why := checker(truth, finding.numbers, diagnosis)):
            yield finding.code, why
    yield from _figures(truth, diagnosis)
    yield from _together(diagnosis)


def _figures(truth: Truth, d: Diagnosis) -> Iterator[tuple[str, str]]:
    if not d.timed:
        yield from _untimed_figures(truth, d)
        return
    low, high = sorted(truth.levels)[len(truth.levels) // 3], sorted(truth.levels)[-1 - len(truth.levels) // 3]
    own = median(row.step_ms for row in truth.plain or truth.rows)
    low, high = min(low, own), max(high, own)
    if truth.plain:  # without plain rows the report says that it is an estimate
        held = sum(row.stall_ms > 0 for row in truth.plain) / len(truth.plain)
        by = high * (open_step(truth) + (0.2 * held))
        yield from _one("step.median_ms", off("step", d.step.median_ms, low, high, by=by))
        yield from _levels(truth, d)
    yield from _one("source.rows", _count(d.source.rows, len(truth.rows)))
    lines = [each for each in truth.evaluations if each.iteration > 0]
    fewest = len(truth.counted) - (truth.plan.cut == "head")  # its first row may be a start or not
    if not fewest <= d.evaluations.count <= len(lines):
        yield "evaluations.count", f"{d.evaluations.count}, but it is {len(truth.counted)}"
    yield from _wall(truth, d)
    if truth.plan.mfu:
        yield from _one("mfu.steady_printed", steady_off(truth, d.mfu.steady_printed))
    tokens = truth.plan.shape.tokens
    if d.throughput.tokens_per_iteration is not None and d.facts["tokens_per_iteration"].origin == "log":
        yield from _one("tokens_per_iteration", _count(d.throughput.tokens_per_iteration, tokens))
    if d.throughput.tokens_per_s is not None and truth.plain:
        rates = [tokens * 1000 / ms for ms in (high, low)]
        inferred = 0.0 if d.facts["tokens_per_iteration"].origin == "log" else 0.1
        by = rates[1] * (open_step(truth) + inferred + 0.2 * held)
        yield from _one("tokens_per_s", off("tokens/s", d.throughput.tokens_per_s, *rates, by=by))
    yield from _losses(truth, d)
    if d.startup is not None and not truth.begins:
        yield "startup", "the log does not begin with the start"


def _losses(truth: Truth, d: Diagnosis) -> Iterator[tuple[str, str]]:
    if truth.curve:
        best = min(truth.curve, key=lambda point: (point[1], point[0]))
        yield from _one("loss.best_val", _count(d.loss.best_val, best[1]))
        yield from _one("loss.last_val", _count(d.loss.last_val, truth.curve[-1][1]))


def _untimed_figures(truth: Truth, d: Diagnosis) -> Iterator[tuple[str, str]]:
    """For a log without times: the losses, and nothing else."""
    yield from _one("source.rows", _count(d.source.rows, len(truth.rows)))
    yield from _losses(truth, d)
    wall = d.wall
    for figure in (
        d.step.median_ms,
        wall.training_s,
        wall.goodput,
        wall.stall_s,
        d.throughput.tokens_per_s,
        d.mfu.card,
    ):
        yield from _one("time", None if figure is None else f"{figure}, and the log has no times")


def _levels(truth: Truth, d: Diagnosis) -> Iterator[tuple[str, str]]:
    """Each level by the true steps of its rows; a level of few rows also contains their noise."""
    for level in d.step.levels:
        own = [row.level_ms for row in truth.plain if level.first_iteration <= row.iteration <= level.last_iteration]
        if len(own) >= 5:
            by = max(own) * open_step(truth, len(own)) + 0.05 * max(own)
            why = off("level", level.median_ms, min(own), max(own), by=by)
            yield from _one("step.levels", why and f"{level.first_iteration} to {level.last_iteration}: {why}")


def _wall(truth: Truth, d: Diagnosis) -> Iterator[tuple[str, str]]:
    wall, spent, total = d.wall, truth.seconds, truth.total_s
    parts = (wall.training_s, wall.evaluation_s, wall.checkpoint_s, wall.startup_s, wall.stall_s, wall.restart_s)
    summed = sum(part or 0.0 for part in (*parts, wall.other_s, wall.unknown_s, wall.suspended_s, wall.rollback_s))
    yield from _one("wall", off("the sum of the parts", summed, wall.total_s))
    if not truth.plain:
        return
    hidden_s = sum(each.all_ms for each in truth.hidden) / 1000
    unseen = hidden_s * (0.1 + truth.unsteady) if truth.visible else hidden_s
    unseen += stalled_ms(truth) * len(truth.hidden) / 1000
    if wall.unknown_s is None:
        unseen = hidden_s  # and the report says so
    open_s = total * open_step(truth) + unseen + 0.02 * total * (truth.plan.log_interval > 1 and truth.unsteady > 0.05)
    yield from _one("wall.total_s", off("total", wall.total_s, total, by=open_s))
    yield from _one("wall.training_s", off("training", wall.training_s, spent["training"], by=open_s + 0.01 * total))
    if d.evaluations.each_ms is not None and truth.visible:
        low, high = costs_ms(truth)
        if d.evaluations.contains_checkpoint:
            low, high = spikes_ms(truth)
        rows = d.checkpoints.unsaved_rows or len(truth.visible)  # those that it was measured in
        by = open_row_ms(truth, rows) + stalled_ms(truth) + 3 * truth.plan.evaluation_noise * high
        if d.checkpoints.basis == "stamps":  # of whole seconds, as the report says
            by += 1500 / math.sqrt(max(1, d.checkpoints.saved_rows))
        yield from _one("evaluations.each_ms", off("one evaluation", d.evaluations.each_ms, low, high, by=by))


def _together(d: Diagnosis) -> Iterator[tuple[str, str]]:
    """Statements that contradict each other, whatever is true."""
    codes = {finding.code for finding in d.findings}
    advice = [finding for finding in d.findings if finding.advice and finding.code != "nothing_to_change"]
    if "mfu_smoothed" in codes and codes & {*SLOWER}:
        yield "mfu_smoothed", f"beside {', '.join(sorted(codes & {*SLOWER}))}"
    worth = [each.code for each in advice if each.code != "align_log_interval"]
    if "nothing_to_change" in codes and worth:
        yield "nothing_to_change", f"beside {', '.join(worth)}"
    if "loss_diverged" in codes and [each for each in worth if each not in AGAINST_NAN]:
        yield "loss_diverged", f"beside advice: {', '.join(worth)}"
    if "loss_diverged" in codes and codes & {"nothing_to_change", "forecast", "overfitting"}:
        yield "loss_diverged", f"beside {', '.join(codes & {'nothing_to_change', 'forecast', 'overfitting'})}"
    if "overfitting" in codes and d.loss.last_val is not None and d.loss.last_val == d.loss.best_val:
        yield "overfitting", "the last validation loss is the best"
    if len(prices := codes & {*PRICES}) > 1:
        yield "checkpoint_measured", f"{', '.join(sorted(prices))} on one page"
    if len(starts := {code for code in codes if code.startswith("startup")}) > 1:
        yield "startup", f"{', '.join(sorted(starts))} on one page"
    for each in advice:
        if each.saves_s is not None and each.saves_s > (d.wall.total_s or 0.0):
            yield each.code, "saves more than the whole run"


def text_complaints(truth: Truth, diagnosis: Diagnosis, text: str) -> Iterator[tuple[str, str]]:
    """Complaints about the English report, with line breaks removed."""
    said = " ".join(text.split())
    for found in UNKNOWN_AS_ZERO.finditer(said):
        yield "unknown as zero", said[max(0, found.start() - 40) : found.end() + 20]
    covered = truth.plan.log_interval if truth.plan.fork == "covers" else 1  # the row's time covers this many steps
    slow = [row for row in truth.rows if row.ms > 2 * row.level_ms * (1 if row.first else covered)]
    held = [row for row in truth.plain if row.stall_ms > row.level_ms]
    if "no row is slow" in said and slow and truth.plain:
        yield "no row is slow", f"that of iteration {slow[0].iteration} takes {slow[0].ms / slow[0].level_ms:.1f} steps"
    early = {row.iteration for row in truth.told[:12]}
    if "none because of training" in said and [row for row in held if row.iteration not in early]:
        yield "none because of training", f"that of iteration {held[-1].iteration} was held up"
    headline = said.split("Where the time went")[0]
    if "Nothing is worth changing" in said:
        listed = [each.code for each in diagnosis.findings if each.advice and each.code != "nothing_to_change"]
        if [code for code in listed if code != "align_log_interval"]:
            yield "Nothing is worth changing", f"beside advice: {', '.join(listed)}"
    best = max((each for each in diagnosis.findings if each.advice), key=lambda each: each.saves_s or 0.0, default=None)
    if best is not None and best.saves_s is not None and best.saves_share is not None and best.saves_s < 60:
        advised = re.search(r"\b(?:Do|Try): .*Saves", headline)
        if best.saves_share < 0.01 and advised:
            yield "headline", f"advice that saves {best.saves_share:.2%}, {best.saves_s:.1f} s"


def _one(name: str, why: str | None) -> Iterator[tuple[str, str]]:
    if why:
        yield name, why


def _count(said: float | None, true: float) -> str | None:
    return None if said == true else f"{said}, but it is {true}"
