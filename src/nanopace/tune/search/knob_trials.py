"""Try one knob after the other, alternating with the best so far; keep it only if it gains more than the noise."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from nanopace.config import TrainConfig
from nanopace.literals import Value
from nanopace.tune.search.trial_runner import Changed, TrialRunner
from nanopace.tune.shapley import Share, shares

PAIRS = 2  # runs with and without a knob that seems to gain, to estimate the noise
_MOST_PAIRS = 3  # if the noise is too large
_HOPELESS = -0.02  # a knob that loses this much in its first pair gets no second one
_TO_COMPILE_S = 45.0  # until it is known


@dataclass(frozen=True, slots=True)
class KnobTrial:
    """A knob that was tried, and its effect on the logarithm of the speed."""

    knob: str
    value: Value
    verdict: str  # kept, no_gain, failed, no_time, no_compiler
    speed: Share | None = None
    said: str = ""  # by a trial that failed


def knobs_to_try(config: TrainConfig, on_a_card: bool) -> list[tuple[str, Value]]:
    """What to try, in order: likely gains first, long compilations last."""
    if not on_a_card:
        return [("compile", not config.compile)]
    if not config.compile:
        return [("compile", True)]
    if not config.fused:
        return [("fused", True)]
    return [("fp8", False)] if config.fp8 else [("fp8", True), ("fused", False)]


def try_knobs(
    trials: TrialRunner, best: dict[str, Value], knobs: Sequence[tuple[str, Value]]
) -> tuple[dict[str, Value], tuple[KnobTrial, ...]]:
    found = []
    for knob, value in knobs:
        changed = {**best, knob: value}
        if knob == "fused" and not value and best.get("fp8"):
            continue  # 8 bits are part of our kernels
        trial = _try_knob(trials, best, changed, knob)
        found.append(trial)
        if trial.verdict == "kept":
            best = changed
    return best, tuple(found)


def _try_knob(trials: TrialRunner, best: Changed, changed: Changed, knob: str) -> KnobTrial:
    value = changed[knob]
    compiles = knob in ("compile", "fused") and bool(value) == (knob == "compile")
    if compiles and not has_compiler():
        return KnobTrial(knob, value, "no_compiler")
    if not trials.affords(changed, others=2 * PAIRS - 1 + 2 * bool(best), extra_s=_TO_COMPILE_S * compiles):
        return KnobTrial(knob, value, "no_time")
    begin = _last_two(trials, best)
    speed = in_turns(trials, best, changed, begin, 1, reserve=2)
    for done in range(1, _MOST_PAIRS):
        if speed is None or (speed.value < _HOPELESS if done < PAIRS else speed.value < 0 or speed.shows):
            break
        speed = in_turns(trials, best, changed, begin, 1, reserve=2)
    if speed is None:
        failed = trials.tried[-1].outcome
        verdict = "failed" if failed.failure in ("error", "memory") else "no_time"
        return KnobTrial(knob, value, verdict, said=failed.said)
    return KnobTrial(knob, value, "kept" if speed.shows and speed.value > 0 else "no_gain", speed)


def _last_two(trials: TrialRunner, best: Changed) -> int:
    """Where to count from: what was tried just now, or with one trial in between, need not be repeated."""
    recent = [each.changed for each in trials.tried[-2:]]
    return len(trials.tried) - (len(recent) - recent.index(best) if best in recent else 0)


def in_turns(
    trials: TrialRunner, best: Changed, changed: Changed, begin: int, pairs: int, reserve: int
) -> Share | None:
    """Run `pairs` more of both, alternating. Return the effect of the change on the speed, from all trials since
    `begin`; None if it fails."""
    for _ in range(pairs):
        for each in (best, changed):
            if each == best and trials.rates(best, begin) and not trials.rates(changed, begin):
                continue  # it was tried just before
            if trials.affords(each, others=reserve) and not trials.run(each).worked and each == changed:
                return None
    return _compared(trials, best, changed, begin)


def _compared(trials: TrialRunner, before: Changed, after: Changed, begin: int) -> Share | None:
    rates = rates_of(trials, before, after, begin)
    if not all(rates):
        return None
    logarithms = [[math.log(rate) for rate in each] for each in rates]
    return shares(["after"], {frozenset[str](): logarithms[0], frozenset(["after"]): logarithms[1]})[0]


def rates_of(trials: TrialRunner, before: Changed, after: Changed, begin: int) -> tuple[list[float], list[float]]:
    """Only from alternating trials, unless there are too few: a setting chosen for its speed was partly lucky."""
    rates = trials.rates(before, begin), trials.rates(after, begin)
    return rates if min(map(len, rates)) > 1 else (trials.rates(before), trials.rates(after))


def has_compiler() -> bool:
    """Whether torch.compile would find a compiler on a CPU."""
    chosen = os.environ.get("CXX")
    return any(shutil.which(name) for name in ([chosen] if chosen else ["c++", "g++", "clang++", "cl"]))
