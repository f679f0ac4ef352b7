"""The same clock for two trainers, and the meaning of a setting."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import loss_clock
from loss_clock import (
    Moment,
    complete,
    evaluations_every,
    parse_setting,
    seconds_of_rows,
    trace_of_ledger,
    trace_of_log,
)
from nanopace import open_run
from nanopace.ledger import CheckpointEvent, CompileEvent, EvalEvent, Event, LedgerWriter, StepEvent, read_ledger

LOG = """\
tokens per iteration will be: 1,024
step 0: train loss 9.0000, val loss 9.1000
iter 0: loss 9.0000, time 30000.00ms, mfu -100.00%
iter 1: loss 8.0000, time 100.00ms, mfu -100.00%
step 2: train loss 7.0000, val loss 7.1000
saving checkpoint to out
iter 2: loss 7.0000, time 2100.00ms, mfu -100.00%
iter 3: loss 6.0000, time 110.00ms, mfu -100.00%
step 4: train loss 5.0000, val loss 5.1000
saving checkpoint to out
iter 4: loss 5.0000, time 2200.00ms, mfu -100.00%
"""


def _run(folder: Path, text: str) -> loss_clock.Run:
    path = folder / "nanogpt.log"
    path.write_text(text)
    return open_run(path)


def test_nanogpts_first_row_is_not_on_the_clock_and_its_evaluations_are(tmp_path: Path) -> None:
    trace = trace_of_log(_run(tmp_path, LOG), tokens_per_step=1024)
    assert trace.steps == 4
    assert trace.tokens == 4 * 1024
    assert trace.seconds == pytest.approx(0.1 + 2.1 + 0.11 + 2.2)
    assert trace.evaluations == (Moment(2, pytest.approx(2.2), 7.1), Moment(4, pytest.approx(4.51), 5.1))


def test_nanogpts_steps_alone_have_no_evaluations(tmp_path: Path) -> None:
    run = _run(tmp_path, LOG)
    assert seconds_of_rows(run, 4) == pytest.approx(0.1 + 0.105 + 0.11 + 0.105)
    assert seconds_of_rows(run, 3) == pytest.approx(0.1 + 0.105 + 0.11)


@pytest.mark.parametrize("missing", ["iter 3", "step "])
def test_a_log_that_lacks_rows_has_no_time(tmp_path: Path, missing: str) -> None:
    lines = [line for line in LOG.splitlines(keepends=True) if not line.startswith(missing)]
    with pytest.raises(ValueError, match="rows are missing"):
        trace_of_log(_run(tmp_path, "".join(lines)), tokens_per_step=1024)


def _ledger(folder: Path, *events: Event) -> list[Event]:
    path = folder / "ledger.jsonl"
    with LedgerWriter(path) as writer:
        for each in events:
            writer.append(each)
    return list(read_ledger(io.BytesIO(path.read_bytes())).events)


STEPS = [StepEvent(number, 10.0, 5.0, 1000 + number, at_ms=21_000.0 + number) for number in range(5)]


def test_our_clock_runs_from_the_first_evaluation_to_the_last_without_what_compiles(tmp_path: Path) -> None:
    events = _ledger(
        tmp_path,
        CompileEvent(9000.0, "model", at_ms=15_000.0),  # before the clock starts
        EvalEvent(0, val=9.0, ms=500.0, at_ms=20_000.0),
        *STEPS[:2],
        CompileEvent(400.0, "again", 1, at_ms=21_500.0),
        EvalEvent(2, val=7.0, ms=500.0, at_ms=23_000.0),
        *STEPS[2:4],
        EvalEvent(4, val=5.0, ms=500.0, at_ms=26_000.0),
        STEPS[4],  # one more step, as in nanoGPT, after the last evaluation
        CheckpointEvent(4, "x", 1.0, 1700.0, 10, at_ms=27_000.0),
        CheckpointEvent(5, "x", 1.0, 9900.0, 10, at_ms=29_000.0),
    )
    trace = trace_of_ledger(events)
    assert trace.steps == 4
    assert trace.tokens == 1000 + 1001 + 1002 + 1003
    assert trace.evaluations == (Moment(2, pytest.approx(2.6), 7.0), Moment(4, pytest.approx(5.6), 5.0))
    assert trace.seconds == pytest.approx(5.6 + 1.2), "the weights were on the disk 1.2 s after they were evaluated"


def test_a_checkpoint_that_is_written_before_its_evaluation_ends_costs_nothing(tmp_path: Path) -> None:
    begin = EvalEvent(0, val=9.0, ms=500.0, at_ms=1000.0)
    save = CheckpointEvent(1, "x", 1.0, 300.0, 10, at_ms=4000.0)
    events = _ledger(tmp_path, begin, STEPS[0], EvalEvent(1, val=7.0, ms=500.0, at_ms=3000.0), save)
    assert trace_of_ledger(events).seconds == pytest.approx(2.0)


def test_a_ledger_without_an_end_has_no_time(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no evaluation"):
        trace_of_ledger(_ledger(tmp_path, EvalEvent(0, val=9.0, at_ms=1.0), *STEPS))


def test_settings_are_knobs_with_short_names() -> None:
    assert parse_setting("batch=8,accum=64, lr=6e-4,iters=180,warmup=30") == {
        "batch_size": 8,
        "gradient_accumulation_steps": 64,
        "learning_rate": 6e-4,
        "max_iters": 180,
        "warmup_iters": 30,
    }
    assert parse_setting("recipe=fast,without=rope,muon,compile=False,memory_limit=12GiB") == {
        "recipe": "fast",
        "without": "rope,muon",
        "compile": False,
        "memory_limit": "12GiB",
    }
    assert parse_setting("") == {}


@pytest.mark.parametrize("text", ["fast", "=3", "a b=3"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="name=value"):
        parse_setting(text)


def test_a_setting_brings_what_follows_from_it() -> None:
    shared = parse_setting("batch=64,accum=8,iters=180")
    reference = complete(shared, {"learning_rate": 6e-4})
    assert reference["min_lr"] == pytest.approx(6e-5)
    assert [reference[name] for name in ("warmup_iters", "lr_decay_iters", "eval_interval", "eval_iters")] == [
        30,
        180,
        60,
        20,
    ]
    assert (
        complete(shared, {"batch_size": 8, "eval_interval": 90}).items()
        >= {"eval_iters": 160, "eval_interval": 90}.items()
    )
    recipe = complete(shared, {"recipe": "fast"})
    assert not recipe.keys() & {"learning_rate", "min_lr", "warmup_iters"}, "a recipe knows its own"
    assert "learning_rate" in complete(shared, {"recipe": "gpt2"})


def test_the_last_evaluation_comes_at_the_end() -> None:
    assert [evaluations_every(steps) for steps in (180, 200, 61, 3, 2, 1)] == [60, 100, 61, 1, 1, 1]
    for steps in range(1, 400):
        assert steps % evaluations_every(steps) == 0
        assert steps // evaluations_every(steps) <= 3
