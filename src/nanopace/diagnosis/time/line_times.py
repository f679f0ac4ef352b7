"""What the time stamps of log lines add to the rows: when an evaluation ended, and time that no row contains.

nanoGPT prints `step N` after the evaluation and before it writes the checkpoint, and the row of iteration N after its
step. From a row's stamp to the next evaluation's, there are steps and the evaluation; from there to the next row's
stamp, there are the save and steps. A longer gap between two rows is time that the rows do not show.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise

from nanopace.diagnosis.time.experiment import OF_A_MEDIAN, Z_80, Cost, cost_around
from nanopace.diagnosis.time.levels import MAD
from nanopace.diagnosis.time.rows import Pace
from nanopace.medians import median
from nanopace.run import Evaluation, Run

UNITS_S = (1.0, 0.1, 0.01, 0.001)
CLEAR_GAP = 0.25  # of the time of the steps between two rows: a smaller gap may be steps without a row
CLEAR_UNITS = 3  # and in units of the stamps' resolution


def cost_by_stamps(
    run: Run, pace: Pace, counted: Sequence[Evaluation], saved: frozenset[int], together_ms: float | None
) -> tuple[Cost | None, Cost | None]:
    """The costs of an evaluation and a checkpoint, from evaluations that are alone between two rows.

    `together_ms`: the cost of both according to the rows, which is exact.
    """
    evaluations, saves, rests, steps_before = [], [], [], []
    alone = {each.iteration for each in counted} - _sharing_a_gap(run, counted)
    for each in counted:
        if each.at_s is None or each.count > 1 or each.iteration not in alone:
            continue
        after = bisect_left(run.rows.last_iteration, each.iteration)
        if after and not _folded(run, after - 1):
            steps = each.iteration - 1 - run.rows.last_iteration[after - 1]
            ms = (each.at_s - run.rows.at_s[after - 1]) * 1000 - steps * pace.baseline_ms[after - 1]
            evaluations.append(ms)
            steps_before.append(steps)
        if after < len(run.rows) and each.iteration in saved and not _folded(run, after):
            steps = run.rows.iteration[after] - each.iteration + 1
            saves.append((run.rows.at_s[after] - each.at_s) * 1000 - steps * pace.baseline_ms[after])
            if each.row == after:
                rests.append(pace.excess_ms(run.rows, after) - saves[-1])
    unit_ms = 1000 * resolution_s(run)
    step_error_ms = pace.step_ms * OF_A_MEDIAN * pace.spread / math.sqrt(max(1, min(25, pace.step.normal_rows)))
    doubt_ms = step_error_ms * median(steps_before) if steps_before else 0.0  # the same for all of them
    evaluation = _cost(evaluations, unit_ms, doubt_ms)
    checkpoint = _cost(saves, unit_ms, step_error_ms)
    rest = _cost(rests, unit_ms, step_error_ms)  # a row without its save
    if evaluation and checkpoint and together_ms is not None:  # then the best known one gives the other
        half, ms = min(
            (checkpoint.high_ms - checkpoint.ms, max(0.0, together_ms - checkpoint.ms)),
            *((each.high_ms - each.ms, min(together_ms, each.ms)) for each in (evaluation, rest) if each),
        )
        evaluation, checkpoint = cost_around(ms, half), cost_around(together_ms - ms, half)
    return evaluation, checkpoint


def gaps_between_rows(run: Run, pace: Pace, event_ms: Callable[[int, int], float]) -> list[tuple[int, float]]:
    """Pairs of rows whose stamps are clearly further apart than the known time between them: the iteration of the
    second row, and the unexplained milliseconds.

    `event_ms`: the known time of evaluations and saves outside rows, after one iteration and before another.
    """
    rows, started = run.rows, {restart.row for restart in run.restarts} | {rollback.row for rollback in run.rollbacks}
    if pace.basis == "none" or all(math.isnan(at) for at in rows.at_s):
        return []
    unit_ms = 1000 * resolution_s(run)
    gaps = []
    for before, after in pairwise(range(len(rows))):
        if after in started or _folded(run, before) or _folded(run, after):
            continue
        passed_ms = (rows.at_s[after] - rows.at_s[before]) * 1000
        last, first = rows.last_iteration[before], rows.iteration[after]
        covers = pace.covers(after)
        step_ms = max(pace.baseline_ms[before], pace.baseline_ms[after])  # a level may start anywhere between them
        known_ms = (first - last - covers) * step_ms + covers * rows.ms[after]
        gap_ms = passed_ms - known_ms - event_ms(last, first)
        if gap_ms > CLEAR_UNITS * unit_ms and gap_ms > CLEAR_GAP * known_ms:
            gaps.append((first, gap_ms))  # never true if a stamp is unknown (nan)
    return gaps


def resolution_s(run: Run) -> float:
    """The resolution of the stamps: the coarsest unit that divides all of them."""
    stamps = [at for at in run.rows.at_s if not math.isnan(at)]
    stamps += [each.at_s for each in run.evaluations if each.at_s is not None]
    some = stamps[:1000]
    return next((unit for unit in UNITS_S if all(abs(at / unit - round(at / unit)) < 1e-3 for at in some)), UNITS_S[-1])


def _sharing_a_gap(run: Run, counted: Sequence[Evaluation]) -> set[int]:
    """Evaluations that are between the same two rows as another."""
    gaps: dict[int, list[int]] = {}
    for each in counted:
        gaps.setdefault(bisect_left(run.rows.last_iteration, each.iteration), []).append(each.iteration)
    return {iteration for sharing in gaps.values() if len(sharing) > 1 for iteration in sharing}


def _folded(run: Run, index: int) -> bool:
    return run.rows.count[index] > 1


def _cost(times: Sequence[float], unit_ms: float, doubt_ms: float) -> Cost | None:
    """The mean without stalls and other speeds: the median of differences of whole seconds would be a whole second
    itself. Each such difference is wrong by less than one."""
    times = [ms for ms in times if math.isfinite(ms)]  # else a stamp is unknown
    if not times:
        return None
    middle = median(times)
    scatter = Z_80 * median(abs(each - middle) for each in times) / MAD
    near = [each for each in times if abs(each - middle) <= max(2 * unit_ms, 3 * scatter)]
    return cost_around(sum(near) / len(near), max(unit_ms, scatter) / math.sqrt(len(near)) + Z_80 * doubt_ms)
