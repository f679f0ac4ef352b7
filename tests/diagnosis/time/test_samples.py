"""Which evaluation rows show what an evaluation costs."""

from __future__ import annotations

import pytest

from nanopace.diagnosis.diagnose import diagnose

from ..synthetic import nanogpt_run, rows_run


def test_a_row_between_two_levels_is_left_out_where_others_of_its_kind_are_left() -> None:
    times = [100.0 + index % 3 for index in range(25)] + [400.0]
    times += [220.0 + index % 3 for index in range(60)]
    times[50] = times[75] = 620.0
    found = diagnose(rows_run(times, evaluated=(25, 50, 75), saved=(25, 50, 75)))
    assert found.evaluations.each_ms == pytest.approx(400, abs=5)
    assert not {"stalls", "find_the_stall"} & {finding.code for finding in found.findings}
    assert found.checkpoints.saved_rows == 3


def test_the_only_evaluation_after_a_change_that_is_no_level_yet_has_no_cost() -> None:
    times = [100.0 + index % 2 / 10 for index in range(24)] + [108.0, 220.0, 108.1, 108.0]
    assert diagnose(rows_run(times, evaluated=(25,))).evaluations.each_ms is None
    assert diagnose(rows_run([*times[:24], 100.0, 220.0, 100.1, 100.0], evaluated=(25,))).evaluations.each_ms


def test_what_is_usual_for_an_evaluation_holds_at_its_speed() -> None:
    """The first one, at a third of the step time, does not make the others stalls."""
    run = nanogpt_run(
        16_400,
        log_interval=50,
        eval_interval=5000,
        evaluation_ms=1.0,
        checkpoint_ms=0.0,
        compile_ms=0.0,
        pace=lambda iteration: 1.0 if iteration < 2900 else 3.0,
        stalls={0: 1400.0, 5000: 4200.0, 10_000: 4200.0, 15_000: 4200.0},
        saves=lambda iteration: iteration == 5000,
    )
    found = diagnose(run)
    assert not {"stalls", "find_the_stall"} & {finding.code for finding in found.findings}
    assert found.wall.evaluation_s == pytest.approx(3 * 4.2, rel=0.02)


def test_a_row_between_two_levels_may_belong_to_the_faster_one() -> None:
    times = [4.0, 4.02, 3.98] * 10 + [604.0] + [8.8, 8.82, 8.78] * 10
    times[10] = times[20] = 604.0
    times[40] = times[50] = 1240.0
    found = diagnose(rows_run(times, log_interval=1, evaluated=(10, 20, 30, 40, 50), saved=(10, 20, 30, 40, 50)))
    assert not {"stalls", "find_the_stall"} & {finding.code for finding in found.findings}
