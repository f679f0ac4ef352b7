"""nanochat's log in every era: rows, evaluations, checkpoints, and what its headers contain."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace import diagnose
from nanopace.record import replace
from nanopace.run import Evaluation, Fact, Run, Sample, Span
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.table import NANOCHAT

from ..reading import detected, fed


def _log(name: str) -> list[str]:
    """A log written by hand in nanochat's line formats, with made-up figures."""
    return (Path(__file__).parent / "nanochat" / f"{name}.log").read_text("utf-8").splitlines()


OCTOBER_2025 = _log("pretraining-2025-10")
DECEMBER_2025 = _log("pretraining-2025-12")
MARCH_2026 = _log("pretraining-2026-03")
FINE_TUNING = _log("finetuning-2026-02")


def runs_of(lines: Iterable[str]) -> list[Run]:
    return fed(NANOCHAT, lines, "speedrun.log")


def run_of(lines: Iterable[str]) -> Run:
    (run,) = runs_of(lines)
    return run


def values(run: Run) -> dict[str, object]:
    return {name: fact.value for name, fact in run.facts.items()}


@pytest.mark.parametrize("log", [OCTOBER_2025, DECEMBER_2025, MARCH_2026, FINE_TUNING])
def test_it_is_detected(log: list[str]) -> None:
    assert detected(log) == "nanochat"


def test_october_2025() -> None:
    run = run_of(OCTOBER_2025)
    assert run.format == "nanochat"
    assert run.row_contains_evaluation is False
    assert run.mfu_smoothing is None
    assert [row.iteration for row in run.rows] == [0, 1, 2, 3, 4, 5]
    assert run.rows[1].ms == 480.10
    assert run.rows[1].loss == 10.811234
    assert run.rows[1].mfu == pytest.approx(0.1251)
    assert run.rows[4].loss == math.inf
    assert run.evaluations == (
        Evaluation(0, None, 3.2104, "bpb"),
        Evaluation(3, None, 2.9011, "bpb"),
        Evaluation(6, None, 2.7003, "bpb"),
        Evaluation(6, None, 0.0312, "core"),
    )
    assert [(save.iteration, save.path) for save in run.checkpoints] == [
        (6, "/root/.cache/nanochat/base_checkpoints/d8/model_000006.pt")
    ]
    assert run.ending == "finished"
    assert values(run) == {
        "vocab_size": 65536,
        "n_layer": 8,
        "n_embd": 512,
        "n_head": 4,
        "batch_size": 16,
        "block_size": 2048,
        "gpu_count": 4,
        "tokens_per_iteration": 524288,
        "gradient_accumulation_steps": 16,
        "parameters": 92_274_688,
        "flops_per_token": 453_083_100.0,
        "max_iters": 6,
        "printed_peak_tflops": 989.0,
        "compile": True,
    }
    assert run.facts["printed_peak_tflops"] == Fact(989.0, "inferred", "trainer")
    assert run.facts["max_iters"].origin == "log"


def test_the_facts_of_october_agree_with_each_other() -> None:
    """The printed mfu follows from them, but that era's printed tokens per second do not."""
    run = run_of(OCTOBER_2025)
    number = {name: run.number(name) or 0.0 for name in run.facts}
    assert number["batch_size"] * number["gradient_accumulation_steps"] * number["block_size"] == 524288
    flops = number["flops_per_token"] * number["tokens_per_iteration"] / (run.rows[1].ms / 1000) / number["gpu_count"]
    assert flops / (number["printed_peak_tflops"] * 1e12) == pytest.approx(run.rows[1].mfu, rel=1e-3)


def test_december_2025_has_a_gradient_norm() -> None:
    run = run_of(DECEMBER_2025)
    assert [row.ms for row in run.rows] == [9311.45, 480.10]
    assert run.value("gpu_count") == 1
    assert run.value("printed_peak_tflops") == 989.0
    assert run.ending is None


def test_march_2026() -> None:
    run = run_of(MARCH_2026)
    assert [row.iteration for row in run.rows] == [0, 1, 11, 250, 300]
    assert run.rows[2].mfu == pytest.approx(0.4232)
    assert [each.val for each in run.evaluations] == [3.210412, 1.310412]
    assert [save.iteration for save in run.checkpoints] == [300]
    assert values(run) == {
        "gpu": "NVIDIA H100 PCIe",
        "printed_peak_tflops": 756.0,
        "gpu_count": 2,
        "dtype": "bfloat16",
        "vocab_size": 32768,
        "n_layer": 12,
        "n_embd": 768,
        "n_head": 6,
        "batch_size": 32,
        "block_size": 2048,
        "tokens_per_iteration": 524288,
        "gradient_accumulation_steps": 8,
        "parameters": 286_262_426,
        "flops_per_token": 756_092_200.0,
        "max_iters": 2520,
        "compile": True,
    }
    assert run.facts["printed_peak_tflops"].origin == "log"


def test_fine_tuning_has_no_total() -> None:
    run = run_of(FINE_TUNING)
    assert [row.iteration for row in run.rows] == [1, 2]
    assert [(each.iteration, each.metric) for each in run.evaluations] == [(0, "bpb"), (3, "bpb"), (3, "core")]
    assert run.value("max_iters") is None
    assert (
        run.value("eval_interval") is None
    )  # one evaluation before the first step and one after the last tell nothing
    assert run.value("n_embd") == 768
    assert run.value("gradient_accumulation_steps") == 32
    assert run.value("printed_peak_tflops") == 165.0


def test_a_speedrun_is_several_runs() -> None:
    between = [
        "Autodetected device type: cuda",
        "Model: base_model (step 6)",
        "CORE metric: 0.0315",
    ]
    first, second = runs_of([*OCTOBER_2025, *between, *FINE_TUNING])
    assert len(first.rows) == 6
    assert first.evaluations[-1].val == 0.0312
    assert first.value("gpu") is None
    assert [row.iteration for row in second.rows] == [1, 2]
    assert [each.iteration for each in second.evaluations] == [0, 3, 3]
    assert second.value("flops_per_token") is None
    assert second.value("tokens_per_iteration") == 524288
    assert second.value("printed_peak_tflops") == 165.0


TASKS = [
    "Evaluating: one (0-shot, type: schema)... accuracy: 0.2500 | centered: 0.0100 | time: 4.00s",
    "accuracy: 0.2400 | centered: -0.0133 | time: 2.50sple_choice)...",  # a notebook's rest of the line before
]


def test_the_time_of_core_is_that_of_its_tasks() -> None:
    at = next(number for number, line in enumerate(OCTOBER_2025) if "| CORE metric" in line)
    run, without = run_of([*OCTOBER_2025[:at], *TASKS, *OCTOBER_2025[at:]]), run_of(OCTOBER_2025)
    assert [each.ms for each in run.evaluations if each.metric == "core"] == [6500.0]
    assert [replace(each, ms=None) for each in run.evaluations] == [*without.evaluations]
    assert run.spans == ()


def test_a_core_that_did_not_finish_took_time_too() -> None:
    run = run_of([*OCTOBER_2025, *TASKS, "torch.OutOfMemoryError: CUDA out of memory."])
    assert run.spans == (Span("evaluation", 6, 6500.0),)
    (said,) = [each for each in diagnose(run).findings if each.code == "evaluations_outside_clock"]
    assert (said.numbers["timed"], said.numbers["timed_s"]) == (1, 6.5)


def test_the_tasks_of_a_program_that_only_evaluates_are_of_no_run() -> None:
    between = ["Autodetected device type: cuda", *TASKS, "CORE metric: 0.0315"]
    first, second = runs_of([*OCTOBER_2025, *between, *FINE_TUNING])
    assert first.spans == second.spans == ()
    assert not any(each.ms for each in (*first.evaluations, *second.evaluations))


def test_samples_belong_to_the_step_that_follows_and_are_never_read_as_rows() -> None:
    """Samples of a program that only evaluates a model do not belong to the next run."""
    sample = "<|bos|>Step 00003 | Validation bpb: 0.0001"
    at = next(number for number, line in enumerate(OCTOBER_2025) if line.startswith("step 00003"))
    log = [*OCTOBER_2025[:at], sample, "a second line", *OCTOBER_2025[at:], "<|bos|>the end"]
    evaluating = ["Autodetected device type: cuda", "<|bos|>of another program"]
    first, second = runs_of([*log, *evaluating, *FINE_TUNING])
    assert first.samples == (Sample(3, "Step 00003 | Validation bpb: 0.0001"), Sample(6, "the end"))
    assert first.evaluations == run_of(OCTOBER_2025).evaluations
    assert second.samples == ()


def test_of_many_samples_the_newest_are_kept() -> None:
    many = [f"<|bos|>{number}" for number in range(300)]
    run = run_of([*OCTOBER_2025, *many])
    assert [each.text for each in run.samples] == [str(number) for number in range(200, 300)]  # the newest


def test_fine_tuning_of_2025_has_no_times_and_leaves_the_run_before_it_alone() -> None:
    old = [
        "Target examples per step: 32",
        "Step 00000 | Validation loss: 1.011234",
        "Step 00000/00700 | Training loss: 1.211234| lrm: 1.000000| num_tokens: 12,345",
        "2025-10-14 12:00:00,001 - nanochat.checkpoint_manager - INFO - Saved model file to: /x/model_000700.pt",
    ]
    followed, alone = run_of([*OCTOBER_2025, *old]), run_of(OCTOBER_2025)
    assert replace(followed, untimed=alone.untimed) == alone
    assert followed.untimed == {"sft": 1}
    assert not alone.untimed


def test_a_resumed_run_counts_its_iterations_once() -> None:
    header, rows = MARCH_2026[:26], MARCH_2026[26:]
    again = [row.replace("dt: 6", "dt: 7") for row in rows[-1:]]
    resumed = [
        *header[:5],
        "Resuming optimization from step 300",
        *header[5:],
        "Step 00300 | Validation bpb: 1.210412",
        *again,
    ]
    run = run_of([*header, *rows, *resumed])
    assert [row.iteration for row in run.rows] == [0, 1, 11, 250, 300]
    assert run.rows[-1].ms == pytest.approx(719.60)
    assert [(each.iteration, len(each.lost)) for each in run.restarts] == [(300, 1)]
    assert [save.iteration for save in run.checkpoints] == [300]


@pytest.mark.parametrize(
    ("last", "ending"),
    [
        (["Traceback (most recent call last):", "ValueError: no"], "error"),
        (["Traceback (most recent call last):", "torch.OutOfMemoryError: CUDA out of memory."], "out_of_memory"),
        (["Traceback (most recent call last):", "KeyboardInterrupt"], "interrupted"),
        (["Total training time: 2.98m"], "finished"),
        ([], None),
    ],
)
def test_how_it_ended(last: list[str], ending: str | None) -> None:
    assert run_of([*MARCH_2026, *last]).ending == ending


def test_torchruns_prefix_and_text_before_a_row_do_no_harm() -> None:
    prefixed = [f"[rank0]:{line}" for line in MARCH_2026]
    assert run_of(prefixed) == run_of(MARCH_2026)
    bar = "Fetching: 100%|##########| 7/7 " * 100
    assert len(run_of([bar + MARCH_2026[-1]]).rows) == 1


@pytest.mark.parametrize("log", [OCTOBER_2025, DECEMBER_2025, MARCH_2026, FINE_TUNING])
@given(width=st.integers(60, 200), stripped=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_terminal_of_any_width_changes_nothing(log: list[str], width: int, stripped: bool) -> None:
    broken = [line[at : at + width] for line in log for at in range(0, len(line), width)]
    if stripped:
        broken = [line.rstrip(" ") for line in broken]
    assert run_of(broken) == run_of(log)


@pytest.mark.parametrize("log", [OCTOBER_2025, MARCH_2026])
@given(data=st.data())
@settings(max_examples=120, deadline=None)
def test_a_log_cut_anywhere_has_the_rows_before_the_cut(log: list[str], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(log) - 1))
    cut = log[index][: data.draw(st.integers(0, len(log[index]) - 1))]
    builder, whole = RunBuilder("speedrun.log"), RunBuilder("speedrun.log")
    reader, expected = NANOCHAT.open_reader(builder), NANOCHAT.open_reader(whole)
    for line in log[:index]:
        reader.feed(line)
        expected.feed(line)
    if reader.feed_cut(cut):
        expected.feed(log[index])  # what was missing did not matter
        assert "total time" in cut
    assert builder.finish() == whole.finish()


@given(st.lists(st.text(max_size=200) | st.sampled_from([*OCTOBER_2025, *MARCH_2026, *FINE_TUNING]), max_size=40))
@settings(max_examples=100, deadline=None)
def test_no_lines_make_the_reader_raise(lines: list[str]) -> None:
    for run in runs_of(lines):
        assert list(run.rows.iteration) == sorted(set(run.rows.iteration))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_no_changed_figure_makes_the_reader_raise(data: st.DataObject) -> None:
    lines = list(data.draw(st.sampled_from([OCTOBER_2025, MARCH_2026, FINE_TUNING])))
    for _ in range(data.draw(st.integers(1, 8))):
        index = data.draw(st.integers(0, len(lines) - 1))
        at = data.draw(st.integers(0, len(lines[index])))
        middle = data.draw(st.sampled_from(["", "0", "9" * 400, "nan", ",", ".", "-", "e", "|", "inf", "٣"]))
        lines[index] = lines[index][:at] + middle + lines[index][at + len(middle) % 5 :]
    runs_of(lines)
