"""Where a run will end that is not over, if a finished run of the same length is at hand.

Runs with the same schedule keep their distance: the logarithm of the ratio of their losses changes little from a tenth
of the run on. So the running one is expected to end as far from the finished one as it is now. The further the loss has
yet to fall, and the further apart the two are, the less certain that is.

Nothing is assumed about the schedule but that it is the same. The two constants suit runs of GPT-2's size by others and
small ones of our own (bench/forecast.py --pairs).
"""

from __future__ import annotations

import math

from nanopace.diagnosis.compare.align import LARGE, Curve, trained_curve
from nanopace.diagnosis.compare.comparable import both_names, number_of, why_incomparable
from nanopace.diagnosis.loss.trend import Z80, Band
from nanopace.diagnosis.result import Diagnosis, Finding, Number

_EARLIEST = 0.08  # of the run: a first evaluation at a tenth counts, earlier the order of two runs often changes
_FINISHED = 0.98  # of max_iters: nanoGPT's last evaluation is up to one interval earlier
_FEWEST = 8  # evaluations of the finished run: with fewer, what looks like noise is the bend of the curve
_RECENT = 0.9  # of the iterations so far: the distance is the mean since then
# Standard deviations of how much the distance, a logarithm, will change by the end:
_PER_DROP = 0.05  # times what the finished run's loss still fell by: a run with other settings falls more or less
_PER_DISTANCE = 0.7  # times the distance now, and the share of the run that is left: a smaller model falls behind
_SCHEDULE = ("lr_decay_iters", "decay_lr", "cooldown", "warmup_iters", "recipe", "without")
_FROM_SCRATCH = ("scratch", "resume")


def outlook(a: Diagnosis, b: Diagnosis) -> list[Finding]:
    """How the run that is not over will end, relative to the finished one; nothing unless it is one of each, alike in
    trainer, schedule and tokens per iteration."""
    if a.loss.metric != "loss" or why_incomparable(a, b) is not None or not _same_schedule(a, b):
        return []
    name, other = both_names(a, b)
    finished, running = trained_curve(a), trained_curve(b)
    end = number_of(a, "max_iters") or math.inf
    if _is_over(running, end):
        name, other, finished, running = other, name, running, finished
    if not _is_over(finished, end) or _is_over(running, end) or _has_risen(finished) or _has_risen(running):
        return []
    band = end_of(finished, running)
    if band is None:
        return []
    goal, last = finished.xs[-1], finished.ys[-1]
    code = "compare_end_lower" if band.high < last else "compare_end_higher" if band.low > last else "compare_end_open"
    numbers: dict[str, Number] = {"run": other, "other": name, "iteration": round(goal), "other_loss": last}
    return [Finding(code, numbers | {"loss": band.value, "low": band.low, "high": band.high})]


def end_of(finished: Curve, running: Curve) -> Band | None:
    """The loss of the running curve at the last iteration of the finished one, and its 80% interval; None if it is too
    early, or if there are too few evaluations."""
    goal = finished.xs[-1]
    shared = [(x, y) for x, y in zip(running.xs, running.ys, strict=True) if finished.xs[0] <= x < goal and y > 0]
    noise = finished.noise  # and of the running one, which may be too short to tell
    if noise is None or len(finished.xs) < _FEWEST or not shared or shared[-1][0] < _EARLIEST * goal:
        return None
    last = shared[-1][0]
    apart = [math.log(y / finished.at(x)) for x, y in shared if x >= _RECENT * last]
    distance = sum(apart) / len(apart)
    drop = max(0.0, math.log(finished.at(last) / finished.ys[-1]))
    drift = math.hypot(_PER_DROP * drop, _PER_DISTANCE * (1 - last / goal) * distance)
    noises = 2 + 2 / len(apart)  # both ends and both means are noisy
    width = Z80 * math.hypot(drift, noise / finished.ys[-1] * math.sqrt(noises))
    value = math.log(finished.ys[-1]) + distance
    return Band(math.exp(value), math.exp(value - width), math.exp(value + width))


def _same_schedule(a: Diagnosis, b: Diagnosis) -> bool:
    """Whether nothing known about the two schedules differs, and both are to be as long."""
    length = number_of(a, "max_iters")
    if a.source.format != b.source.format or length is None or length != number_of(b, "max_iters"):
        return False
    tokens = {run.throughput.tokens_per_iteration for run in (a, b)} - {None}
    origins = [run.facts["init_from"].value for run in (a, b) if "init_from" in run.facts]
    differ = any(
        name in a.facts and name in b.facts and a.facts[name].value != b.facts[name].value for name in _SCHEDULE
    )
    return len(tokens) < 2 and not differ and all(origin in _FROM_SCRATCH for origin in origins)


def _is_over(curve: Curve, end: float) -> bool:
    return bool(curve.xs) and curve.xs[-1] >= _FINISHED * end


def _has_risen(curve: Curve) -> bool:
    """Whether the loss is far above its best: such a run has diverged or overfits, and keeps no distance."""
    return bool(curve.ys) and curve.ys[-1] > (1 + LARGE) * min(curve.ys)
