"""parameter-golf prints some of modded-nanogpt's rows, and later its own."""

from __future__ import annotations

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.run import Run

from ...reading import read, read_one

HEAD = (
    "model_params:17059912\nworld_size:8 grad_accum_steps:1\n"
    "train_batch_tokens:524288 train_seq_len:1024 iterations:20000 warmup_steps:2\nwarmup_step:1/2\nwarmup_step:2/2\n"
)
TIMES = [*range(1, 11), *range(200, 1001, 200)]


def test_rows_of_some_steps() -> None:
    rows = "".join(f"step:{n}/20000 train_loss:2.5000 train_time:{43 * n}ms step_avg:43.00ms\n" for n in TIMES)
    log = (
        f"{HEAD}step:0/20000 val_loss:6.9357 val_bpb:4.1077 train_time:0ms step_avg:0.01ms\n{rows}"
        "step:1100/20000 val_loss:2.0598 val_bpb:1.2199 train_time:47300ms step_avg:43.00ms\n"
        "stopping_early: wallclock_cap train_time:47300ms step:1100/20000\n"
    )
    run = read_one(log)
    assert (run.format, run.trainer, run.ending) == ("parameter-golf", "parameter-golf", "finished")
    assert [row.iteration for row in run.rows] == [*TIMES, 1100]
    assert set(run.rows.ms) == {43.0}
    assert [(each.val, each.bits_per_byte) for each in run.evaluations] == [(6.9357, 4.1077), (2.0598, 1.2199)]
    facts = {name: run.facts[name].value for name in ("parameters", "gpu_count", "tokens_per_iteration")}
    assert facts == {"parameters": 17_059_912, "gpu_count": 8, "tokens_per_iteration": 524_288}
    diagnosis = diagnose(run)
    assert diagnosis.wall.total_s == pytest.approx(47.3)
    assert diagnosis.throughput.tokens_per_s == pytest.approx(524_288 / 0.043)
    assert diagnosis.ahead.remaining_iterations == 0  # its time is over
    assert "utilisation" not in " ".join(finding.code for finding in diagnosis.findings)


def golf(clock_ms: dict[int, float]) -> Run:
    rows = "".join(
        f"step:{step}/20000 train_loss:2.5000 train_time:{ms:.0f}ms step_avg:{ms / step:.2f}ms\n"
        for step, ms in clock_ms.items()
    )
    step, ms = list(clock_ms.items())[-1]
    return read_one(
        f"{HEAD}step:0/20000 val_loss:6.9357 val_bpb:4.1077 train_time:0ms step_avg:0.01ms\n{rows}"
        f"step:{step}/20000 val_loss:2.0598 val_bpb:1.2199 train_time:{ms:.0f}ms step_avg:{ms / step:.2f}ms\n"
        f"stopping_early: wallclock_cap train_time:{ms:.0f}ms step:{step}/20000\n"
    )


def test_a_trial_of_one_step_is_a_run_of_its_own() -> None:
    row, val = (
        "step:1/1 train_loss:9.0100 train_time:{}ms\n",
        "step:1/1 val_loss:8.7200 val_bpb:3.9100 train_time:{}ms\n",
    )
    trials = [row.format(ms) + val.format(ms + 70) for ms in (674, 664)]
    whole = "".join(f"step:{n}/500 train_loss:9.0100 train_time:{700 + 100 * n}ms\n" * 2 for n in range(1, 9))
    runs = read("".join([*trials, whole]))
    assert [list(run.rows.iteration) for run in runs] == [[1], [1], list(range(1, 9))]
    assert [run.rows.ms[0] for run in runs] == [744, 734, 800]
    assert [run.facts["max_iters"].value for run in runs] == [1, 1, 500]


def test_more_rows_of_single_steps_than_of_many() -> None:
    """The first ten steps have rows of their own, but the two rows behind them cover 783 of the 793 steps."""
    run = golf({**{n: 30_000 + 3000 * n for n in range(1, 11)}, 500: 60_000 + 490 * 700, 793: 60_000 + 783 * 700})
    diagnosis = diagnose(run)
    assert diagnosis.wall.total_s == pytest.approx(60 + 783 * 0.7)
    assert diagnosis.step.median_ms == pytest.approx(700)
    assert diagnosis.wall.startup_s == pytest.approx(60 - 10 * 0.7)
    assert (run.rows_cover, run.rows_cover_shown_by) == (490, "clock")
    assert {"log_interval", "eval_interval"} & run.facts.keys() == set()  # the last evaluation is due to the end


def test_the_first_steps_are_no_level_of_their_own() -> None:
    """Ten of 5,500 steps took less, and eleven rows the same: the normal step is that of the eleven."""
    clock = {n: 88.0 * n for n in range(1, 11)} | {500 * n: 880 + 106.0 * (500 * n - 10) for n in range(1, 12)}
    diagnosis = diagnose(run := golf(clock))
    assert diagnosis.step.median_ms == pytest.approx(106)
    assert [round(level.median_ms) for level in diagnosis.step.levels] == [106]
    assert not {"level_shift", "slow_beginning", "drift"} & {each.code for each in diagnosis.findings}
    assert run.facts["log_interval"].value == 500


@pytest.mark.parametrize("stamp", ["", "1776143349.278 "])
def test_the_time_of_a_rate(stamp: str) -> None:
    """Tenths of minutes would be off by 6 s."""
    lines = ["Hyperparameters:", "  train_batch_tokens: 786432", "  world_size: 8"]
    lines += [f"{n}/20000 train_loss: 3.1000 train_time: {n / 600:.1f}m tok/s: 7864320" for n in (1, 500, 1000)]
    lines += ["1000/20000 val_loss: 2.9184 val_bpb: 1.1298", "1088/20000 val_loss: 2.8177 val_bpb: 1.0908"]
    lines += ["stopping_early: wallclock_cap train_time: 108800ms step: 1088/20000"]
    run = read_one("".join(f"{stamp}{line}\n" for line in lines))
    assert [row.iteration for row in run.rows] == [1, 500, 1000, 1088]
    assert list(run.rows.ms) == pytest.approx([100.0] * 4)
    assert diagnose(run).wall.total_s == pytest.approx(108.8)
    assert (run.evaluations[-1].val, run.ending) == (2.8177, "finished")


@pytest.mark.parametrize(
    "event",
    [
        "layer_loop:enabled step:5000 frac:0.500",
        "layer_loop:phase1 step:5000 frac:0.500",
        "recurrence:activated step:5000 layers=[4, 5] virtual_layers:13",
        "recurrence:activated at step 5000, virtual_layers=[0, 1, 1]",
    ],
)
def test_layers_that_are_repeated_are_no_other_speed(event: str) -> None:
    rows = [
        f"step:{n}/20000 train_loss:2.5000 train_time:{43 * n + 20 * max(0, n - 5000)}ms" for n in range(200, 9000, 200)
    ]
    rows.insert(25, event)
    rows.insert(40, "layer_loop:phase2 step:7900 frac:0.650")
    diagnosis = diagnose(read_one(HEAD + "\n".join(rows) + "\n"))
    found = {finding.code: finding.numbers for finding in diagnosis.findings}
    assert found["layers_repeated"] == {"iteration": 5000}
    assert found["level_shift_scheduled"]["iteration"] == 5200
    assert "level_shift" not in found


@pytest.mark.parametrize("cut", ["1000/20000 val_loss: 2.9", "1000/20000 train_loss: 3.1 train_time: 1.7m tok/s: 7864"])
def test_a_rate_or_a_loss_without_its_end_is_not_read(cut: str) -> None:
    rows = "".join(f"{n}/20000 train_loss: 3.1000 train_time: {n / 600:.1f}m tok/s: 7864320\n" for n in (1, 500))
    run = read_one(f"  train_batch_tokens: 786432\n{rows}{cut}")
    assert (len(run.rows), len(run.evaluations)) == (2, 0)


def test_a_rate_without_tokens_tells_no_time() -> None:
    rows = "".join(f"{n}/20000 train_loss: 3.1000 train_time: 0.8m tok/s: 7864320\n" for n in (500, 1000))
    run = read_one(rows)
    assert (len(run.rows), len(run.untimed_rows)) == (0, 2)
    denied = read_one("  train_batch_tokens: 1000\n" + rows)  # which do not fit the minutes
    assert (len(denied.rows), len(denied.untimed_rows)) == (0, 2)


@pytest.mark.parametrize(
    "row", ["step:{n}/500 loss:3.1 t:{t}ms step_avg:100.0ms", "step:{n}/500 [JEPA 5%] train_loss:3.1 train_time:{t}ms"]
)
def test_rows_of_forks(row: str) -> None:
    run = read_one("".join(row.format(n=n, t=100 * n) + "\n" for n in range(1, 9)))
    assert len(run.rows) == 8
    assert set(run.rows.ms) == {100.0}
    assert run.rows[0].loss == 3.1
