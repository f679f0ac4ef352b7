"""The Trainer's dicts come late, in blocks of any size, if standard output is buffered: each still has its own step."""

from __future__ import annotations

import io
from contextlib import nullcontext, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.errors import NotALog
from nanopace.run import Run
from nanopace.sources.runs import open_runs

from .printed import Training, loss_of, printed


def read(*trainings: Training) -> list[Run]:
    return open_runs(io.BytesIO(printed(*trainings).encode()))


def check(run: Run) -> None:
    """Every dict is told at its own step. A process that was killed before its first loss has rows without one."""
    for rows in (run.rows, run.untimed_rows):
        losses = [(step, loss) for step, loss in zip(rows.iteration, rows.loss, strict=True) if loss == loss]
        assert losses == [(step, loss_of(step)) for step, _ in losses]
    assert [each.val for each in run.evaluations] == [loss_of(each.iteration) for each in run.evaluations]


trainings = st.builds(
    Training,
    total=st.integers(20, 90),
    logging_steps=st.integers(1, 10),
    eval_steps=st.sampled_from([0, 4, 10, 17]),
    save_steps=st.sampled_from([0, 7, 15]),
    eval_batches=st.sampled_from([1, 3, 8]),
    batch_s=st.sampled_from([0.07, 4.0]),
    eval_on_start=st.booleans(),
    logs_more=st.booleans(),
    per_epoch=st.sampled_from([7, 50, 57.14, 1000, 20_000]),
    step_s=st.sampled_from([0.03, 1.0, 5.0]),
    version=st.sampled_from([4, 5]),
    buffer=st.sampled_from([0, 200, 300, 700, 8192]),
    cuts=st.booleans(),
    flushed_at=st.frozensets(st.integers(1, 90), max_size=6),
)


@pytest.mark.slow
@given(training=trainings)
def test_dicts_of_a_process_find_their_steps(training: Training) -> None:
    (run,) = read(training)
    check(run)
    if training.step_s >= 1:
        logged = range(training.logging_steps, training.total + 1, training.logging_steps)
        assert [*run.untimed_rows.iteration, *run.rows.iteration] == list(logged)
    evaluated = range(training.eval_steps, training.total + 1, training.eval_steps) if training.eval_steps else ()
    assert [each.iteration for each in run.evaluations] == [*[0] * training.eval_on_start, *evaluated]


@pytest.mark.slow
@given(first=trainings, second=trainings, killed=st.booleans(), resumes=st.booleans(), share=st.floats(0.1, 1))
def test_dicts_of_a_process_that_resumes_find_their_steps(
    first: Training, second: Training, killed: bool, resumes: bool, share: float
) -> None:
    """What was in the buffer of a killed process is lost."""
    at = max(2, int(share * (first.total - 1)))
    if killed:
        first, second = first.with_(killed_at=at), second.with_(total=first.total, first=at - 1 if resumes else 0)
    else:
        second = second.with_(first=first.total, total=first.total + second.total)
    for run in read(first, second.with_(per_epoch=first.per_epoch, version=first.version)):
        check(run)


def test_all_dicts_come_at_the_end() -> None:
    training = Training(total=50, eval_on_start=True)
    assert printed(training).rindex("| 50/50 [") < printed(training).index("{'loss'")
    (run,) = read(training)
    check(run)
    assert list(run.rows.iteration) == list(range(5, 55, 5))
    assert [each.iteration for each in run.evaluations] == [0]


def test_a_dict_is_cut_where_the_buffer_is_full() -> None:
    training = Training(buffer=300, cuts=True)
    assert any("{" in line and "}" not in line for line in printed(training).replace("\r", "\n").splitlines())
    (run,) = read(training)
    check(run)
    assert list(run.rows.iteration) == list(range(5, 65, 5))


def test_other_dicts_have_steps_too() -> None:
    (run,) = read(Training(logs_more=True, per_epoch=20_000, version=4, save_steps=15))
    check(run)
    assert list(run.rows.iteration) == list(range(5, 65, 5))


@pytest.mark.parametrize("buffer", [0, 8192])
def test_a_process_that_was_killed_after_its_first_evaluation(buffer: int) -> None:
    first = Training(eval_on_start=True, killed_at=8, buffer=buffer, flushed_at=frozenset({4}), logging_steps=10)
    (run,) = read(first, Training(logging_steps=10, buffer=buffer))
    check(run)
    assert (list(run.rows.iteration)[-6:], len(run.restarts)) == (list(range(10, 70, 10)), 1)


@pytest.mark.parametrize("killed_at", [0, 75])
@pytest.mark.parametrize("buffer", [0, 300, 8192])
def test_the_beginning_is_missing(buffer: int, killed_at: int) -> None:
    """The first dicts are of bars that are missing, or the first bar is of a dict that is: these are left out, and no
    dict has the step of another."""
    for eval_steps in (0, 10, 17):
        text = printed(Training(total=90, eval_steps=eval_steps, per_epoch=50, buffer=buffer, killed_at=killed_at))
        for percent in (15, 30, 45, 60):
            cut = text[len(text) * percent // 100 :]
            runs: list[Run] = []
            with suppress(NotALog) if killed_at else nullcontext():
                runs = open_runs(io.BytesIO(cut.encode()))
            for run in runs:
                check(run)
                assert len(run.rows) >= (3 if buffer else cut.count("'loss'") - 3)
