from __future__ import annotations

import pytest

from nanopace.incidents import LossSpike
from nanopace.run import Checkpoint, Evaluation, Row, Run, Span, Unread
from nanopace.sources.build import RunBuilder
from nanopace.sources.fold import Mixture
from nanopace.sources.formats.table import BUILT_IN, LEDGER, NANOCHAT
from nanopace.sources.log_format import LogFormat


def build(*steps: int | str) -> list[Run]:
    """Rows by iteration; e500 is an evaluation, s a save, H a header, F one from scratch, R one that resumes."""
    builder = RunBuilder("log")
    for step in steps:
        match step:
            case int():
                builder.row(Row(step, 10.0 + step / 1000))
            case "H":
                builder.begin_process()
            case "F":
                builder.begin_process(fresh=True)
            case "R":
                builder.begin_process(fresh=False)
            case "s":
                builder.checkpoint(path="out")
            case str():
                builder.evaluation(int(step[1:]), None, 3.0)
    return builder.finish()


def iterations(run: Run) -> list[int]:
    return list(run.rows.iteration)


def test_an_evaluation_is_inside_the_row_of_its_iteration() -> None:
    (run,) = build("e0", 0, 200, 400, "e500", "s", 600, 800, "e1000", "s", 1000)
    assert [(e.iteration, e.row) for e in run.evaluations] == [(0, 0), (500, None), (1000, 5)]
    assert [(c.iteration, c.row, c.path) for c in run.checkpoints] == [(500, None, "out"), (1000, 5, "out")]


def test_a_save_without_its_evaluation_is_left_out() -> None:
    (run,) = build("s", 600, 800)
    assert run.checkpoints == ()


def test_going_back_to_the_start_is_another_run() -> None:
    first, second = build("e0", 0, 1, 2, "e0", 0, 1)
    assert (first.name, second.name) == ("log", "log #2")
    assert (iterations(first), iterations(second)) == ([0, 1, 2], [0, 1])
    assert [e.row for e in second.evaluations] == [0]


@pytest.mark.parametrize(
    ("steps", "runs"),
    [
        ((1, 2, 3, 1, 2), [[1, 2, 3], [1, 2]]),  # a trainer that counts from 1
        ((1, 10, 20, "H", 1, 10), [[1, 10, 20], [1, 10]]),
        ((10, 20, 30, "H", 10, 20), [[10, 20, 30], [10, 20]]),  # its first row is due at 10
        ((1, "H", 1, 2), [[1], [1, 2]]),
        ((1, 2, 3, "R", 1, 2), [[1, 2]]),  # it says that it resumes
        ((0, 1, 2, "H", 1, 2), [[0, 1, 2]]),  # iteration 0 remains
        ((0, 1, 2, 3, 1, 2), [[0, 1, 2, 3], [1, 2]]),  # pasted without its first row
        ((0, 10, 20, 30, 10, 20), [[0, 10, 20, 30], [10, 20]]),
        ((0, 10, 20, 30, 20, 30), [[0, 10, 20, 30]]),  # it may have a checkpoint
        ((300, 310, 320, "H", 300, 310), [[300, 310]]),  # an excerpt: nothing says that training begins at 300
    ],
)
def test_beginning_again_where_training_begins_is_another_run(
    steps: tuple[int | str, ...], runs: list[list[int]]
) -> None:
    found = build(*steps)
    assert [iterations(run) for run in found] == runs
    assert sum(len(run.restarts) for run in found) == (len(runs) == 1)


def test_repeated_iterations_count_once() -> None:
    (run,) = build("e0", 0, 1, "e2", "s", 2, 3, 4, "R", "e2", "s", 2, 3)
    assert iterations(run) == [0, 1, 2, 3]
    (restart,) = run.restarts
    assert (restart.row, restart.iteration, restart.reached) == (2, 2, 4)
    assert list(restart.lost.iteration) == [2, 3, 4]
    assert [e.iteration for e in run.evaluations] == [0, 2]
    assert [c.row for c in run.checkpoints] == [2]


def test_repetition_shows_without_a_header_too() -> None:
    (run,) = build(0, 200, 400, "e500", 600, 800, "e500", 600)
    assert iterations(run) == [0, 200, 400, 600]
    assert (run.restarts[0].iteration, run.restarts[0].reached) == (500, 800)
    assert list(run.restarts[0].lost.iteration) == [600, 800]


def test_a_restart_without_repetition() -> None:
    (run,) = build(0, 200, 400, "e500", "s", "R", "e500", 600)
    assert iterations(run) == [0, 200, 400, 600]
    assert [(r.row, r.iteration, r.reached, len(r.lost)) for r in run.restarts] == [(3, 500, 499, 0)]
    assert len(run.evaluations) == 1


def test_an_older_checkpoint_than_the_last_restart() -> None:
    (run,) = build(0, 1, 2, 3, 4, "R", 3, 4, 5, "R", 1, 2)
    assert iterations(run) == [0, 1, 2]
    assert [restart.row for restart in run.restarts] == [1, 1]


def test_a_late_header_of_another_rank_is_no_restart() -> None:
    (run,) = build("F", 0, 1, 2, "F", 3, 4, "F")
    assert iterations(run) == [0, 1, 2, 3, 4]
    assert run.restarts == ()


def test_a_log_that_begins_later_and_one_that_goes_below_it() -> None:
    first, second = build(300, 400, 100, 200)
    assert (iterations(first), iterations(second)) == ([300, 400], [100, 200])
    (resumed,) = build(300, 400, "R", 100, 200)
    assert iterations(resumed) == [100, 200]


def test_the_same_line_twice() -> None:
    (run,) = build(0, 0, 1, 1, 2, 2)
    assert iterations(run) == [0, 1, 2]
    assert run.restarts == ()


def test_facts_belong_to_their_process() -> None:
    builder = RunBuilder("log")
    builder.fact("batch_size", 16)
    builder.row(Row(0, 1.0))
    builder.begin_process(fresh=True)
    builder.fact("batch_size", 8)
    builder.fact("n_layer", 6)
    builder.row(Row(0, 1.0))
    first, second = builder.finish()
    assert (first.value("batch_size"), first.value("n_layer")) == (16, None)
    assert (second.value("batch_size"), second.value("n_layer")) == (8, 6)


def test_an_attempt_that_fails_leaves_no_facts() -> None:
    builder = RunBuilder("log")
    builder.begin_process()
    builder.fact("n_embd", 4096)
    builder.ending("out_of_memory")
    builder.begin_process()
    builder.fact("n_layer", 6)
    builder.row(Row(0, 1.0))
    (run,) = builder.finish()
    assert (run.value("n_embd"), run.value("n_layer"), run.ending) == (None, 6, None)


def test_an_ending_is_forgotten_when_rows_follow() -> None:
    builder = RunBuilder("log")
    builder.row(Row(0, 1.0))
    builder.ending("error")
    builder.row(Row(1, 1.0))
    assert builder.finish()[0].ending is None


@pytest.mark.parametrize("said", [("error", "out_of_memory"), ("out_of_memory", "error")])
def test_the_more_telling_ending_counts(said: tuple[str, str]) -> None:
    builder = RunBuilder("log")
    builder.row(Row(0, 1.0))
    for ending in said:
        builder.ending(ending)  # type: ignore[arg-type]
    assert builder.finish()[0].ending == "out_of_memory"


def test_a_clock_that_stops_for_evaluations() -> None:
    builder = RunBuilder("log", NANOCHAT)
    builder.evaluation(0, None, 3.0, metric="bpb")
    builder.evaluation(0, None, 0.2, metric="core")
    builder.row(Row(0, 1.0))
    (run,) = builder.finish()
    assert [(e.metric, e.row) for e in run.evaluations] == [("bpb", None), ("core", None)]


@pytest.mark.parametrize("format", BUILT_IN, ids=lambda format: format.name)
def test_what_a_format_declares_is_known_of_its_runs(format: LogFormat) -> None:
    builder = RunBuilder("log", format)
    builder.row(Row(0, 1.0))
    (run,) = builder.finish()
    assert run.format == format.name
    for name in ("trainer", "row_contains_evaluation", "mfu_smoothing", "row_loss", "nanogpt_knobs", "has_stages"):
        assert getattr(run, name) == getattr(format, name), name


def test_spans_and_walls_of_a_resumed_run_add_up() -> None:
    builder = RunBuilder("log")
    builder.span(Span("startup", 0, 5.0))
    builder.row(Row(0, 1.0))
    builder.wall_ms(10.0)
    builder.begin_process(fresh=False)
    builder.span(Span("startup", 1, 6.0))
    builder.row(Row(1, 1.0))
    builder.wall_ms(20.0)
    (run,) = builder.finish()
    assert [span.ms for span in run.spans] == [5.0, 6.0]
    assert run.wall_ms == 30.0


def test_no_rows_no_run() -> None:
    assert build("e0", "e500", "H") == []


def test_going_back_without_a_header_is_a_restart_though_the_first_process_was_fresh() -> None:
    (run,) = build("F", 5, 6, 7, 6, 7, 8)
    assert iterations(run) == [5, 6, 7, 8]
    assert [(each.iteration, each.reached) for each in run.restarts] == [(6, 7)]


def test_going_back_with_a_header_from_scratch_is_another_run() -> None:
    assert [iterations(run) for run in build("F", 5, 6, 7, "F", 6, 7)] == [[5, 6, 7], [6, 7]]
    assert [iterations(run) for run in build("F", 5, 6, 7, "H", 6, 7)] == [[5, 6, 7]]


def test_a_header_counts_until_the_next_row() -> None:
    assert len(build(5, 6, "F", 7, 8, 7)) == 1  # 7 continues, and the second 7 has no header
    (run,) = build(5, 6, "R", 7, 8, 9)
    assert [(each.row, each.iteration) for each in run.restarts] == [(2, 7)]


def test_evaluations_of_one_iteration_are_in_the_same_row() -> None:
    builder = RunBuilder("log")
    builder.row(Row(0, 1.0))
    builder.evaluation(5, None, 3.0)
    builder.evaluation(5, None, 1.0, metric="bpc")
    builder.checkpoint(path="out")
    builder.row(Row(5, 1.0))
    (run,) = builder.finish()
    assert [(each.metric, each.row) for each in run.evaluations] == [("bpc", 1), ("loss", 1)]
    assert [each.row for each in run.checkpoints] == [1]


def test_an_evaluation_that_goes_back_belongs_to_the_next_process() -> None:
    (run,) = build(3, 4, "e5", "s", "e4", 4, 5)
    assert [(each.iteration, each.row) for each in run.evaluations] == [(4, 1)]
    assert [(each.iteration, each.reached) for each in run.restarts] == [(4, 4)]
    assert run.checkpoints == ()


@pytest.mark.parametrize(("length", "shown"), [(80, "x" * 80), (81, "x" * 79 + "…")])
def test_a_line_that_cannot_be_read_is_shown_up_to_80_characters(length: int, shown: str) -> None:
    builder = RunBuilder("log")
    builder.unread(7, f"  {'x' * length} ")
    builder.unread(9, "another")
    builder.row(Row(0, 1.0))
    assert builder.finish()[0].unread == Unread(2, 7, shown)


@pytest.mark.parametrize(("count", "left"), [(256, 256), (257, 256), (300, 256)])
def test_of_very_many_runs_the_first_and_the_last_are_kept(count: int, left: int) -> None:
    runs = build(*[0, 1] * count)
    assert len(runs) == left
    assert [run.name for run in (*runs[:2], runs[127], runs[128], runs[-1])] == [
        *("log", "log #2", "log #128", f"log #{count - 127}", f"log #{count}")
    ]
    assert [run.runs_of_file for run in runs[:2]] == [count if count > 256 else None, None]


def test_runs_of_stages_are_named_by_them() -> None:
    builder = RunBuilder("log", NANOCHAT)
    for stage in ("base", "mid", "base", None):
        builder.begin_process(fresh=True)
        builder.stage(stage)  # type: ignore[arg-type]
        builder.row(Row(0, 1.0))
        builder.row(Row(1, 1.0))
    assert [run.name for run in builder.finish()] == ["log (base)", "log (mid)", "log (base 2)", "log #4"]


def test_a_rollback_takes_rows_back_only_if_the_run_goes_on() -> None:
    def rolled_back(*then: str | int) -> list[Run]:
        builder = RunBuilder("log")
        for at in range(4):
            builder.row(Row(at, 10.0 + at))
        builder.rollback(2, 3, data_offset=5)
        for each in then:
            if isinstance(each, int):
                builder.row(Row(each, 20.0 + each))
            else:
                builder.begin_process(fresh=each == "F")
        return builder.finish()

    (ended,) = rolled_back()
    assert (iterations(ended), [(each.row, len(each.lost)) for each in ended.rollbacks]) == ([0, 1, 2, 3], [(4, 0)])
    (went_on,) = rolled_back(2, 3)
    (rollback,) = went_on.rollbacks
    assert list(went_on.rows.ms) == [10, 11, 22, 23]
    assert (rollback.row, rollback.iteration, rollback.failed_at, rollback.data_offset) == (2, 2, 3, 5)
    assert (list(rollback.lost.ms), went_on.restarts) == ([12, 13], ())
    (resumed,) = rolled_back("R", 2, 3)
    assert [len(each.lost) for each in resumed.rollbacks] == [2]
    first, second = rolled_back("F", 0, 1)
    assert [(each.row, len(each.lost)) for each in first.rollbacks] == [(4, 0)]
    assert second.rollbacks == ()


def test_what_is_evaluated_again_took_its_time_before() -> None:
    builder = RunBuilder("log", NANOCHAT)
    builder.row(Row(0, 1.0))
    for val in (3.0, 2.0):
        builder.evaluation(1, None, val, ms=7.0)
    builder.evaluation(2, None, 1.0, ms=9.0)
    builder.row(Row(1, 1.0))
    (run,) = builder.finish()
    assert [(each.iteration, each.val) for each in run.evaluations] == [(1, 2.0), (2, 1.0)]
    assert run.spans == (Span("evaluation", 1, 7.0),)


def test_what_is_between_restarts_counts_once() -> None:
    builder = RunBuilder("log", LEDGER)
    for at in range(4):
        builder.row(Row(at, 1.0))
        builder.skipped(at)
        builder.spike(LossSpike(at, 7.0, 9.0))
    builder.evaluation(2, None, 3.0, ms=5.0)
    builder.evaluation(3, None, 3.0, ms=6.0)
    builder.checkpoint(2, ms=50.0)
    builder.checkpoint(3, ms=60.0)
    builder.begin_process(fresh=False)
    builder.row(Row(2, 2.0))
    (run,) = builder.finish()
    assert run.skipped == (0, 1)
    assert [each.iteration for each in run.spikes or ()] == [0, 1]
    (restart,) = run.restarts
    assert (restart.beside_ms, [each.iteration for each in run.evaluations]) == (66.0, [2])  # it resumed from there
    assert [each.iteration for each in run.checkpoints] == [2]


@pytest.mark.parametrize(("lowest", "left"), [((20, 1.5), (20, 1.5)), ((80, 1.5), None)])
def test_a_group_of_evaluations_is_divided_by_a_restart(
    lowest: tuple[int, float], left: tuple[int, float] | None
) -> None:
    builder = RunBuilder("log")
    group = Row(0, 10.0, count=10, last_iteration=90, sum_ms=100.0)
    evaluations = Evaluation(90, 1.0, 2.0, row=0, count=10, first_iteration=0, lowest=lowest)
    builder.mixture(Mixture([group], [evaluations], [Checkpoint(90, row=0, count=10, first_iteration=0)]))
    builder.begin_process(fresh=False)
    builder.row(Row(50, 10.0))
    (run,) = builder.finish()
    assert [(each.first_iteration, each.iteration, each.count, each.lowest) for each in run.evaluations] == [
        (0, 40, 5, left)
    ]
    assert [(each.iteration, each.count, each.row) for each in run.checkpoints] == [(40, 5, 0)]


def test_a_caveat_is_told_once_and_of_its_own_run() -> None:
    builder = RunBuilder("log")
    for rate in (1, 2):
        builder.caveat("rate_wrong", rate=rate)
    builder.row(Row(0, 1.0))
    builder.caveat("clock_stops")
    builder.begin_process(fresh=True)
    builder.caveat("rate_wrong", rate=3)
    builder.row(Row(0, 1.0))
    first, second = builder.finish()
    assert [(each.code, dict(each.numbers)) for each in first.caveats] == [
        ("rate_wrong", {"rate": 2}),
        ("clock_stops", {}),
    ]
    assert [(each.code, dict(each.numbers)) for each in second.caveats] == [("rate_wrong", {"rate": 3})]
