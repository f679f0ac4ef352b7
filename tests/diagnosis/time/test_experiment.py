from __future__ import annotations

import random

import pytest

from nanopace.diagnosis.time.experiment import Cost, Experiment, Sample, by_speed, compare_rows, cost_of, step_exponent


def rows(
    evaluation_ms: float, saves: str, step_ms: float, *, checkpoint_ms: float = 60.0, seed: int = 1
) -> list[Sample]:
    """One row per letter: `s` saves, `.` does not; each varies by 0.1% of an evaluation."""
    noisy = random.Random(seed)
    return [
        Sample(evaluation_ms * noisy.gauss(1, 0.001) + checkpoint_ms * (letter == "s"), 1, step_ms, letter == "s")
        for letter in saves
    ]


def compared(samples: list[Sample]) -> Experiment:
    found = compare_rows(samples, 0.002)
    assert found is not None
    return found


def checkpoint_of(samples: list[Sample]) -> Cost:
    cost = compared(samples).checkpoint
    assert cost is not None
    return cost


def test_rows_are_compared_with_rows_of_their_speed() -> None:
    cost = checkpoint_of(rows(5000, "ssssssssss...", 100.0) + rows(3000, "ss..........", 60.0))
    assert cost.least_ms < 60 < cost.most_ms  # not 260 or 2,000, as for all rows together
    assert cost.ms == pytest.approx(60, abs=5)
    assert cost.least_ms > 0


def test_the_evaluation_spans_its_stretches() -> None:
    found = compared(rows(5000, "ssssssssss..", 100.0) + rows(3000, "ss..........", 60.0))
    assert found.evaluation.low_ms == pytest.approx(3000, rel=0.01)
    assert found.evaluation.high_ms == pytest.approx(5000, rel=0.01)


def test_what_coincides_with_the_speed_is_not_told_apart() -> None:
    assert compared(rows(5000, "ssssss", 100.0) + rows(3000, "......", 60.0)).checkpoint is None


@pytest.mark.parametrize("power", [1.0, 0.0])
def test_unless_rows_without_a_save_show_how_evaluations_follow_the_step(power: float) -> None:
    def stretch(saves: str, step_ms: float) -> list[Sample]:
        return rows(5000 * (step_ms / 100) ** power, saves, step_ms, checkpoint_ms=2500)

    samples = stretch("....", 60.0) + stretch("....", 80.0) + stretch("ssss", 100.0)
    assert step_exponent([sample for sample in samples if not sample.saves]) == power
    cost = checkpoint_of(samples)
    assert cost.low_ms < 2500 < cost.high_ms
    assert cost.high_ms - cost.low_ms > 500  # by that power, and not exactly by it


@pytest.mark.parametrize(
    ("samples", "exponent"),
    [
        (rows(3000, "..", 60.0) + rows(5000, "..", 100.0), 1.0),
        (rows(3000, ".", 60.0) + rows(5000, "..", 100.0), None),  # three are too few
        (rows(3000, "....", 60.0) + rows(4000, "....", 100.0), None),  # in between, neither shows
        (rows(3000, "....", 60.0), None),
    ],
)
def test_how_evaluations_follow_the_step(samples: list[Sample], exponent: float | None) -> None:
    assert step_exponent(samples) == exponent


def test_a_drift_inside_a_stretch_goes_into_the_interval() -> None:
    drifting = [
        sample
        for step in range(20)
        for sample in rows(50 * (100 + step / 10), "s" if step < 10 else ".", 100 + step / 10)
    ]
    cost = checkpoint_of(drifting)
    assert cost.low_ms < 60 < cost.high_ms
    assert cost.high_ms - cost.low_ms > 40


def test_few_rows_are_told_with_caution_and_many_are_not() -> None:
    few, many = checkpoint_of(rows(5000, "s...", 100.0)), checkpoint_of(rows(5000, "s." * 30, 100.0))
    assert few.high_ms - few.low_ms > 10 * (many.high_ms - many.low_ms)
    assert few.least_ms == 0 < many.least_ms


@pytest.mark.parametrize("saves", ["ssssss..", "sss", "...", ""])
def test_without_three_rows_of_the_other_kind_there_is_no_experiment(saves: str) -> None:
    """One or two without a save may have been held up."""
    assert compare_rows(rows(5000, saves, 100.0), 0.002) is None


def test_two_rows_with_a_save_that_differ_are_told_with_caution() -> None:
    held_up = rows(5000, "s..............", 100.0) + rows(5800, "s", 100.0)
    assert checkpoint_of(held_up).least_ms == 0


def test_steps_that_scatter_are_of_one_speed() -> None:
    samples = rows(5000, "...", 100.0) + rows(5000, "...", 106.0)
    assert len(by_speed(samples, 0.1)) == 1 < len(by_speed(samples, 0.002))


def test_one_stall_among_many_rows_widens_nothing() -> None:
    samples = rows(5000, "s." * 20, 100.0)
    stalled = [samples[0]._replace(excess_ms=90_000.0), *samples[1:]]
    assert checkpoint_of(stalled).high_ms == pytest.approx(checkpoint_of(samples).high_ms, abs=3)


def test_a_cost_is_never_negative() -> None:
    cost = checkpoint_of(rows(5000, "s." * 5, 100.0, checkpoint_ms=-200))
    assert cost == Cost(0.0, 0.0, 0.0, 0.0, 0.0)


def test_stretches() -> None:
    samples = [Sample(1.0, 1, step_ms, saves=False) for step_ms in (100.0, 102.9, 103.1, 60.0)]
    assert [[sample.step_ms for sample in stretch] for stretch in by_speed(samples)] == [
        [60.0],
        [100.0, 102.9],
        [103.1],
    ]


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    held = 0
    for seed in range(200):
        cost = checkpoint_of(rows(5000, "ssss.s..ss.", 100.0, seed=seed))
        held += cost.low_ms <= 60 <= cost.high_ms
    assert 140 <= held <= 190


def test_what_one_kind_costs() -> None:
    cost = cost_of(rows(5000, "........", 100.0), 0.0)
    assert cost.low_ms < 5000 < cost.high_ms
    assert cost.high_ms - cost.low_ms < 20


def test_of_few_rows_each_counts_for_the_scatter() -> None:
    """Their median deviation would be zero."""
    cost = cost_of([Sample(ms, 1, 50.0, False) for ms in (100.0, 100.0, 130.0)], 0.001)
    assert cost.ms == 100.0
    assert 125 < cost.high_ms < 135


def test_evaluations_that_become_faster_by_themselves_make_no_checkpoint() -> None:
    """All rows that save come first; the trend within each kind goes on to the other."""

    def falling(saves: str) -> list[Sample]:
        flat = rows(2000, saves, 100.0, checkpoint_ms=0.0)
        return [each._replace(excess_ms=each.excess_ms * (1 - 0.004 * at)) for at, each in enumerate(flat)]

    assert checkpoint_of(falling("s" * 20 + "." * 20)).least_ms == 0
    assert checkpoint_of(rows(2000, "s" * 20 + "." * 20, 100.0)).least_ms > 0
    assert checkpoint_of(rows(2000, "s." * 20, 100.0)).least_ms > 0
