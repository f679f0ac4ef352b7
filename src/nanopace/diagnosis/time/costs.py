"""What one evaluation costs, and what one checkpoint costs.

A log that evaluates without always saving is a natural experiment: compare rows with a save and rows without, if there
are several of both, because a single row may contain a stall. Otherwise, the time stamps of the log lines separate the
two. Without time stamps, the forward-pass model gives an upper bound for the checkpoint, and row 0, which evaluates but
does not save, a lower bound. If the config is unknown as well, the cost stays unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from nanopace.diagnosis.result import Basis, Checkpoints, Evaluations
from nanopace.diagnosis.time.baseline_rows import LEAST_MS
from nanopace.diagnosis.time.counting import cold_rows, counted_evaluations, evaluation_interval
from nanopace.diagnosis.time.experiment import (
    SAME_SPEED,
    SEVERAL,
    SURE,
    Cost,
    Sample,
    by_save,
    by_speed,
    compare_rows,
    cost_of,
    rows_of,
    stall_bound_ms,
    step_exponent,
    typical_ms,
    typical_step_ms,
    without_stalled,
)
from nanopace.diagnosis.time.line_times import cost_by_stamps
from nanopace.diagnosis.time.rows import SLOW, Pace, evaluation_in_steps, steady
from nanopace.diagnosis.time.samples import (
    RESOLVED,
    away_from_changes,
    of_one_level,
    of_one_speed,
    off_baseline_ms,
    sample_of,
    samples_of,
    without_delayed,
)
from nanopace.medians import median, typical
from nanopace.run import Evaluation, Run

# The smallest share of a micro-step that we have seen a forward pass take. Whatever an evaluation row costs beyond 2 x
# eval_iters such passes is an upper bound for the checkpoint.
LEAST_FORWARD_SHARE = 0.30


class Usual(NamedTuple):
    """The extra time of an evaluation row without a stall, and the step time around it."""

    ms: float
    step_ms: float

    def at(self, step_ms: float) -> float:
        """The same where steps take longer: evaluations may as well."""
        return self.ms * max(1.0, step_ms / max(self.step_ms, LEAST_MS))


class Costs(NamedTuple):
    """The two costs, how well they are known, and the evaluations they come from."""

    evaluations: Evaluations
    checkpoints: Checkpoints
    counted: tuple[Evaluation, ...]  # one per iteration, without those that belong to a start-up
    saved: frozenset[int]  # iterations with a checkpoint
    cold_rows: frozenset[int]  # first rows of a process that contain its start-up
    evaluation_ms: float | None  # the best estimate for an evaluation that no row shows
    checkpoint_ms: float | None  # the same; also None if it is part of evaluation_ms
    in_steps: float | None = None  # evaluation time in steps, if the log shows that it scales with them
    rough: bool = False  # from time stamps, and no more precise than they are
    unsaved_ms: float | None = None  # an evaluation alone, if evaluation_ms contains a checkpoint
    usual: Mapping[bool, Usual] = MappingProxyType({})  # an evaluation row with a save (True), and one without
    saves_in_doubt: bool = False  # the few rows with a save took far longer, because of it or of a stall
    from_one_row: bool = False  # from a single row, which may contain a stall: not used for hidden evaluations

    def evaluation_at(self, step_ms: float) -> float | None:
        """The time of an evaluation where a step takes `step_ms`."""
        return self.evaluation_ms if self.in_steps is None else self.in_steps * step_ms

    def usual_at(self, saves: bool, step_ms: float) -> float | None:
        """The most that an evaluation row takes beyond its step, of `step_ms`, if nothing delays it."""
        return self.usual[saves].at(step_ms) if saves in self.usual else None

    def hidden_ms(self, evaluation: Evaluation, step_ms: float) -> float | None:
        """The time of an evaluation that no row shows, without its checkpoint if that has a cost of its own. None if no
        row shows a similar one (with or without a save)."""
        saves, contains = evaluation.iteration in self.saved, self.evaluations.contains_checkpoint
        if (saves and not contains and self.checkpoint_ms is None) or self.from_one_row:
            return None
        return self.evaluation_at(step_ms) if saves or not contains else self.unsaved_ms

    @property
    def without_cost(self) -> list[Evaluation]:
        """Evaluations that no row contains and whose cost is unknown."""
        unseen = [each for each in self.counted if each.row is None]
        return [each for each in unseen if self.hidden_ms(each, 1.0) is None]


class _Measured(NamedTuple):
    """What the rows and their time stamps show about the two costs."""

    evaluation: Cost | None = None
    checkpoint: Cost | None = None
    basis: Basis = "unknown"
    contains: bool = False  # the evaluation cost includes a checkpoint
    rough: bool = False  # from time stamps, and no more precise than they are
    in_doubt: bool = False  # the few rows with a save took far longer, because of a stall or of the save


def find_costs(run: Run, pace: Pace) -> Costs:
    """Count the evaluations and checkpoints of a run, and find what one of each costs."""
    cold = cold_rows(run, pace)
    counted = counted_evaluations(run, cold)
    saved = frozenset(checkpoint.iteration for checkpoint in run.checkpoints)
    if run.row_contains_evaluation:
        return _costs_inside_rows(run, pace, counted, saved, cold)
    return _costs_outside_rows(run, counted, saved, cold)


def _costs_inside_rows(
    run: Run, pace: Pace, counted: tuple[Evaluation, ...], saved: frozenset[int], cold: frozenset[int]
) -> Costs:
    """The costs if a row's time contains its evaluation and its save."""
    plain = pace.basis == "rows"  # else the extra time of a row is unknown
    spread = pace.spread
    seen = [sample_of(run, pace, each.row) for each in counted if plain and each.row is not None]
    kept = of_one_level(run, pace, counted) if plain else []
    samples = samples_of(run, pace, kept)
    with_save, without = by_save(samples)
    save_rows = pace.marks.checkpoint - pace.marks.evaluation - cold if plain else ()
    only_save = [sample_of(run, pace, row) for row in save_rows]
    changing = len(by_speed(samples, spread)) > 1
    numbers = [each for each in counted if each.val is None or math.isfinite(each.val)]  # nan may take a different time
    clear = of_one_level(run, pace, numbers)
    comparable = away_from_changes(run, pace, clear) if changing else samples_of(run, pace, clear)
    first = _first_evaluations(run, pace, cold)
    measured = _measured_by_rows(samples, comparable, only_save, first, spread)
    # If the step time changes a little, the extra time of a row is unclear; the same goes for a large change at the
    # only such row.
    alone = [each.row for each in kept if each.row is not None] if len(samples) == 1 else []
    by_row = [max(pace.shifts.get(row, 0.0), off_baseline_ms(run, pace, row)) for row in alone]
    shift_ms = max(by_row, default=0.0)
    blurred = run.rows_cover > 1 and not steady(pace.step)
    blurred |= shift_ms > RESOLVED * max((sample.excess_ms for sample in samples), default=0.0)
    if blurred or (measured.evaluation is not None and measured.evaluation.ms <= 0):  # nothing visible
        measured = _Measured()
    elif (measured.contains or measured.evaluation is None) and not measured.in_doubt:
        measured = _measured_by_stamps(run, pace, numbers, saved, measured)

    in_steps = evaluation_in_steps(run)
    predicted = in_steps * pace.step_ms if in_steps is not None and counted and plain else None
    each, save, basis = measured.evaluation, measured.checkpoint, measured.basis
    at_most, at_least = None, None
    if measured.contains and each is not None:
        at_least = _least_checkpoint_ms(first, without_stalled(with_save, spread), spread)
        least_steps = evaluation_in_steps(run, LEAST_FORWARD_SHARE)
        if least_steps is not None and not shift_ms and not _faster_than_model([*first, *without], least_steps, spread):
            least = least_steps * min(sample.step_ms for sample in with_save)
            if each.ms > least:  # else the model gives no bound
                at_most, basis = each.ms - least, "upper_bound"
    elif save is not None:
        at_most = save.most_ms if basis == "upper_bound" else save.ms
    usual = _usual(with_save, without, first, measured.in_doubt, spread)
    return Costs(
        evaluations=Evaluations(
            count=sum(each.count for each in counted),
            visible=sum(each.count for each in counted if each.row is not None),
            hidden=sum(each.count for each in counted if each.row is None),
            each_ms=None if each is None else each.ms,
            interval=evaluation_interval(run),
            contains_checkpoint=measured.contains,
            predicted_ms=predicted,
            low_ms=None if each is None else each.low_ms,
            high_ms=None if each is None else each.high_ms,
        ),
        checkpoints=Checkpoints(
            count=sum(save.count for save in run.checkpoints),
            each_ms=at_most,
            basis=basis,
            saved_rows=rows_of(by_save(seen)[0]),
            unsaved_rows=rows_of(by_save(seen)[1]),
            low_ms=None if save is None else save.low_ms,
            high_ms=None if save is None else save.high_ms,
            at_least_ms=at_least,
        ),
        counted=counted,
        saved=saved,
        cold_rows=cold,
        evaluation_ms=None if blurred else predicted if each is None else each.ms,
        checkpoint_ms=None if save is None else save.ms,
        in_steps=_in_steps(without_stalled(with_save if measured.contains else without, spread)),
        rough=measured.rough,
        unsaved_ms=usual[False].ms if measured.contains and False in usual else None,
        usual=usual,
        saves_in_doubt=measured.in_doubt,
        from_one_row=rows_of(samples) == 1 and not measured.rough,
    )


def _measured_by_rows(
    samples: Sequence[Sample],
    comparable: Sequence[Sample],
    only_save: Sequence[Sample],
    first: Sequence[Sample],
    spread: float,
) -> _Measured:
    """The costs from the excess time of rows that contain an evaluation, a save, or both. Only `comparable` rows are
    compared; no evaluation takes longer than those in the `first` rows of a process."""
    if only_save:
        checkpoint = cost_of(without_stalled(only_save, spread), spread)
        rest = [each._replace(excess_ms=max(0.0, each.excess_ms - checkpoint.ms * each.saves)) for each in samples]
        return _Measured(cost_of(without_stalled(rest, spread), spread) if rest else None, checkpoint, "measured")
    saved, unsaved = (without_stalled(group, spread) for group in by_save(samples))
    few_saves = sum(each.rows for each in samples if each.saves) < SEVERAL
    if not samples:
        return _Measured()
    if rows_of(samples) < SEVERAL and unsaved and first and _all_stalled(unsaved, first, spread):
        return _Measured()  # no evaluation takes that much longer than the first one
    if not saved or not unsaved:
        return _Measured(cost_of(saved or unsaved, spread), contains=bool(saved))
    if few_saves and _all_stalled(saved, unsaved, spread):
        delayed = rows_of(unsaved) < SEVERAL and first and _all_stalled(unsaved, first, spread)
        return _Measured() if delayed else _Measured(cost_of(unsaved, spread), in_doubt=True)
    found = compare_rows(comparable, spread)
    if found is None or found.checkpoint is None or found.checkpoint.most_ms <= 0:
        return _Measured(cost_of(saved, spread), contains=True)
    sure = found.checkpoint.least_ms > 0 and not few_saves
    return _Measured(found.evaluation, found.checkpoint, "measured" if sure else "upper_bound")


def _all_stalled(some: Sequence[Sample], others: Sequence[Sample], spread: float) -> bool:
    """Whether even the shortest of some rows exceeds the others by as much as a stall would."""
    shortest, usual_ms, step_ms = min(some), typical_ms(others), typical_step_ms(others)
    return shortest.excess_ms > stall_bound_ms(usual_ms, shortest.step_ms, step_ms, spread)


def _usual(
    saved: Sequence[Sample], unsaved: Sequence[Sample], first: Sequence[Sample], in_doubt: bool, spread: float
) -> dict[bool, Usual]:
    """An evaluation row without a stall, with a save and without one. A row without a save takes no longer than one
    with a save, or than the first of a process. If the few rows with a save took far longer, they contain a stall or
    the save is slow."""
    groups = ((saves, without_stalled(group, spread)) for saves, group in ((True, saved), (False, unsaved)) if group)
    usual = {saves: Usual(typical_ms(group), typical_step_ms(group)) for saves, group in groups}
    if unsaved:
        few = first if rows_of(unsaved) < SEVERAL else ()
        step_ms = usual[False].step_ms
        bounds = [*usual.values(), *(Usual(each.excess_ms, each.step_ms) for each in few)]
        usual[False] = Usual(min(each.at(step_ms) for each in bounds), step_ms)
    return {True: usual[False], False: usual[False]} if in_doubt else usual


def _measured_by_stamps(
    run: Run, pace: Pace, counted: Sequence[Evaluation], saved: frozenset[int], measured: _Measured
) -> _Measured:
    """Both costs from time stamps, if the rows alone do not separate them."""
    if pace.basis != "rows":
        return measured
    counted = of_one_speed(run, pace, without_delayed(run, pace, counted))
    samples = samples_of(run, pace, counted) if measured.evaluation is not None else []
    together_ms = typical_ms(by_save(samples)[0] or samples) if samples else None
    evaluation, checkpoint = cost_by_stamps(run, pace, counted, saved, together_ms)
    if evaluation is None or evaluation.high_ms - evaluation.ms >= RESOLVED * evaluation.ms:
        return measured
    if checkpoint is not None and checkpoint.least_ms > 0:
        return _Measured(evaluation, checkpoint, "stamps", rough=True)
    return measured if measured.evaluation is not None else measured._replace(evaluation=evaluation, rough=True)


def _first_evaluations(run: Run, pace: Pace, cold: frozenset[int]) -> list[Sample]:
    """Rows that start a process with an evaluation and write no checkpoint: an upper bound for an evaluation."""
    rows = cold & (pace.marks.evaluation - pace.marks.checkpoint)
    return [sample_of(run, pace, row) for row in rows if pace.kind[row] == SLOW] if pace.basis == "rows" else []


def _least_checkpoint_ms(first_rows: Sequence[Sample], with_save: Sequence[Sample], spread: float) -> float | None:
    """A lower bound for a checkpoint: an evaluation with a save, minus the first evaluation and what a start adds to
    it."""
    least = []
    for first in first_rows:
        same_speed = [each for each in with_save if each.step_ms <= SAME_SPEED * first.step_ms]
        if same_speed:
            together = cost_of(same_speed, spread)
            slower = max(1.0, typical((each.step_ms / first.step_ms, each.rows) for each in same_speed))
            ms = together.least_ms - first.excess_ms * slower
            least += [ms] if ms > (SAME_SPEED - 1) * together.ms else []
    return max(least, default=None)


def _faster_than_model(without_save: Sequence[Sample], steps: float, spread: float) -> bool:
    """Whether an evaluation took fewer steps than the model allows."""
    return any(each.excess_ms < (steps - SURE * spread) * each.step_ms for each in without_save)


def _in_steps(samples: Sequence[Sample]) -> float | None:
    if step_exponent(samples) != 1.0:
        return None
    return typical((sample.excess_ms / sample.step_ms, sample.rows) for sample in samples)


def _costs_outside_rows(
    run: Run, counted: tuple[Evaluation, ...], saved: frozenset[int], cold: frozenset[int]
) -> Costs:
    """The costs if the trainer stops its clock meanwhile: known only if the trainer measured them."""
    times = [evaluation.ms for evaluation in counted if evaluation.ms is not None]
    stalls = [checkpoint.ms for checkpoint in run.checkpoints if checkpoint.ms is not None]
    background = [checkpoint.background_ms for checkpoint in run.checkpoints if checkpoint.background_ms is not None]
    each, checkpoint = _cost(times), _cost(stalls)
    return Costs(
        evaluations=Evaluations(
            count=len(counted),
            visible=len(times),
            hidden=len(counted) - len(times),
            each_ms=each and each.ms,
            interval=evaluation_interval(run),
            low_ms=each and each.low_ms,
            high_ms=each and each.high_ms,
        ),
        checkpoints=Checkpoints(
            count=len(run.checkpoints),
            each_ms=checkpoint and checkpoint.ms,
            basis="unknown" if checkpoint is None else "measured",
            background_ms=median(background) if background else None,
            low_ms=checkpoint and checkpoint.low_ms,
            high_ms=checkpoint and checkpoint.high_ms,
        ),
        counted=counted,
        saved=saved,
        cold_rows=cold,
        evaluation_ms=each and each.ms,
        checkpoint_ms=checkpoint and checkpoint.ms,
    )


def _cost(times: Sequence[float]) -> Cost | None:
    """The cost from individual measurements."""
    samples = [Sample(ms, 1, 1.0, saves=False) for ms in times]
    return cost_of(without_stalled(samples, 0.0), 0.0) if times else None
