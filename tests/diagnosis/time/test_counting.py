"""What counts as an evaluation."""

from __future__ import annotations

from nanopace.diagnosis.time.counting import counted_evaluations
from nanopace.run import Evaluation, Row, Rows, Run


def test_a_benchmark_score_is_no_evaluation() -> None:
    told = (Evaluation(0, None, 3.0, "bpb"), Evaluation(20, None, 1.0, "bpb"), Evaluation(30, None, 0.2, "core"))
    run = Run("speedrun.log", "nanochat", Rows([Row(0, 10.0)]), told, row_contains_evaluation=False)
    assert [each.iteration for each in counted_evaluations(run, frozenset())] == [20]
