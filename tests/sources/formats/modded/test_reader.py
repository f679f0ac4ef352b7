"""modded-nanogpt's eras: the same run is read from each, as far as its log shows it."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace import compare, render
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.errors import NotALog
from nanopace.run import Row
from nanopace.sources.formats.modded.unsynchronized_clock import UnsynchronizedClock

from ...reading import read, read_one
from .simulated import CODE, ERAS, OLD_CODE, Era, simulate, val_loss

STEPS = 500
SCHEDULED = CODE.replace(
    "train_batch_size: int = 2048 * 24 * 8", "train_bs_schedule: tuple = (8 * 2048 * 8, 24 * 2048 * 8)"
)
WINDOWED = CODE + "    window_sizes: tuple = (3, 7, 11)\n"


def codes(diagnosis: Diagnosis) -> set[str]:
    return {finding.code for finding in diagnosis.findings}


def even(ms: float, steps: int = STEPS) -> list[float]:
    return [ms] * steps


# --- every era -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ERAS)
def test_each_era_tells_the_same_run(name: str) -> None:
    era, dice = ERAS[name], Random(3)
    truth = simulate(era, [dice.gauss(100, 0.7) for _ in range(STEPS)], compile_ms=24_000 if era.zeroed else 0)
    run = read_one(truth.text)
    assert (run.format, run.trainer, run.ending) == ("modded-nanogpt", "modded-nanogpt", "finished")
    assert len(run.rows) == (STEPS if era.rows else STEPS // 125)
    assert run.rows[-1].iteration == STEPS
    assert [(each.iteration, each.val) for each in run.evaluations] == [
        (step, val_loss(step)) for step in range(0, STEPS + 1, 125)
    ]
    assert run.rows[-1].loss == (round(val_loss(STEPS - 1) + 0.01, 4) if era.losses else None)
    wall_s = diagnose(run).wall.total_s
    if era.zeroed:
        assert run.told_training_s == pytest.approx(truth.final_ms / 1000)
        assert wall_s == pytest.approx((truth.final_ms + truth.left_out_ms) / 1000, abs=0.002)
    else:
        assert run.told_training_s is None  # it would be said to begin at step 11
        assert wall_s == pytest.approx(truth.final_ms / 1000, rel=1e-9)
    assert run.facts["gpu"].value == "NVIDIA H100 80GB HBM3"
    assert "gpu_count" not in run.facts  # eight are there, but how many train is not said
    assert run.facts["tokens_per_iteration"].value == (524_288 if era.code == OLD_CODE else 393_216)
    assert run.facts["max_iters"].value == STEPS


@pytest.mark.parametrize("depth", [2, 3, 5])
@pytest.mark.parametrize("name", ["October 2024", "2025", "track 3, every step"])
def test_rows_take_what_the_gpu_took(name: str, depth: int) -> None:
    """However far the program runs ahead: no row is slow, and what is said about the wait is true."""
    truth = simulate(ERAS[name], even(100.0), depth=depth)
    run = read_one(truth.text)
    diagnosis = diagnose(run)
    assert diagnosis.slow_rows == ()
    assert diagnosis.step.median_ms == pytest.approx(100, rel=0.005)
    after = 11 if ERAS[name].zeroed else 1
    assert all(abs(row.ms - 100) <= 12 for row in run.rows if row.iteration > after)
    (wait,) = (each.numbers["wait_ms"] for each in run.caveats if each.code == "rows_ahead_of_gpu")
    assert wait == pytest.approx(sum(truth.waits_ms) / len(truth.waits_ms), abs=1)


def test_a_clock_that_waits_in_every_row_needs_no_word() -> None:
    run = read_one(simulate(ERAS["2025"], even(100.0), depth=0).text)
    assert run.caveats == ()


def test_the_first_steps_are_left_out_of_the_final_time() -> None:
    truth = simulate(ERAS["December 2024"], even(100.0), compile_ms=24_000)
    run = read_one(truth.text)
    (caveat,) = (each for each in run.caveats if each.code == "clock_set_to_zero")
    assert caveat.numbers["iteration"] == 10
    assert caveat.numbers["left_out_s"] == pytest.approx(truth.left_out_ms / 1000, abs=0.001)
    assert all(row.ms > 0 for row in run.rows)
    assert run.rows[10].iteration == 11
    assert run.rows[10].ms == pytest.approx(100, abs=12)
    diagnosis = diagnose(run)
    assert [row.iteration for row in diagnosis.slow_rows] == [1]
    said = " ".join(render(diagnosis, lang="en").split())
    assert "reset its clock after iteration 10: its final time leaves out the 24.8 s" in said


def test_a_stall_stays_where_it_was() -> None:
    step_ms = even(100.0)
    step_ms[299] = 400.0
    slow = diagnose(read_one(simulate(ERAS["2025"], step_ms).text)).slow_rows
    assert sum(row.excess_ms for row in slow) == pytest.approx(300, abs=20)
    assert all(300 <= row.iteration <= 302 for row in slow)  # the program notices when it has to wait


def test_rows_after_an_evaluation_are_not_made_like_those_of_a_larger_batch() -> None:
    """Shortly after the evaluation at iteration 250, steps take twice as long."""
    for change in (254, 258, 268):
        step_ms = [30.0 if step < change else 60.0 for step in range(STEPS)]
        run = read_one(simulate(Era(SCHEDULED), step_ms, launch_ms=2.0).text)
        assert max(run.rows.ms[: change - 1]) < 36


@pytest.mark.parametrize("ms", [25.5, 32.4, 57.7])
def test_whole_milliseconds_are_no_unevenness(ms: float) -> None:
    diagnosis = diagnose(read_one(simulate(ERAS["2025"], even(ms, 1500), launch_ms=2.0).text))
    assert diagnosis.step.median_ms == pytest.approx(ms, rel=0.005)
    assert diagnosis.slow_rows == ()
    assert "uneven_rows" not in codes(diagnosis)
    assert len(diagnosis.step.levels) == 1
    assert diagnosis.step.spread >= 0.3 / ms  # single rows are not known better than that


def test_evaluations_alone_tell_the_time_of_an_iteration() -> None:
    """Every 125 steps, then every 25: each row is divided by its own interval."""
    era = Era(seconds=True, rows=False, evaluations=[*range(0, 400, 125), *range(400, 500, 25)])
    truth = simulate(era, even(150.0), compile_ms=19_850)
    run = read_one(truth.text)
    diagnosis = diagnose(run)
    assert [row.iteration for row in run.rows] == [125, 250, 375, 400, 425, 450, 475, 500]
    assert [row.ms for row in run.rows[1:]] == pytest.approx([150.0] * 7, rel=0.04)
    assert diagnosis.wall.total_s == pytest.approx(truth.final_ms / 1000)
    assert diagnosis.wall.startup_s == pytest.approx(19.85, rel=0.02)
    assert {"rows_cover_several", "startup_of_several"} <= codes(diagnosis)
    said = " ".join(render(diagnosis, lang="en").split())
    assert (
        "Each row's time covers all iterations since the previous row: it is the difference between two readings of "
        "the trainer's clock." in said
    )
    assert "The first 125 iterations took 38.6 s instead of 18.8 s: compilation and warm-up." in said


def test_one_row_of_many_iterations_is_all_there_is() -> None:
    truth = simulate(Era(seconds=True, rows=False), even(150.0, 125))
    assert diagnose(read_one(truth.text)).wall.total_s == pytest.approx(truth.final_ms / 1000)


# --- what the code in the log says -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [SCHEDULED, WINDOWED])
def test_a_step_that_is_made_larger_is_no_fault(code: str) -> None:
    truth = simulate(Era(code), [*[30.0] * 500, *[60.0] * 500], launch_ms=2.0)
    diagnosis = diagnose(read_one(truth.text))
    assert "level_shift_scheduled" in codes(diagnosis)
    assert not codes(diagnosis) & {"memory_spill", "level_shift", "slower_at_the_end", "smaller_micro_batch"}
    assert ("batch_scheduled" in codes(diagnosis)) == (code == SCHEDULED)
    assert ("attention_scheduled" in codes(diagnosis)) == (code == WINDOWED)
    assert "tokens_unknown" not in codes(diagnosis)
    assert (diagnosis.throughput.tokens_per_s is None) == (code == SCHEDULED)


def test_a_step_that_becomes_slower_bit_by_bit_is_no_fault_either() -> None:
    truth = simulate(Era(WINDOWED), [100 + 20 * math.sqrt(step / 1500) for step in range(1500)])
    found = codes(diagnose(read_one(truth.text)))
    assert found & {"slower_as_scheduled", "drift"}
    assert "slower_at_the_end" not in found
    plain = simulate(Era(CODE), [100 + 20 * math.sqrt(step / 1500) for step in range(1500)])
    assert "slower_as_scheduled" not in codes(diagnose(read_one(plain.text)))


def test_a_memory_that_is_full_is_still_said_without_a_schedule() -> None:
    found = codes(diagnose(read_one(simulate(Era(CODE), [*[30.0] * 500, *[60.0] * 500], launch_ms=2.0).text)))
    assert "memory_spill" in found


# --- several runs, repeated and cut lines ----------------------------------------------------------------------------


def test_several_runs_in_a_file() -> None:
    one, two = (simulate(Era(), even(ms, 250)) for ms in (100.0, 50.0))
    without_start = two.text.replace("step:0/250", "# 0/250")
    for second in (two.text, without_start):
        runs = read(one.text + second)
        assert [len(run.rows) for run in runs] == [250, 250]
        assert [diagnose(run).step.median_ms for run in runs] == pytest.approx([100, 50], rel=0.01)
        assert all(run.facts["tokens_per_iteration"].value == 393_216 for run in runs)


def test_trials_that_share_a_head_and_print_evaluations_alone() -> None:
    trials = [simulate(Era(seconds=True, rows=False, every=50), even(ms, 200)) for ms in (100.0, 101.0)]
    rows = [[line for line in trial.text.splitlines(True) if line.startswith("step:")][1:] for trial in trials]
    runs = read("".join([*rows[0], *rows[0][-2:], "a word\n", *rows[1]]))  # the last lines are printed twice
    assert [len(run.rows) for run in runs] == [4, 4]
    assert [diagnose(run).wall.total_s for run in runs] == pytest.approx([trial.final_ms / 1000 for trial in trials])


def test_a_process_that_goes_on_from_a_checkpoint_begins_its_clock_anew() -> None:
    rows = [f"step:{step}/400 train_time:{100 * step}ms step_avg:100.00ms\n" for step in range(1, 301)]
    rows += [f"step:{step}/400 train_time:{100 * (step - 200)}ms step_avg:50.00ms\n" for step in range(201, 401)]
    run = read_one("".join(rows))
    assert len(run.rows) == 400
    assert [(each.iteration, each.reached) for each in run.restarts] == [(201, 300)]
    assert max(run.rows.ms) == min(run.rows.ms) == 100


@pytest.mark.parametrize(
    ("last", "rows"),
    [
        ("step:3/9 train_time:30", 2),  # of 300ms
        ("step:3/9 train_time:300m", 2),
        ("step:3/9 train_time:300ms", 3),
        ("step:3/9 train_time:300ms step_avg:10", 3),
        ("step:3/9 val_loss:3.1", 2),
    ],
)
def test_a_line_without_its_end_counts_where_its_time_is_whole(last: str, rows: int) -> None:
    log = "step:1/9 train_time:100ms step_avg:100.00ms\nstep:2/9 train_time:200ms step_avg:100.00ms\n"
    assert len(read_one(log + last).rows) == rows


def test_an_end_is_told() -> None:
    log = "".join(f"step:{step}/9 train_time:{step}00ms step_avg:100.00ms\n" for step in range(1, 5))
    assert read_one(log).ending is None
    assert read_one(f"{log}torch.OutOfMemoryError: CUDA out of memory.\n").ending == "out_of_memory"


def test_the_program_alone_is_no_log() -> None:
    """Its own lines look like rows, except for their braces."""
    text = simulate(Era(), even(100.0, 5)).text
    head = text[: text.index("step:0/5")]
    with pytest.raises(NotALog, match="the start of a training log, but no row"):
        read(head)
    with pytest.raises(NotALog, match="one evaluation, but no row"):
        read(head + "step:0/5 val_loss:10.8258 train_time:0ms step_avg:0.02ms\n")


def test_two_records_can_be_compared() -> None:
    a, b = (read_one(simulate(Era(), even(ms, 1000)).text) for ms in (100.0, 80.0))
    comparison = compare(a, b)
    said = " ".join(render(comparison, lang="en").split())
    assert "80.0 ms" in said
    assert "100" in said


# --- any clock -------------------------------------------------------------------------------------------------------


@given(
    parts=st.lists(
        st.tuples(st.lists(st.integers(0, 500), min_size=1, max_size=60), st.integers(0, 400)), min_size=1, max_size=5
    )
)
def test_rows_add_up_to_the_clock_at_every_evaluation(parts: list[tuple[list[int], int]]) -> None:
    emitted: list[Row] = []
    clock = UnsynchronizedClock(emitted.append)
    step, at_ms = 0, 0
    for times, wait_ms in parts:
        for ms in times:
            step, at_ms = step + 1, at_ms + ms
            clock.row(step, at_ms, None)
        at_ms += wait_ms
        clock.wait(at_ms)
        assert [row.iteration for row in emitted] == list(range(1, step + 1))
        assert sum(row.ms for row in emitted) == pytest.approx(at_ms)
        assert all(row.ms >= 0 for row in emitted)
    assert clock.waited_ms == sum(wait for _, wait in parts)


def test_rows_do_not_wait_for_ever() -> None:
    emitted: list[Row] = []
    clock = UnsynchronizedClock(emitted.append)
    for step in range(1, 3000):
        clock.row(step, 100 * step, None)
    assert len(emitted) >= 2000


# --- what stands before the rows -------------------------------------------------------------------------------------


def test_a_card_is_known_where_all_are_the_same() -> None:
    text = simulate(Era(), even(100.0, 20)).text
    one = "\n".join(line for line in text.splitlines() if not line.startswith("|") or line.startswith("|   0"))
    assert {name: read_one(one + "\n").facts[name].value for name in ("gpu", "gpu_count")} == {
        "gpu": "NVIDIA H100 80GB HBM3",
        "gpu_count": 1,
    }
    assert "gpu" not in read_one(text.replace("|   3  NVIDIA H100 80GB HBM3 ", "|   3  NVIDIA H200           ")).facts


def test_each_run_has_its_own_head() -> None:
    one = simulate(Era(), even(100.0, 20)).text
    other = simulate(Era(OLD_CODE), even(100.0, 20)).text.replace("NVIDIA H100 80GB HBM3", "NVIDIA H200          ")
    told = "Running PyTorch 2.11.0 compiled for CUDA 12.8 on NVIDIA L40S           with world_size 4"
    third = other.replace("Running PyTorch 2.9.0 compiled for CUDA 12.6", told)
    names = ("gpu", "gpu_count", "tokens_per_iteration")
    assert [tuple(fact and fact.value for fact in map(run.facts.get, names)) for run in read(one + other + third)] == [
        ("NVIDIA H100 80GB HBM3", None, 393_216),
        ("NVIDIA H200", None, 524_288),
        ("NVIDIA L40S", 4, 524_288),
    ]


def test_the_words_of_the_program_are_no_prose_around_a_log() -> None:
    words = "# This is what the next lines do, and why it has to be done in this way.\n" * 300
    text = simulate(Era(CODE + words), even(100.0, 20)).text
    assert read_one(text[text.index("import") :]).quoted is None


def test_a_clock_that_stands_still() -> None:
    rows = "".join(f"step:{step}/40 train_time:0ms step_avg:0.00ms\n" for step in range(1, 41))
    assert diagnose(read_one(rows)).wall.total_s == 0
