"""The findings of a comparison, in the order in which people ask: which is faster, which learns better, and why."""

from __future__ import annotations

import math
from collections.abc import Collection

from nanopace.diagnosis.codes import FINDINGS
from nanopace.diagnosis.compare.align import LARGE, Aligned, trained_curve
from nanopace.diagnosis.compare.arrival import SAME_TIME, rows_hide_steps, starts_late
from nanopace.diagnosis.compare.comparable import both_names, same_data, settings_help, why_incomparable
from nanopace.diagnosis.comparison import Arrival, Decomposition
from nanopace.diagnosis.result import Diagnosis, Finding, Number, Step
from nanopace.diagnosis.time.throughput import TOKEN_KNOBS, measured_step_ms
from nanopace.medians import median

_SAME_SPEED = 0.005  # a smaller difference is within the day-to-day variation of a card
_CLEARLY = 2.0  # standard errors between the median steps
_END = 10  # the last of this many parts of the iterations that both logs cover
_FEWEST_LOSSES = 10  # in that part, for a median
_RISEN = 3.0  # standard deviations: the last loss has risen if it is this far above the best


def verdict(
    a: Diagnosis,
    b: Diagnosis,
    parts: Decomposition,
    by_time: Aligned,
    by_tokens: Aligned,
    by_iteration: Aligned,
    arrival: Arrival | None,
) -> list[Finding]:
    """Speed and loss first (with the caveat about the data before the loss), then the reasons, and which run reaches a
    loss first. No speed makes up for a loss that diverged."""
    speed = _speed(a, b, parts.total)
    loss = _loss(a, b, by_time, by_tokens, by_iteration)
    reached = arrival is not None and arrival.ratio is not None
    compared = bool(by_time.points or by_tokens.points or by_iteration.points or reached)
    per_byte: dict[str, Number] = {"target_metric": None if why_incomparable(a, b) is None else "bpb"}
    if_same = [Finding("compare_data_unknown", per_byte)] if compared and not same_data(a, b) else []
    first = [loss[0], *if_same] if why_incomparable(a, b) is not None else [*if_same, loss[0]]
    return [speed[0], *_diverged(a, b), *first, *speed[1:], *loss[1:], *_arrival(a, b, arrival), *_why(parts)]


def _speed(a: Diagnosis, b: Diagnosis, total: float | None) -> list[Finding]:
    of_a, of_b = a.throughput.tokens_per_s, b.throughput.tokens_per_s
    names = both_names(a, b)
    if not a.timed and not b.timed:
        return [Finding("compare_both_untimed")]
    if not a.timed or not b.timed:
        return [Finding("compare_untimed", {"run": names[1] if a.timed else names[0]})]
    if hidden := [name for name, run in zip(names, (a, b), strict=True) if not run.step.normal_rows]:
        return [Finding("compare_step_unknown", {"run": name}) for name in hidden]
    if total is None:
        missing = ", ".join(_missing(a, b)) if settings_help(a, b) else None
        return [Finding("compare_speed_unknown", {"missing": missing}), *_time_per_iteration(a, b)]
    if abs(total) <= _SAME_SPEED:
        return [Finding("compare_speed_equal", {"tokens_per_s": of_b})]
    faster, slower = names if total < 0 else names[::-1]
    fast, slow = (of_a, of_b) if total < 0 else (of_b, of_a)
    numbers = {"faster": faster, "slower": slower, "faster_tokens_per_s": fast, "slower_tokens_per_s": slow}
    if abs(total) <= _CLEARLY * math.hypot(_error(a.step), _error(b.step)):
        return [Finding("compare_speed_unclear", numbers)]
    return [Finding("compare_speed", numbers | {"slower_share": 1 - math.exp(-abs(total))})]


def _error(step: Step) -> float:
    """The standard error of the median step, as a fraction."""
    return 1.25 * (step.spread or 0.0) / math.sqrt(step.normal_rows)


def _missing(a: Diagnosis, b: Diagnosis) -> list[str]:
    """The missing knobs that tokens per iteration depend on."""
    without = [each for each in (a, b) if each.throughput.tokens_per_iteration is None]
    knobs = [knob for knob in TOKEN_KNOBS if any(knob not in each.facts for each in without)]
    return knobs or ["tokens_per_iteration"]


def _time_per_iteration(a: Diagnosis, b: Diagnosis) -> list[Finding]:
    of_a, of_b = measured_step_ms(a.step), measured_step_ms(b.step)
    if not of_a or not of_b or abs(of_a - of_b) <= _SAME_SPEED * max(of_a, of_b):
        return []
    names = both_names(a, b)
    faster, slower = names if of_a < of_b else names[::-1]
    numbers: dict[str, Number] = {"faster": faster, "slower": slower}
    return [
        Finding("compare_time_per_iteration", numbers | {"faster_ms": min(of_a, of_b), "slower_ms": max(of_a, of_b)})
    ]


def _diverged(a: Diagnosis, b: Diagnosis) -> list[Finding]:
    found = []
    for name, run in zip(both_names(a, b), (a, b), strict=True):
        known = (each for each in run.findings if each.code == "loss_diverged")
        found += [Finding("compare_diverged", {"run": name, "iteration": each.numbers["iteration"]}) for each in known]
    return found


def _loss(a: Diagnosis, b: Diagnosis, by_time: Aligned, by_tokens: Aligned, by_iteration: Aligned) -> list[Finding]:
    if (why := why_incomparable(a, b)) is not None:
        return [why]
    names = both_names(a, b)
    at_tokens = _ahead("compare_loss_tokens", "tokens", names, by_tokens)
    if not by_tokens.points:
        at_tokens = _ahead("compare_loss_iterations", "iteration", names, by_iteration)
    risen = _risen(names, (a, b))
    found = _over_time(names, by_time, {str(each.numbers["run"]) for each in risen}) + at_tokens
    if found:
        return found + risen
    known = next((each for each in (by_time, by_tokens, by_iteration) if each.points), None)
    if known is None:
        return [Finding("compare_loss_unknown", _training_losses(names, a, b))]
    code = "compare_loss_equal" if known.leader == "tie" else "compare_loss_uncertain"
    _, of_a, of_b = known.points[-1]
    numbers: dict[str, Number] = {"better_loss": min(of_a, of_b), "worse_loss": max(of_a, of_b)}
    name, behind = (names[0], a) if of_a > of_b else (names[1], b)
    if code == "compare_loss_uncertain":
        late = starts_late(behind)
        numbers |= {"run": name if late else None, "iteration": behind.source.first_iteration if late else None}
    return [Finding(code, numbers), *risen]


def _training_losses(names: tuple[str, str], a: Diagnosis, b: Diagnosis) -> dict[str, Number]:
    """The median training losses near the last iteration that both logs reach. Which run learns better does not follow:
    batches and data may differ."""
    runs = (a, b)
    last = min(run.source.last_iteration for run in runs)
    first = last - (last - max(run.source.first_iteration for run in runs)) // _END
    numbers: dict[str, Number] = {"first_iteration": first, "last_iteration": last}
    for key, name, run in zip(("run", "other"), names, runs, strict=True):
        rows = zip(run.curves.row_iteration, run.curves.row_loss, strict=True)
        losses = [loss for at, loss in rows if first <= at <= last and loss is not None and math.isfinite(loss)]
        if len(losses) < _FEWEST_LOSSES:
            return dict.fromkeys(FINDINGS["compare_loss_unknown"])
        numbers |= {key: name, f"{key}_loss": median(losses)}
    return numbers


def _risen(names: tuple[str, str], runs: tuple[Diagnosis, Diagnosis]) -> list[Finding]:
    """The runs whose last loss is far above their best: the lead rests on a model that the run no longer has."""
    found = []
    for name, run in zip(names, runs, strict=True):
        curve = trained_curve(run)
        if not curve.ys:
            continue
        best, last = min(curve.ys), curve.ys[-1]
        if run.loss.best_val is not None and run.loss.best_val < best:
            continue  # an untrained model that was never beaten
        if last - best > max(LARGE * abs(best), _RISEN * (curve.noise or 0.0)):
            iteration = round(curve.xs[curve.ys.index(best)])
            numbers: dict[str, Number] = {"run": name, "best_val": best, "best_val_iteration": iteration}
            found.append(Finding("compare_risen", numbers | {"last_val": last}))
    return found


def _over_time(names: tuple[str, str], by_time: Aligned, risen: Collection[str]) -> list[Finding]:
    """Which run leads over time. A leader whose loss has risen since does not stay ahead: it was only the first to have
    the lower loss."""
    if by_time.leader is None or by_time.leader == "tie":
        return []
    leader, follower = names if by_time.leader == "a" else names[::-1]
    if by_time.crossover is not None:
        numbers: dict[str, Number] = {"early": follower, "late": leader, "crossover_s": by_time.crossover}
        return [Finding("compare_crossover_best" if leader in risen else "compare_crossover", numbers)]
    seconds, of_a, of_b = by_time.points[-1]
    numbers = {"leader": leader, "follower": follower, "at_s": seconds}
    return [Finding("compare_leads_time", numbers | {"leader_loss": min(of_a, of_b), "follower_loss": max(of_a, of_b)})]


def _ahead(code: str, axis: str, names: tuple[str, str], aligned: Aligned) -> list[Finding]:
    if aligned.leader is None or aligned.leader == "tie":
        return []
    better, worse = names if aligned.leader == "a" else names[::-1]
    place, of_a, of_b = aligned.points[-1]
    numbers: dict[str, Number] = {"better": better, "worse": worse, axis: round(place)}
    return [Finding(code, numbers | {"better_loss": min(of_a, of_b), "worse_loss": max(of_a, of_b)})]


def _arrival(a: Diagnosis, b: Diagnosis, arrival: Arrival | None) -> list[Finding]:
    """Which run reached the shared loss first, and what limits the answer."""
    names = both_names(a, b)
    if arrival is None:
        if why_incomparable(a, b) is not None or not (a.curves.eval_val and b.curves.eval_val):
            return []
        named = list(zip(names, (a, b), strict=True))
        late = [(name, run.source.first_iteration) for name, run in named if starts_late(run)]
        hidden = [name for name, run in named if rows_hide_steps(run)]
        return [
            *(Finding("compare_late_start", {"run": name, "iteration": iteration}) for name, iteration in late),
            *(Finding("compare_clock_unknown", {"run": name}) for name in hidden),
        ]
    found = _sooner(names, arrival)
    for name, reached in zip(names, (arrival.a, arrival.b), strict=True):
        if found and reached.clock == "incomplete":
            found.append(Finding("compare_clock_incomplete", {"run": name}))
    return found


def _sooner(names: tuple[str, str], arrival: Arrival) -> list[Finding]:
    if arrival.ratio is None:
        return []
    of_a_first = arrival.ratio > 1
    first, second = (arrival.a, arrival.b) if of_a_first else (arrival.b, arrival.a)
    sooner, later = names if of_a_first else names[::-1]
    numbers: dict[str, Number] = {
        "sooner": sooner,
        "later": later,
        "target_loss": arrival.target,
        "sooner_s": first.seconds,
        "later_s": second.seconds,
    }
    in_bits = arrival.metric == "bpb"
    unit: dict[str, Number] = {"target_metric": "bpb" if in_bits else None}
    if second.after_iteration is None:  # its first evaluation is already there: it took no longer than that
        return [Finding("compare_arrival_uncertain", numbers | unit | {"at_most_s": second.seconds})]
    if max(arrival.ratio, 1 / arrival.ratio) < SAME_TIME:
        if first.after_iteration is None:
            return []  # it may have been there long before
        return [Finding("compare_arrival_same", numbers | unit)]
    if arrival.sooner is None:
        return [Finding("compare_arrival_uncertain", numbers | unit | {"at_most_s": None})]
    if arrival.sooner == "tie":
        code = "compare_arrival_equal_bits" if in_bits else "compare_arrival_equal"
        return [Finding(code, numbers | {"loss_error": arrival.error})]
    numbers["sooner_ratio"] = max(arrival.ratio, 1 / arrival.ratio)
    if in_bits:
        return [Finding("compare_sooner_bits", numbers)]
    if first.tokens is None or second.tokens is None:
        amounts = {"sooner_iterations": round(first.iteration), "later_iterations": round(second.iteration)}
        return [Finding("compare_sooner_iterations", numbers | amounts)]
    return [Finding("compare_sooner", numbers | {"sooner_tokens": first.tokens, "later_tokens": second.tokens})]


def _why(parts: Decomposition) -> list[Finding]:
    """Why the speeds differ; nothing if they are equal in every part."""
    if parts.flops_per_token is None or parts.utilisation is None:
        return []
    shown = (parts.flops_per_token, parts.utilisation, parts.peak or 0.0, parts.gpu_count or 0.0)
    if max(map(abs, shown)) <= _SAME_SPEED:
        return []
    shares = {
        "flops_per_token_share": math.expm1(parts.flops_per_token),
        "gpu_count_share": math.expm1(parts.gpu_count) if parts.gpu_count else None,
        "utilisation_share": math.expm1(parts.utilisation),
    }
    if parts.peak is None:
        return [Finding("compare_why_unknown_peak", shares)]
    return [Finding("compare_why", shares | {"peak_share": math.expm1(parts.peak)})]
