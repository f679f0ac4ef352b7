"""Invariants of every diagnosis, whatever the log: no part exceeds its total.

No time is negative, and no advice saves more than was spent. A figure that breaks this is our bug, and a wrong sentence
is worse than none: `withhold_false_findings` drops the findings that depend on it. In tests, `strict` makes it raise
instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from nanopace.diagnosis.comparison import Comparison, PairOf
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.record import Record, replace

strict = False  # raise, as in tests, instead of dropping findings

ROUNDING = 1e-6  # of a figure
NOT_OF_A_WHOLE = frozenset({"change_share", "excess_share", "drift_share", "lag_share", "measured_share"})
OF_THE_RUN = frozenset({"total_s", "overhead_s", "longer_s", "lost_s", "hidden_s", "after_s", "suspended_s"})

# A complaint and its finding; None if it concerns figures that all findings depend on.
Broken = tuple[str, Finding | None]
Checked = TypeVar("Checked", bound=Diagnosis | Comparison)


class InvariantError(AssertionError):
    """An impossible figure."""


def withhold_false_findings(checked: Checked) -> Checked:
    """Drop the findings that cannot be true, and all advice if a basic figure is wrong."""
    complaints = [*_check_diagnosis(checked)] if isinstance(checked, Diagnosis) else [*_check_comparison(checked)]
    if not complaints:
        return checked
    if strict:
        raise InvariantError("; ".join(complaint for complaint, _ in complaints))
    false = [finding for _, finding in complaints]
    advised = None not in false
    kept = [each for each in checked.findings if each not in false and (advised or not each.advice)]
    return replace(checked, findings=tuple(kept))


def _check_diagnosis(run: Diagnosis) -> Iterator[Broken]:
    yield from ((complaint, None) for complaint in _check_figures(run))
    for finding in run.findings:
        for complaint in (*_check_numbers(finding, run), *_check_advice(finding, run)):
            yield f"{finding.code}: {complaint}", finding


def _check_comparison(pair: Comparison) -> Iterator[Broken]:
    for name, figure in _fields(pair):
        if isinstance(figure, PairOf):
            yield from ((f"{name}: {each}", None) for each in _check_pair(figure))
    parts = pair.decomposition
    known = (parts.flops_per_token, parts.utilisation, parts.peak, parts.gpu_count)
    if parts.total is not None and None not in known and not _close(parts.total, sum(part or 0.0 for part in known)):
        yield f"decomposition {known} of {parts.total}", None
    for moment in (pair.crossover_s, pair.crossover_tokens):
        yield from ((each, None) for each in _check_time("crossover", moment))
    for finding in pair.findings:
        for complaint in _check_numbers(finding, None):
            yield f"{finding.code}: {complaint}", finding


def _check_pair(pair: PairOf) -> Iterator[str]:
    for figure in (pair.a, pair.b, pair.ratio):
        yield from _check_time("figure", figure)
    if pair.ratio is not None and pair.a and pair.b is not None and not _close(pair.ratio * pair.a, pair.b):
        yield f"{pair.ratio} of {pair.a} is not {pair.b}"


# --- figures ---------------------------------------------------------------------------------------------------------


def _check_figures(run: Diagnosis) -> Iterator[str]:
    for record in (run.step, run.evaluations, run.checkpoints, run.startup, run.restarts, run.wall, run.ahead):
        for name, figure in _fields(record):
            if name not in NOT_OF_A_WHOLE and isinstance(figure, (int, float)):
                yield from (_check_share if name.endswith("_share") or name == "goodput" else _check_time)(name, figure)
    yield from _check_wall(run)
    yield from _check_events(run)
    for row in run.slow_rows:
        yield from _check_parts(f"row {row.iteration}", [*row.parts_ms.values()], row.excess_ms)
    if (start := run.startup) is not None:
        yield from _check_parts("start-up", [start.step_ms, start.evaluation_ms, start.compile_ms], start.total_ms)
    for figure in (run.throughput.tokens_per_s, run.mfu.steady_printed, run.mfu.card, run.mfu.achieved_tflops):
        yield from _check_time("speed", figure)


def _check_wall(run: Diagnosis) -> Iterator[str]:
    wall = run.wall
    parts = [wall.training_s, wall.evaluation_s, wall.checkpoint_s, wall.startup_s, wall.stall_s, wall.restart_s]
    parts += [wall.other_s, wall.unknown_s, wall.suspended_s, wall.rollback_s]
    if wall.total_s is None:
        if run.timed or any(part is not None for part in (wall.training_s, wall.unknown_s, wall.goodput)):
            yield f"parts {parts} of an unknown wall clock"
        return
    if not _close(sum(part or 0.0 for part in parts), wall.total_s):
        yield f"the parts of the wall clock are {sum(part or 0.0 for part in parts)} s, not {wall.total_s}"
    if (run.restarts.lost_s or 0.0) > _at_most(wall.total_s):
        yield f"restarts cost {run.restarts.lost_s} s of {wall.total_s}"


def _check_events(run: Diagnosis) -> Iterator[str]:
    """Check evaluations and checkpoints, at the cost of one each."""
    evaluations, checkpoints = run.evaluations, run.checkpoints
    if evaluations.visible + evaluations.hidden != evaluations.count:
        yield f"{evaluations.visible} + {evaluations.hidden} of {evaluations.count} evaluations"
    for each in (evaluations, checkpoints):
        if each.low_ms is not None and each.high_ms is not None and each.low_ms > _at_most(each.high_ms):
            yield f"an interval of {each.low_ms} to {each.high_ms} ms"
    if run.wall.overhead_share is not None:  # else some are missing from the wall clock
        if evaluations.each_ms is not None and evaluations.each_ms / 1000 > _at_most(run.wall.awake_s):
            yield f"an evaluation of {evaluations.each_ms} ms in a run of {run.wall.awake_s} s"
        if checkpoints.basis == "measured" and (checkpoints.each_ms or 0.0) / 1000 > _at_most(run.wall.awake_s):
            yield f"a checkpoint of {checkpoints.each_ms} ms in a run of {run.wall.awake_s} s"


# --- findings --------------------------------------------------------------------------------------------------------


def _check_numbers(finding: Finding, run: Diagnosis | None) -> Iterator[str]:
    for name, number in finding.numbers.items():
        if not isinstance(number, (int, float)) or name in NOT_OF_A_WHOLE:
            continue
        if name.endswith("_share"):
            yield from _check_share(name, number) if run is not None else ()
        elif name.endswith(("_s", "_ms")):
            yield from _check_time(name, number)
        if run is not None and name in OF_THE_RUN and number > _at_most(run.wall.total_s or 0.0):
            yield f"{name} {number} of {run.wall.total_s} s"
    largest, total = finding.numbers.get("largest_s"), finding.numbers.get("total_s")
    if isinstance(largest, float) and isinstance(total, float) and largest > _at_most(total):
        yield f"the largest of {total} s is {largest}"


def _spent_s(run: Diagnosis) -> Mapping[str, float]:
    """For each kind of advice, the time spent on what it changes: it cannot save more."""
    wall = run.wall
    overhead_s = (wall.overhead_share or 0.0) * wall.awake_s
    return {
        "raise_eval_interval": overhead_s,
        "lower_eval_iters": wall.evaluation_s or 0.0,
        "lower_eval_iters_unknown": wall.evaluation_s or 0.0,
        "save_less_often": wall.checkpoint_s or 0.0,
        "find_the_stall": wall.stall_s or 0.0,
    }


_VALID: Mapping[str, Callable[[Mapping[str, float]], bool]] = {
    "raise_eval_interval": lambda to: 1 <= to["from_interval"] < to["to_interval"] and to["evaluations"] >= 0,
    "lower_eval_iters": lambda to: 1 <= to["to_iters"] < to["from_iters"],
    "lower_eval_iters_unknown": lambda to: to["factor"] > 1,
    "save_less_often": lambda to: 1 <= to["to_checkpoints"] < to["checkpoints"],
    "larger_micro_batch": lambda to: 1 <= to["from_batch"] < to["to_batch"] and to["to_accumulation"] >= 1,
    "smaller_micro_batch": lambda to: to["to_batch"] >= 1 and to["to_accumulation"] >= 1,
}


def _check_advice(finding: Finding, run: Diagnosis) -> Iterator[str]:
    numbers = {name: number for name, number in finding.numbers.items() if isinstance(number, (int, float))}
    if finding.code in _VALID and not _VALID[finding.code](numbers):
        yield f"advises {numbers}"
    if finding.saves_s is None:
        return
    yield from _check_time("saves_s", finding.saves_s)
    yield from _check_share("saves_share", finding.saves_share or 0.0)
    spent_s = _spent_s(run).get(finding.code, run.wall.awake_s)
    if finding.saves_s > _at_most(spent_s):
        yield f"saves {finding.saves_s} of {spent_s} s"


# --- what is compared ------------------------------------------------------------------------------------------------


def _fields(record: Record | None) -> Iterator[tuple[str, object]]:
    if record is not None:
        yield from ((name, getattr(record, name)) for name in record._fields)


def _check_time(name: str, figure: float | None) -> Iterator[str]:
    if figure is not None and not 0 <= figure < math.inf:
        yield f"{name} is {figure}"


def _check_share(name: str, figure: float) -> Iterator[str]:
    if not 0 <= figure <= _at_most(1.0):
        yield f"{name} is {figure}"


def _check_parts(name: str, parts: Sequence[float | None], whole: float) -> Iterator[str]:
    known = [part for part in parts if part is not None]
    if any(part < 0 for part in known) or sum(known) > _at_most(whole):
        yield f"{name}: {known} of {whole}"


def _at_most(whole: float) -> float:
    return whole * (1 + ROUNDING) + ROUNDING


def _close(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=ROUNDING, abs_tol=ROUNDING)
