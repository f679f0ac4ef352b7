"""Times that cover all iterations since the previous row are divided; nanoGPT's own never are."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.diagnosis.synthetic import nanogpt_run

from nanopace.sources.infer.cover import divide_covering_rows

from ..reading import read

HEAD = "tokens per iteration: 512\n"


def fork(
    *, covers: int, log_interval: int = 100, tokens: bool = False, stamps: bool = False, evaluates: bool = True
) -> str:
    """What a fork prints if its clock covers several iterations: 160 ms each, an evaluation of 2 s at 0."""
    noisy, printed, clock = random.Random(3), [HEAD], 36_000.0
    for iteration in range(0, 2001, log_interval):
        if iteration == 0 and evaluates:
            printed.append("step 0: train loss 4.2099 (PPL 67.35) | val loss 4.2111 (PPL 67.43)\n")
        step = 160 * (1 + 0.02 * noisy.random())
        ms = step + 2000 * evaluates if iteration == 0 else step * covers
        clock += ms / 1000 if iteration == 0 else step * log_interval / 1000
        at = f"{int(clock // 3600):02d}:{int(clock // 60 % 60):02d}:{int(clock % 60):02d} " if stamps else ""
        rate = f", {512 * (covers if iteration else 1) / ms * 1000:.1f} tok/s" if tokens else ""
        printed.append(f"{at}iter {iteration}: loss 3.1000, lr 1.00e-03, time {ms:.2f}ms{rate}\n")
    return "".join(printed)


@pytest.mark.parametrize(
    ("options", "shown_by"),
    [
        ({"tokens": True, "evaluates": False}, "tokens"),
        ({"stamps": True, "evaluates": False}, "stamps"),
        ({}, "first_row"),
    ],
)
def test_times_of_several_iterations_are_divided(options: dict[str, bool], shown_by: str) -> None:
    (run,) = read(fork(covers=100, **options))
    assert (run.rows_cover, run.rows_cover_shown_by) == (100, shown_by)
    assert all(160 <= row.ms <= 164 and row.sum_ms == row.ms for row in run.rows[1:])
    assert run.rows.ms[0] == read(fork(covers=1, **options))[0].rows.ms[0]  # it covers one anyway


@pytest.mark.parametrize("options", [{"tokens": True}, {"stamps": True}, {"stamps": True, "tokens": True}, {}])
def test_times_of_one_iteration_are_not(options: dict[str, bool]) -> None:
    (run,) = read(fork(covers=1, **options))
    assert (run.rows_cover, run.rows_cover_shown_by) == (1, None)
    assert max(run.rows.ms[1:]) < 165


def test_a_first_row_that_saves_nothing_is_not_held_against_rows_that_save() -> None:
    """They may be longer by the time of a save."""
    saving = "saving checkpoint to out\n"
    evaluated = r"step \1: train loss 3.1000 | val loss 3.1000\n" + saving + r"iter \1:"
    told = re.sub(r"iter ([1-9]\d*):", evaluated, fork(covers=100))
    assert read(told)[0].rows_cover == 1
    assert read(told.replace("iter 0:", saving + "iter 0:"))[0].rows_cover == 100


def test_an_evaluation_between_rows_is_in_the_one_that_covers_it() -> None:
    told = fork(covers=100).replace("iter 600:", "step 550: train loss 3.1000 | val loss 3.1000\niter 600:")
    (run,) = read(told)
    assert [each.row for each in run.evaluations] == [0, 6]


def test_stamps_that_contradict_a_short_first_row_are_believed() -> None:
    """Rows of 10 s each at an interval of 6, a minute apart: nothing is divided, however short the first one is."""
    rows = ["step 0: train loss 4.2099 | val loss 4.2111\n", "10:00:00 iter 0: loss 3.1000, lr 1e-3, time 4000.00ms\n"]
    rows += [f"10:{n:02d}:00 iter {6 * n}: loss 3.1000, lr 1e-3, time 10000.00ms\n" for n in range(1, 30)]
    assert read("".join(rows))[0].rows_cover == 1
    assert read("".join(row.removeprefix(row[:9]) if row[0] == "1" else row for row in rows))[0].rows_cover == 6


def test_a_beginning_that_is_missing_shows_nothing() -> None:
    log = fork(covers=100)
    assert read(log[log.index("iter 100:") :])[0].rows_cover == 1


def test_rows_with_tokens_of_every_gpu_are_not_taken_for_it() -> None:
    """Eight GPUs and an interval of eight: the factor may be either."""
    head = "world_size: 8\ntokens per iteration: 512\n"
    rows = (f"iter {n}: loss 3.1000, time 100.00ms, {8 * 512 / 0.1:.0f} tok/s\n" for n in range(0, 800, 8))
    assert read(head + "".join(rows))[0].rows_cover == 1


@settings(max_examples=200, deadline=None)
@given(
    log_interval=st.sampled_from([1, 2, 5, 10, 100]),
    eval_interval=st.sampled_from([0, 50, 100, 500]),
    compile_ms=st.floats(-100, 60_000),
    evaluation_ms=st.floats(0, 30_000),
    seed=st.integers(0, 1000),
)
def test_nanogpt_is_never_divided(
    log_interval: int, eval_interval: int, compile_ms: float, evaluation_ms: float, seed: int
) -> None:
    """Not even if its first row, which does not wait for the GPU, is shorter than the others."""
    run = nanogpt_run(
        2000,
        log_interval=log_interval,
        eval_interval=eval_interval,
        compile_ms=compile_ms,
        evaluation_ms=evaluation_ms,
        pace=lambda iteration: 0.7 if iteration == 0 else 3.0,
        noise=0.1,
        seed=seed,
    )
    assert divide_covering_rows(run, {"log_interval": log_interval, "tokens_per_iteration": 512}.get) is run


def test_a_fork_that_prints_an_mfu_has_nanogpts_clock() -> None:
    """That clock does not wait for the GPU, so a first row without compilation may be short."""
    log = fork(covers=100).replace("ms\n", "ms, mfu 12.00%\n")
    assert read(log)[0].rows_cover == 1


def test_the_last_row_may_cover_fewer() -> None:
    log = fork(covers=100) + "iter 2050: loss 3.1000, lr 1.00e-03, time 8100.00ms\n"
    assert read(log)[0].rows.ms[-1] == pytest.approx(162)


def test_what_falls_between_rows_is_in_the_row_that_covers_it() -> None:
    text = fork(covers=100).replace(
        "iter 300:", "step 250: train loss 3.2000, val loss 3.2100\nsaving checkpoint to out\niter 300:"
    )
    (covering,), (single,) = read(text), read(text.replace("time ", "lr 1, time ").replace("iter 0:", "iter 1:"))
    assert covering.rows_cover == 100
    assert {each.iteration: each.row for each in covering.evaluations} == {0: 0, 250: 3}
    assert [each.row for each in covering.checkpoints] == [3]
    assert single.rows_cover == 1
