"""Three or more runs in one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nanopace.diagnosis.compare.ranking import Ranking, rank
from nanopace.record import replace


def curve(seconds: float, best: float, count: int = 8) -> list[tuple[int, float, float]]:
    """Evaluations every 100 iterations, at equal intervals of time, down to the best."""
    return [(0, 0.0, 9.0)] + [(100 * k, seconds * k, best + (count - k) * 0.1) for k in range(1, count + 1)]


def order(ranking: Ranking) -> Sequence[int]:
    return [each.run for each in ranking.runs]


def test_the_lower_loss_at_equal_time_is_first(make_diagnosis: Any) -> None:
    """Run 1 is better at equal tokens, but takes twice as long for them."""
    runs = [
        make_diagnosis(tokens=1000, curve=curve(10.0, 3.0)),
        make_diagnosis(tokens=1000, curve=curve(20.0, 2.9)),
        make_diagnosis(tokens=1000, curve=curve(10.0, 2.8)),
    ]
    ranking = rank(runs)
    assert (ranking.by, ranking.seconds, ranking.tokens) == ("loss_time", 80.0, 800_000)
    assert order(ranking) == [2, 0, 1]
    by_tokens = {each.run: each.loss_tokens for each in ranking.runs}
    assert min(by_tokens, key=lambda run: by_tokens[run] or 9.0) == 2
    assert (by_tokens[1] or 9.0) < (by_tokens[0] or 0.0)


def test_a_run_that_has_ended_keeps_its_best(make_diagnosis: Any) -> None:
    long = [make_diagnosis(curve=curve(10.0, best)) for best in (3.0, 2.9, 2.8)]
    short = make_diagnosis(curve=curve(1.0, 2.7))  # at its end, no other run has been evaluated
    ranking = rank([*long, short])
    assert ranking.seconds == 80.0
    assert order(ranking) == [3, 2, 1, 0]
    assert [each.ended for each in ranking.runs] == [True, False, False, False]


def test_a_log_that_begins_in_the_middle_has_no_loss_at_equal_time(make_diagnosis: Any) -> None:
    late = make_diagnosis(tokens=1000, curve=curve(1.0, 1.0)[1:])
    late = replace(late, source=replace(late.source, first_iteration=5000))
    ranking = rank([make_diagnosis(tokens=1000, curve=curve(10.0, 3.0)) for _ in range(2)] + [late])
    assert order(ranking) == [0, 1, 2]
    assert ranking.runs[-1].loss_time is None
    assert ranking.runs[-1].loss_tokens is not None


def test_losses_that_cannot_be_compared_rank_nobody(make_diagnosis: Any) -> None:
    runs = [
        make_diagnosis(tokens=1000, median_ms=10.0, curve=curve(10.0, 3.0), dataset="one"),
        make_diagnosis(tokens=1000, median_ms=5.0, curve=curve(10.0, 2.0), dataset="other"),
        make_diagnosis(tokens=1000, median_ms=20.0, curve=curve(10.0, 1.0), metric="bpb"),
    ]
    ranking = rank(runs)
    assert (ranking.by, ranking.seconds, ranking.tokens) == ("tokens_per_s", None, None)
    assert order(ranking) == [1, 0, 2]
    assert all(each.loss_time is each.loss_tokens is None for each in ranking.runs)


def test_nothing_to_rank_by(make_diagnosis: Any) -> None:
    ranking = rank([make_diagnosis() for _ in range(3)])
    assert (ranking.by, order(ranking)) == (None, [0, 1, 2])


def test_runs_that_are_not_clearly_apart_are_tied(make_diagnosis: Any) -> None:
    ranking = rank([make_diagnosis(curve=curve(10.0, best)) for best in (3.2, 3.0, 3.001)])
    assert [(each.run, each.tied) for each in ranking.runs] == [(1, False), (2, True), (0, False)]
    few = rank([make_diagnosis(curve=curve(10.0, best, count=3)) for best in (3.02, 3.0, 3.5)])
    assert [each.tied for each in few.runs] == [False, True, False], "with unknown noise 1% is not enough"


def test_one_run_in_another_unit_does_not_keep_the_others_from_being_ranked(make_diagnosis: Any) -> None:
    odd = make_diagnosis(curve=curve(10.0, 1.0), metric="bpb")
    ranking = rank([odd, *(make_diagnosis(curve=curve(10.0, best)) for best in (3.0, 2.0, 2.5))])
    assert (ranking.by, order(ranking)) == ("loss_time", [2, 3, 1, 0])
    assert ranking.runs[-1].best_val is None


def test_whether_the_data_is_the_same_is_told(make_diagnosis: Any) -> None:
    named, unnamed = make_diagnosis(curve=curve(10.0, 3.0)), make_diagnosis(curve=curve(10.0, 2.0), dataset=None)
    assert rank([named, named, named]).same_data
    assert not rank([named, named, unnamed]).same_data
    assert rank([named, named, make_diagnosis(dataset=None)]).same_data, "it has no losses"
