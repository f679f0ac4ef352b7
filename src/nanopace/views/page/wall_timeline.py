"""The wall clock as a timeline: what was not training, and when."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from nanopace.diagnosis.result import Diagnosis, SlowRow
from nanopace.views.report import main_cause

NARROWEST = 0.0008  # share of the strip that is one column of pixels wide: moments closer than this are drawn as one


@dataclass(frozen=True, slots=True)
class Moment:
    """Time that was not training, at its place in the run, as shares of the wall clock."""

    cause: str
    start: float
    width: float
    seconds: float
    count: int = 1  # several within one column of pixels are drawn as one


def timeline(run: Diagnosis) -> tuple[Moment, ...]:
    """What was not training, and when: the start-up, slow rows, and evaluations and checkpoints between rows."""
    total, curves = run.wall.total_s, run.curves
    if not total or not run.timed:
        return ()
    moments = _slow_moments(run)
    moments += [
        _moment("suspended" if stall.reason == "suspend" else "stall", stall.end_s, stall.length_s, total)
        for stall in run.faults.stalls
    ]
    saves = zip(curves.save_seconds, curves.save_ms, strict=True)
    moments += [_moment("checkpoint", end, ms / 1000, total) for end, ms in saves]
    measured = run.phases is not None  # else the start-up and its evaluation are part of the first row
    if run.phases is not None and not run.restarts.count:
        start_s = run.phases.startup_s + run.phases.compile_s  # the first row has its own share of the start-up
        moments.append(_moment("compile", start_s, start_s, total))
    each_ms = run.evaluations.each_ms
    if each_ms is not None:
        seen = {slow.iteration for slow in run.slow_rows if {"evaluation", "checkpoint"} & {*slow.causes}}
        hidden = [
            end
            for iteration, end in zip(curves.eval_iteration, curves.eval_seconds, strict=True)
            if end is not None and iteration not in seen and (iteration > 0 or measured)
        ]
        moments += [_moment("evaluation", end, each_ms / 1000, total) for end in hidden]
    return _apart(sorted(moments, key=lambda moment: moment.start))


def _slow_moments(run: Diagnosis) -> list[Moment]:
    """The moments of all slow rows; if the curves had no room for one, it ends with the next row that they have."""
    curves, total = run.curves, run.wall.total_s or 0.0
    ends = dict(zip(curves.row_iteration, curves.row_seconds, strict=True))
    drawn = sorted(ends)
    if not drawn:
        return []
    moments = []
    for slow in run.slow_rows:
        near = drawn[min(bisect_left(drawn, slow.iteration), len(drawn) - 1)]
        length_s = slow.count * slow.excess_ms / 1000
        moments.append(_moment(_main_part(slow), ends[near] or 0.0, length_s, total, slow.count))
    return moments


def _apart(moments: Iterable[Moment]) -> tuple[Moment, ...]:
    """Merge moments of one cause that share a column of pixels, adding up their time; a moment wider than the column
    replaces shorter ones."""
    latest: dict[str, int] = {}  # index in `kept` of the last moment of each cause
    kept: list[Moment] = []
    for moment in moments:
        last = latest.get(moment.cause)
        if last is None or moment.start - kept[last].start >= NARROWEST:
            latest[moment.cause] = len(kept)
            kept.append(moment)
        elif max(moment.width, kept[last].width) < NARROWEST:
            kept[last] = _together(kept[last], moment)
        elif moment.seconds > kept[last].seconds:
            kept[last] = moment
    return tuple(kept)


def _together(first: Moment, second: Moment) -> Moment:
    width = min(1.0 - first.start, first.width + second.width)
    return Moment(first.cause, first.start, width, first.seconds + second.seconds, first.count + second.count)


def _main_part(slow: SlowRow) -> str:
    """The cause that took most of the time, if known: a timeline shows time, not rarity."""
    return max(slow.parts_ms, key=lambda cause: slow.parts_ms[cause]) if slow.parts_ms else main_cause(slow)


def _moment(cause: str, end_s: float, length_s: float, total_s: float, count: int = 1) -> Moment:
    width = min(1.0, length_s / total_s)
    return Moment(cause, min(1.0 - width, max(0.0, (end_s - length_s) / total_s)), width, length_s, count)
