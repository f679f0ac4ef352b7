"""Why a run with faster steps is not ahead at equal time: what its clock contains besides normal steps.

The speed of a run is that of its normal steps. A slow stretch, many evaluations, restarts or a long start-up make the
run slower than that, and the two answers seem to contradict each other until the reason is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

from nanopace.diagnosis.compare.align import Aligned
from nanopace.diagnosis.compare.comparable import both_names
from nanopace.diagnosis.result import Diagnosis, Finding, Level, Number
from nanopace.diagnosis.time.time_findings import stalls_in_doubt_s

Phase = Literal["evaluation", "checkpoint", "startup", "stall", "restart", "rollback"]

_CLEARLY = 1.02  # times as fast
_SLOW = 1.2  # times the run's normal step: a stretch worth naming
_MUCH = 0.1  # of the time up to the comparison: no small change of the loss hides behind it
_WORTH_NAMING = 0.02  # of the run's time, in excess of the other's share


class _Reason(NamedTuple):
    weight: float  # share of the time up to the comparison, as far as known
    share: float  # of the run's total time
    what: Level | Phase


def contradictions(a: Diagnosis, b: Diagnosis, by_tokens: Aligned, by_time: Aligned) -> Iterator[Finding]:
    """Explain the contradiction; nothing if the run with the faster steps is also ahead overall. With steps that are
    equally fast, explain why one run is behind at equal time, if that takes much of its time."""
    of_a, of_b = a.throughput.tokens_per_s, b.throughput.tokens_per_s
    if not of_a or not of_b:
        return
    if max(of_a / of_b, of_b / of_a) < _CLEARLY:
        yield from _behind(a, b, by_time)
        return
    names, a_is_faster = both_names(a, b), of_a > of_b
    fast, slow = (a, b) if a_is_faster else (b, a)
    faster, slower = names if a_is_faster else names[::-1]
    overall = _overall(fast, slow)
    leads = "a" if a_is_faster else "b"
    behind = by_tokens.leader in (leads, "tie") and by_time.leader not in (leads, "tie", None)
    if overall is not None:
        numbers: dict[str, Number] = {"faster": faster, "slower": slower}
        numbers |= {"faster_overall_tokens_per_s": overall[0], "slower_overall_tokens_per_s": overall[1]}
        yield Finding("compare_overall", numbers)
        yield from _named(faster, fast, slow, fast.wall.awake_s)
    elif behind:
        yield from _named(faster, fast, slow, _time_compared(fast, by_time), since_first_step=True)


def _behind(a: Diagnosis, b: Diagnosis, by_time: Aligned) -> Iterator[Finding]:
    """What takes much of the time of the run that is behind at equal time."""
    if by_time.leader not in ("a", "b"):
        return
    of_a, of_b = both_names(a, b)
    name, run, other = (of_b, b, a) if by_time.leader == "a" else (of_a, a, b)
    yield from _named(name, run, other, _time_compared(run, by_time), since_first_step=True, least=_MUCH)


def _time_compared(run: Diagnosis, by_time: Aligned) -> float:
    return min(run.wall.awake_s, by_time.points[-1][0])


def _overall(fast: Diagnosis, slow: Diagnosis) -> tuple[float, float] | None:
    """Both runs' tokens per second of wall clock, if the run with the faster steps has the lower figure."""
    of_fast, of_slow = fast.throughput.tokens_per_s_overall, slow.throughput.tokens_per_s_overall
    if not of_fast or not of_slow or of_slow / of_fast < _CLEARLY:
        return None
    return of_fast, of_slow


def _named(
    name: str,
    run: Diagnosis,
    other: Diagnosis,
    until_s: float,
    *,
    since_first_step: bool = False,
    least: float = 0.0,
) -> Iterator[Finding]:
    """The main reason in the time up to the comparison, if it takes at least this share of it."""
    reasons = [] if until_s <= 0 else [*_stretches(run, until_s), *_phases(run, other, until_s)]
    reasons = [reason for reason in reasons if reason.weight >= least]
    if since_first_step:
        reasons = [reason for reason in reasons if reason.what != "startup"]
    if not reasons:
        return
    _, share, what = max(reasons, key=lambda reason: reason.weight)
    if isinstance(what, Level):
        span = {"first_iteration": what.first_iteration, "last_iteration": what.last_iteration}
        assert run.step.median_ms, "a slow stretch is slower than a normal step"
        yield Finding("compare_stretch", {"run": name, **span, "ratio": what.median_ms / run.step.median_ms})
    else:
        yield Finding("compare_time_share", {"run": name, "phase": what, "time_share": share})


def _stretches(run: Diagnosis, until_s: float) -> Iterator[_Reason]:
    """The levels slower than the normal step, with the time they cost; later ones explain nothing."""
    normal, start_s = run.step.median_ms or 0.0, 0.0
    for level in run.step.levels:
        iterations = level.last_iteration - level.first_iteration + 1
        if normal > 0 and level.median_ms >= _SLOW * normal and start_s < until_s:
            lost_s = (level.median_ms - normal) / 1000 * iterations
            yield _Reason(lost_s / until_s, lost_s / run.wall.awake_s, level)
        start_s += level.median_ms / 1000 * iterations


def _phases(run: Diagnosis, other: Diagnosis, until_s: float) -> Iterator[_Reason]:
    """What takes a larger share of this run's time than of the other's. Start-up is all at the beginning."""
    for phase, share in _shares(run).items():
        if share - _shares(other)[phase] > _WORTH_NAMING:
            yield _Reason((run.wall.startup_s or 0.0) / until_s if phase == "startup" else share, share, phase)


def _shares(run: Diagnosis) -> dict[Phase, float]:
    wall, awake = run.wall, run.wall.awake_s or 1.0
    seconds: dict[Phase, float] = {phase: getattr(wall, f"{phase}_s") or 0.0 for phase in get_args(Phase)}
    seconds["stall"] = max(0.0, seconds["stall"] - stalls_in_doubt_s(run.findings))
    return {phase: spent / awake for phase, spent in seconds.items()}
