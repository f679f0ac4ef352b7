"""The evaluation rows that show what an evaluation costs, without those where the speed changes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

from nanopace.diagnosis.time.experiment import VISIBLE, Sample, by_speed, rows_of, typical_ms
from nanopace.diagnosis.time.rows import NORMAL, UNEVEN, Pace
from nanopace.medians import median
from nanopace.run import Evaluation, Run

RESOLVED = 0.05  # of an evaluation: the largest error of a cost, on either side
BESIDE = 5  # plain rows on either side of an evaluation that show whether the speed changes there
NEXT = 2  # the same for the only evaluation: the speed may have changed a few rows before it
LEAST_CHANGE = 0.02
BY_CHANCE = 3.0  # times the noise of one row: the next rows differ by less from the baseline


def level_shifts(run: Run, pace: Pace) -> dict[int, float]:
    """The rows that lie between two levels and may belong to either, and the difference between these in ms."""
    plain = {run.rows.iteration[row]: row for row in pace.plain}
    shifts = {}
    for old, new in pairwise(pace.step.levels):
        row = plain.get(new.first_iteration, 0)
        while row > 0 and pace.kind[row - 1] not in (NORMAL, UNEVEN):
            row -= 1
            shifts[row] = abs(new.median_ms - old.median_ms)
    return shifts


def samples_of(run: Run, pace: Pace, counted: Iterable[Evaluation]) -> list[Sample]:
    """Their rows, without those that took no longer than the recurring stall that was due there."""
    samples = [(each.row, sample_of(run, pace, each.row)) for each in counted if each.row is not None]
    return [
        each for row, each in samples if row not in pace.delays or each.excess_ms > VISIBLE * pace.spread * each.step_ms
    ]


def sample_of(run: Run, pace: Pace, row: int) -> Sample:
    """One row. Between two levels, it may belong to the faster one."""
    excess, count = pace.typical_excess_ms(run.rows, row)
    step_ms = pace.baseline_ms[row]
    if row in pace.shifts:
        step_ms = min(pace.baseline_ms[max(0, row - 1) : row + 2])
    return Sample(excess, count, step_ms, row in pace.marks.checkpoint)


def away_from_changes(run: Run, pace: Pace, counted: Sequence[Evaluation]) -> list[Sample]:
    """Evaluation rows whose neighbours on both sides match their baseline, so that the speed does not change there. In
    a log folded like with like, there are no neighbours to check."""
    if max(run.rows.count) > 1:
        return samples_of(run, pace, counted)
    tolerance, plain = max(LEAST_CHANGE, 2 * pace.spread), pace.plain
    found = []
    for each in counted:
        if each.row is not None:
            at, step_ms = bisect_left(plain, each.row), pace.baseline_ms[each.row]
            sides = (plain[max(0, at - BESIDE) : at], plain[at : at + BESIDE])
            times = [median(run.rows.ms[index] for index in side) for side in sides if side]
            if all(abs(ms / step_ms - 1) <= tolerance for ms in times):
                found.append(sample_of(run, pace, each.row))
    return found


def of_one_level(run: Run, pace: Pace, counted: Sequence[Evaluation]) -> list[Evaluation]:
    """Evaluations without those between two levels, whose extra time is unclear, if others of their kind (with or
    without a save) are left."""

    def unclear(each: Evaluation) -> bool:
        if each.row is None:
            return False
        return pace.shifts.get(each.row, 0.0) > RESOLVED * pace.typical_excess_ms(run.rows, each.row)[0]

    kinds = {each.row in pace.marks.checkpoint for each in counted if each.row is not None and not unclear(each)}
    return [each for each in counted if not unclear(each) or (each.row in pace.marks.checkpoint) not in kinds]


def off_baseline_ms(run: Run, pace: Pace, row: int) -> float:
    """By how much the steps next to a row differ from its baseline, if that is not chance; else 0."""
    if max(run.rows.count) > 1:  # folded rows have no neighbours
        return 0.0
    plain, step_ms = pace.plain, pace.baseline_ms[row]
    at = bisect_left(plain, row)
    near = [run.rows.ms[index] for index in plain[max(0, at - NEXT) : at + NEXT]]
    off_ms = abs(median(near) - step_ms) if near else 0.0
    return off_ms if off_ms > BY_CHANCE * pace.spread * step_ms else 0.0


def without_delayed(run: Run, pace: Pace, counted: Sequence[Evaluation]) -> list[Evaluation]:
    """Evaluations without those whose rows took longer than others of their kind: the stamps of such a row contain its
    delay as well."""
    usual_ms: dict[bool, float] = {}
    for saves in (True, False):
        samples = [each for each in samples_of(run, pace, counted) if each.saves == saves]
        usual_ms |= {saves: typical_ms(samples)} if samples else {}

    def delayed(row: int) -> bool:
        if row in pace.delays:
            return True
        excess_ms, most_ms = pace.typical_excess_ms(run.rows, row)[0], usual_ms[row in pace.marks.checkpoint]
        return excess_ms > most_ms + max(VISIBLE * pace.spread * pace.baseline_ms[row], RESOLVED * most_ms)

    return [each for each in counted if each.row is None or not delayed(each.row)]


def of_one_speed(run: Run, pace: Pace, counted: Sequence[Evaluation]) -> Sequence[Evaluation]:
    """If rows show evaluations at several speeds, those at the most frequent one."""
    stretches = by_speed(samples_of(run, pace, counted), pace.spread)
    if len(stretches) < 2:
        return counted
    steps_ms = {sample.step_ms for sample in max(stretches, key=rows_of)}
    return [each for each in counted if each.row is not None and sample_of(run, pace, each.row).step_ms in steps_ms]
