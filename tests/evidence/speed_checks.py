"""What would make statements false about speed, and about how much of a card is used."""

# ruff: noqa: ARG001 (all checkers are called alike)
from __future__ import annotations

import math

from nanopace.diagnosis.result import Diagnosis

from .check import STEADY, Numbers, check, first_of, off, open_step
from .plan import PEAKS
from .truth import Truth


def changes_around(truth: Truth, iteration: int, claimed: float) -> list[float]:
    """By how much the true step changes around a place, which is only known to within a few rows, more of them if the
    change is small compared with the noise: each jump, and all together."""
    rows = truth.rows
    astray = max(6, len(rows) // 12) + round(10 * (truth.plan.noise / max(0.03, abs(math.log1p(claimed)))) ** 2)
    index = next((k for k, row in enumerate(rows) if row.iteration >= iteration), len(rows) - 1)
    near = rows[max(0, index - astray) : index + astray]
    jumps = [factor - 1 for at, factor in truth.jumps if near[0].iteration <= at <= near[-1].iteration]
    return [*jumps, near[-1].level_ms / near[0].level_ms - 1]


@check("level_shift", "memory_spill")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    why = blamed(truth, said["iteration"]) if "ratio" not in said else None
    return why or none_there(truth, said)


def none_there(truth: Truth, said: Numbers) -> str | None:
    """Whether the speed does not change at the named place, or by much less."""
    claimed = said["after_ms"] / said["before_ms"] - 1
    true = max(changes_around(truth, said["iteration"], claimed), key=lambda change: change * claimed)
    levels = min(truth.levels), max(truth.levels)
    by = levels[1] * open_step(truth, 5)
    if claimed * true <= 0 or abs(true) < abs(claimed) / 3 - open_step(truth, 5):
        return f"a jump of {claimed:+.1%} at {said['iteration']}, but there it is {true:+.1%}"
    return first_of(
        off("before_ms", said["before_ms"], *levels, by=by),
        off("after_ms", said["after_ms"], *levels, by=by),
    )


def blamed(truth: Truth, iteration: int) -> str | None:
    """The card's clock is named as the reason although the log shows another."""
    near = 6 * truth.plan.log_interval
    if truth.nan_from is not None and abs(truth.nan_from - iteration) <= near and truth.plan.nan_factor != 1:
        return f"blamed on the card at {iteration}, but the loss became nan at {truth.nan_from}"
    for process, at in truth.resumed.items():
        factor = truth.plan.restarts[process - 1][1] if process <= len(truth.plan.restarts) else 1.0
        if abs(at - iteration) <= near and factor != 1:
            return f"blamed on the card at {iteration}, but a new process began at {at}"
    return None


@check("level_shift_at_nan")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    if truth.nan_from is None or abs(truth.nan_from - said["iteration"]) > 12 * truth.plan.log_interval:
        return "the loss did not become nan there"
    return none_there(truth, said)


@check("level_shift_at_restart")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    near = 12 * truth.plan.log_interval
    if not any(abs(at - said["iteration"]) <= near for at in truth.resumed.values()):
        return "no process began there"
    return none_there(truth, said)


def fifths(truth: Truth) -> tuple[float, float, float]:
    """The true first and last fifth in ms, each with its tolerance for noise."""
    fifth = max(1, len(truth.levels) // 5)
    first, last = truth.levels[:fifth], truth.levels[-fifth:]
    by = max(truth.levels) * open_step(truth, fifth) + (max(first) - min(first)) + (max(last) - min(last))
    return sum(first) / fifth, sum(last) / fifth, by


@check("drift", "slower_at_the_end", "faster_at_the_end")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    first, last, by = fifths(truth)
    claimed = said.get("change_share", said.get("drift_share", 0.0))
    true, reach = last / first - 1, 0.02 + math.sqrt(2) * open_step(truth, len(truth.levels) // 5)
    if claimed * true <= 0 and abs(claimed) > reach:
        return f"{claimed:+.1%} from the first fifth to the last, but it is {true:+.1%}"
    jump = max((abs(factor - 1) for _, factor in truth.jumps), default=0.0)
    if said.get("drift_share") is not None and jump > 0.05 + open_step(truth, 10):
        return f"without a jump, but there is one of {jump:.1%}"
    return first_of(
        off("first_ms", said.get("first_ms"), first, by=by),
        off("last_ms", said.get("last_ms"), last, by=by),
    )


@check("slow_beginning")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    early = [row.level_ms for row in truth.rows if row.iteration < truth.rows[0].iteration + said["iterations"]]
    late = [row.level_ms for row in truth.rows][len(early) :]
    if not early or not late or sum(early) / len(early) < 1.1 * sum(late) / len(late):
        return "the beginning was not slower"
    return off("before_ms", said["before_ms"], min(early), max(early), by=max(early) * open_step(truth, len(early)))


@check("pace_changes")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    by = max(truth.levels) * (open_step(truth, 5) + 0.02)
    return first_of(
        off("fastest_ms", said["fastest_ms"], min(truth.levels), max(truth.levels), by=by),
        off("slowest_ms", said["slowest_ms"], min(truth.levels), max(truth.levels), by=by),
        "the speed is the same throughout" if truth.unsteady < 0.03 and truth.plan.noise < 0.03 else None,
    )


# --- mfu -------------------------------------------------------------------------------------------------------------


def steady_off(truth: Truth, said: float | None) -> str | None:
    """W / step, over the range of the steps; printed with two decimals."""
    low, high = truth.mfu_at(max(truth.levels)), truth.mfu_at(min(truth.levels))
    return off("steady mfu", said, low, high, by=0.0001 + high * open_step(truth))


@check("mfu_smoothed")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """ "The card did not slow down ... throughout"."""
    fifth = max(1, len(truth.levels) // 5)
    allowed = STEADY + math.sqrt(2) * open_step(truth, fifth)
    if truth.slowing > allowed:
        return f"it did not slow down, but the last fifth is {truth.slowing:+.1%}"
    if truth.unsteady > 2 * allowed:
        return f"the same throughout, but the slowest fifth is {truth.unsteady:+.1%} over the fastest"
    return first_of(
        off("printed_last", said["printed_last"], (truth.rows[-1].mfu or 0) / 100),
        steady_off(truth, said["steady_printed"]),
    )


@check("mfu_smoothed_and_slower")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    first, last, by = fifths(truth)
    share, true = said["change_share"], last / first - 1
    reach = 0.02 + math.sqrt(2) * open_step(truth, len(truth.levels) // 5)
    return first_of(
        f"{share:+.1%}, but it is {true:+.1%}" if share is not None and share > reach and true <= 0 else None,
        off("first_ms", said["first_ms"], first, by=by),
        off("last_ms", said["last_ms"], last, by=by),
        steady_off(truth, said["steady_printed"]),
    )


@check("mfu_smoothed_only")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    """About the printed figure only: it says nothing about the card."""
    return first_of(
        off("printed_last", said["printed_last"], (truth.rows[-1].mfu or 0) / 100),
        steady_off(truth, said["steady_printed"]),
    )


@check("mfu_disagrees")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    return f"the printed mfu is right, and both are {truth.mfu_at(truth.step_ms):.4f}"


@check("mfu_other_card", "mfu_card_unknown", "mfu_over_100", "mfu_zero")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    steady, achieved = said.get("steady_printed"), said.get("achieved_tflops")
    unknown = d.mfu.card_name is None and truth.plan.gpu is not None
    printed = [row.mfu or 0 for row in truth.rows]
    low, high = (truth.mfu_at(ms) * 312 for ms in (max(truth.levels), min(truth.levels)))
    return first_of(
        "the card is known" if unknown else None,
        "a printed mfu is above 0"
        if "steady_printed" not in said and max(printed) > 0 and "card" not in said
        else None,
        steady_off(truth, steady),
        off("achieved_tflops", achieved, low, high, by=312 * 0.0001 + high * open_step(truth)),
    )


@check(
    "utilisation_near_limit", "utilisation_good", "utilisation_half_idle", "utilisation_mostly_idle", "card_above_peak"
)
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    if truth.plan.gpu is None:
        return "the card is unknown"
    peak = PEAKS[truth.plan.gpu]
    low, high = (truth.mfu_at(ms) * 312 / peak for ms in (max(truth.levels), min(truth.levels)))
    return off("card", said["card"], low, high, by=0.0003 + high * open_step(truth))


@check("mfu_unknown")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    told = (truth.plan.mfu and max(row.mfu or 0 for row in truth.rows) > 0.02) or truth.plan.header
    known = told and truth.plan.gpu is not None and truth.plan.cut != "head" and truth.plain
    return "all that it takes is known" if known else None


@check("tokens_unknown")
def _(truth: Truth, said: Numbers, d: Diagnosis) -> str | None:
    return "the log tells the tokens of an iteration" if "tokens per iteration" in truth.text else None
