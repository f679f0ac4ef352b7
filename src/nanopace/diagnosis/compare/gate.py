"""Whether a run may pass: is it slower than another, is its mfu too low, its overhead too high, its step too long?

Codes and numbers; the sentences are in wording/gates.py. An unknown never passes (decision 41).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from nanopace.diagnosis.compare.slowdown import BETWEEN_RUNS, LEAST_ROWS, Sample, Slowdown, rows_enough, slowdown
from nanopace.diagnosis.result import JSON_VERSION, Diagnosis, Finding, Number
from nanopace.diagnosis.time.throughput import TOKEN_KNOBS, missing_for_tokens
from nanopace.run import Run

Answer = Literal["passed", "failed", "unknown"]
CheckName = Literal["slower", "min_mfu", "max_overhead", "max_step_ratio"]

NEW, BASE = "NEW", "BASE"  # as the command line calls them

_COMPARED = ("change", "low", "high", "new_ms", "base_ms", "new_tokens_per_s", "base_tokens_per_s")
_SLOWER = ("limit", *_COMPARED, "new_rows", "base_rows")  # tokens per second: None if all steps have the same number
_RATIO = ("limit", "ratio", "low", "high")
_MORE_ROWS = ("rows_more", "run")  # run: which one needs them; None if both do

# Every code, and the numbers that its sentence may need.
CHECKS: Mapping[str, tuple[str, ...]] = {
    "slower": _SLOWER,
    "not_slower": _SLOWER,
    "slower_unclear": (*_SLOWER, *_MORE_ROWS),
    "slower_unclear_wanders": (*_SLOWER, *_MORE_ROWS, "lowest", "highest"),  # over the stretches of the runs
    "slower_unclear_unsteady": (*_SLOWER, "lowest", "highest"),
    "slower_unclear_digits": _SLOWER,
    "slower_unclear_limit": (*_SLOWER, "least_limit"),
    "few_rows": ("run", "rows", "needed"),
    "few_rows_in_common": ("needed",),
    "no_plain_row": ("run",),
    "untimed": ("run",),  # its log has losses but no step times; for every check
    "tokens_of_one_unknown": ("run", "missing"),
    "batches_differ": ("knob", "new_value", "base_value", "missing"),
    "step_too_long": _RATIO,
    "step_short_enough": _RATIO,
    "step_unclear": (*_RATIO, *_MORE_ROWS),  # both None if more rows do not help
    "mfu_too_low": ("limit", "mfu", "card_name"),
    "mfu_high_enough": ("limit", "mfu", "card_name"),
    "mfu_unclear": (),
    "overhead_too_high": ("limit", "overhead"),
    "overhead_low_enough": ("limit", "overhead"),
    "overhead_unclear": (),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """The requested limits; None means not checked. All but the ratio are fractions."""

    slower: float | None = None
    min_mfu: float | None = None
    max_overhead: float | None = None
    max_step_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Check:
    check: CheckName
    answer: Answer
    code: str
    numbers: Mapping[str, Number]
    by_iteration: bool = False  # the tokens are unknown in both logs and assumed to be equal
    because: Finding | None = None  # why the new run's mfu is unknown


@dataclass(frozen=True, slots=True)
class Gate:
    answer: Answer  # failed if any check failed, else unknown if any is unknown
    new: str
    base: str | None
    checks: tuple[Check, ...]
    slowdown: Slowdown | None  # per token if the tokens of both are known
    version: int = JSON_VERSION


def judge(
    new: tuple[Run, Sample], base: tuple[Run, Sample] | None, limits: Limits, diagnosis: Diagnosis | None
) -> Gate:
    """Run all requested checks. `slower` and the step ratio need a `base`, the others need the `diagnosis` of the new
    run."""
    checks, found = [], None
    runs = {NEW: new[0]} if base is None else {NEW: new[0], BASE: base[0]}
    if base is not None and limits.slower is not None:
        unknown = _untimed("slower", runs)
        check, found = (unknown, None) if unknown is not None else _slower(new, base, limits.slower)
        checks.append(check)
    if diagnosis is not None and limits.min_mfu is not None:
        checks.append(_untimed("min_mfu", {NEW: new[0]}) or _mfu(diagnosis, limits.min_mfu))
    if diagnosis is not None and limits.max_overhead is not None:
        checks.append(_untimed("max_overhead", {NEW: new[0]}) or _overhead(diagnosis, limits.max_overhead))
    if base is not None and limits.max_step_ratio is not None:
        checks.append(_untimed("max_step_ratio", runs) or _step_ratio(new[1], base[1], limits.max_step_ratio))
    answers = {check.answer for check in checks}
    answer: Answer = "failed" if "failed" in answers else "unknown" if "unknown" in answers else "passed"
    return Gate(answer, new[0].name, None if base is None else base[0].name, tuple(checks), found)


def _untimed(check: CheckName, runs: Mapping[str, Run]) -> Check | None:
    """The answer "unknown" if a log has no step times."""
    for name, run in runs.items():
        if not len(run.rows) and len(run.untimed_rows):
            return Check(check, "unknown", "untimed", {"run": name})
    return None


def _slower(new: tuple[Run, Sample], base: tuple[Run, Sample], limit: float) -> tuple[Check, Slowdown | None]:
    """Failed: certainly slower, and perhaps by the limit. Passed: certainly by less than the limit."""
    tokens = new[0].number("tokens_per_iteration"), base[0].number("tokens_per_iteration")
    unknown = _no_common_measure(new[0], base[0])
    if unknown is not None:
        return unknown, None
    ratio = tokens[0] / tokens[1] if tokens[0] and tokens[1] else 1.0
    found = slowdown(new[1], base[1], ratio)
    if found is None:
        return _too_few("slower", new[1], base[1]), None
    ms = found.new_ms, found.base_ms
    rates = [1000 * each / step_ms if each and ratio != 1 else None for each, step_ms in zip(tokens, ms, strict=True)]
    numbers: dict[str, Number] = {
        "limit": limit,
        "change": found.change_share,
        "low": found.low_share,
        "high": found.high_share,
        "new_ms": found.new_ms,
        "base_ms": found.base_ms,
        "new_tokens_per_s": rates[0],
        "base_tokens_per_s": rates[1],
        "new_rows": found.new_rows,
        "base_rows": found.base_rows,
    }
    if found.high_share < limit:
        answer: Answer = "passed"
        code = "not_slower"
    elif found.low_share > 0:
        answer, code = "failed", "slower"
    else:
        answer = "unknown"
        code, more = _why_unclear(found, limit, new[1], base[1])
        numbers |= more
    return Check("slower", answer, code, numbers, by_iteration=tokens == (None, None)), found


def _no_common_measure(new: Run, base: Run) -> Check | None:
    """Why neither tokens nor iterations are comparable: one run's tokens are unknown, or the batches differ."""
    without = {name: missing_for_tokens(run) for name, run in ((NEW, new), (BASE, base))}
    missing = {name: ", ".join(knobs) for name, knobs in without.items() if knobs}
    if len(missing) == 1:
        ((run, knobs),) = missing.items()
        return Check("slower", "unknown", "tokens_of_one_unknown", {"run": run, "missing": knobs})
    for knob in TOKEN_KNOBS if missing else ():
        values = new.number(knob), base.number(knob)
        if None not in values and values[0] != values[1]:
            numbers: dict[str, Number] = {"knob": knob, "new_value": values[0], "base_value": values[1]}
            return Check("slower", "unknown", "batches_differ", numbers | {"missing": missing[NEW]})
    return None


def _too_few(check: CheckName, new: Sample, base: Sample) -> Check:
    for name, each in ((NEW, new), (BASE, base)):
        if not each.place:
            return Check(check, "unknown", "no_plain_row", {"run": name})
        if len(each.place) < LEAST_ROWS:
            return Check(check, "unknown", "few_rows", {"run": name, "rows": each.rows, "needed": LEAST_ROWS})
    return Check(check, "unknown", "few_rows_in_common", {"needed": LEAST_ROWS})


def _why_unclear(found: Slowdown, limit: float, new: Sample, base: Sample) -> tuple[str, dict[str, Number]]:
    """Why the answer is unclear, and how many rows would settle it. An interval of at most half the limit to either
    side never contains both 0 and the limit."""
    half = math.log1p(limit) / 2
    extremes: dict[str, Number] = {"lowest": found.lowest_share, "highest": found.highest_share}
    if not found.steady:
        return "slower_unclear_unsteady", extremes
    if half <= BETWEEN_RUNS:
        return "slower_unclear_limit", {"least_limit": math.expm1(2 * BETWEEN_RUNS)}
    enough = rows_enough(found, half)
    if enough is None:
        return "slower_unclear_digits", {}
    more = _more_rows(enough, new, base)
    return ("slower_unclear_wanders", more | extremes) if found.wanders else ("slower_unclear", more)


def _more_rows(enough: int, new: Sample, base: Sample) -> dict[str, Number]:
    """How many more rows are needed, to two digits, and from which run."""
    lacking = {name: enough - each.rows for name, each in ((NEW, new), (BASE, base)) if each.rows < enough}
    more = max(lacking.values(), default=enough)
    digit = int(10 ** max(0, len(str(more)) - 2))
    return {"rows_more": -(-more // digit) * digit, "run": next(iter(lacking)) if len(lacking) == 1 else None}


def _step_ratio(new: Sample, base: Sample, limit: float) -> Check:
    """Check the time per iteration, whatever its tokens: certainly above the limit, certainly not, or unclear."""
    found = slowdown(new, base)
    if found is None:
        return _too_few("max_step_ratio", new, base)
    ratios = {"ratio": found.change_share, "low": found.low_share, "high": found.high_share}
    numbers: dict[str, Number] = {"limit": limit, **{name: 1 + share for name, share in ratios.items()}}
    if 1 + found.low_share > limit:
        return Check("max_step_ratio", "failed", "step_too_long", numbers)
    if 1 + found.high_share <= limit:
        return Check("max_step_ratio", "passed", "step_short_enough", numbers)
    enough = rows_enough(found, abs(math.log1p(found.change_share) - math.log(limit)))
    more = {"rows_more": None, "run": None} if enough is None else _more_rows(enough, new, base)
    return Check("max_step_ratio", "unknown", "step_unclear", numbers | more)


def _mfu(diagnosis: Diagnosis, limit: float) -> Check:
    """Check the utilisation of the card that ran. If several cards are possible, they must all give the same answer."""
    mfu = diagnosis.mfu
    low, high = (mfu.card, mfu.card) if mfu.card is not None else (mfu.card_low, mfu.card_high)
    if low is not None and low >= limit:
        return Check("min_mfu", "passed", "mfu_high_enough", {"limit": limit, "mfu": low, "card_name": mfu.card_name})
    if high is not None and high < limit:
        return Check("min_mfu", "failed", "mfu_too_low", {"limit": limit, "mfu": high, "card_name": mfu.card_name})
    why = ("card_variants", "mfu_unknown", "mfu_card_unknown", "card_without_peak", "ran_on_cpu")
    because = next((finding for finding in diagnosis.findings if finding.code in why), None)
    return Check("min_mfu", "unknown", "mfu_unclear", {}, because=because)


def _overhead(diagnosis: Diagnosis, limit: float) -> Check:
    share = diagnosis.wall.overhead_share
    if share is None:
        return Check("max_overhead", "unknown", "overhead_unclear", {})
    numbers: dict[str, Number] = {"limit": limit, "overhead": share}
    if share > limit:
        return Check("max_overhead", "failed", "overhead_too_high", numbers)
    return Check("max_overhead", "passed", "overhead_low_enough", numbers)
