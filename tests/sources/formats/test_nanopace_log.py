"""Our own trainer's output is read back as the same run; the real printing functions make the lines."""

from __future__ import annotations

import io
import math
import time
from pathlib import Path
from typing import Any

import pytest

from nanopace import compare, diagnose, render
from nanopace.cli.display.display import PlainLines
from nanopace.ledger import CheckpointEvent, EvalEvent, StepEvent
from nanopace.run import Checkpoint, Evaluation, Fact, GpuUse, Run
from nanopace.sources.formats.table import NANOPACE
from nanopace.train.listener import Introduction, Outcome
from nanopace.wording.catalog import words

from ..nanogpt_logs import WHOLE_LOG
from ..reading import fed, read

CHOICES = {
    "device": "cuda: NVIDIA H200 was found",
    "gpu": "NVIDIA H200: 989 TFLOP/s in bfloat16",
    "dtype": "bfloat16: the card has it, and it needs no loss scaling",
    "n_layer": "12: for 10000.0M training tokens",
    "n_embd": "768: for 10000.0M training tokens",
    "vocab_size": "50304: GPT-2's 50257, rounded up to a multiple of 64",
    "block_size": "1024",
    "compile": "True: fewer and larger kernels",
    "attention": "flash: the quickest of those that run here",
}


class SameMfu(Introduction):
    def mfu(self, _: StepEvent) -> float:
        return 0.412


def print_run(
    out: io.StringIO,
    first: int = 0,
    last: int = 1000,
    end: str | None = "finished",
    *,
    stop: int | None = None,
    choices: dict[str, str] | None = None,
    kwh: float | None = 0.2,
    wall_s: float = 1200.0,
) -> str:
    """A process of `nanopace train` on an H200: steps of 1100 ms, an evaluation of 800 ms and a save every 250."""
    lines = PlainLines(out, words())
    lines.started(
        SameMfu(
            out_dir="runs/out, 2",
            first_step=first,
            last_step=last,
            tokens_per_step=524_288,
            log_interval=10,
            choices=CHOICES if choices is None else choices,
        )
    )
    stop = last + 1 if stop is None else stop
    for iteration in range(first, stop):
        loss = 3 + 8 / (1 + iteration / 100)
        if iteration % 250 == 0:
            train = {"train": loss + 0.1, "train_error": 0.01, "train_steps": 250} if iteration > first else {}
            known = {"val": loss, "val_error": 0.0031, "windows": 1600, "ms": 800.0, "bits_per_byte": 0.98, **train}
            lines.event(EvalEvent(iteration, **known))  # type: ignore[arg-type]
        if iteration % 250 == 4 and iteration > first + 4:  # four steps later it is on the disk
            path = f"runs/out, 2/checkpoints/step-{iteration - 4:08d}"
            lines.event(CheckpointEvent(iteration - 4, path, stall_ms=12.3, background_ms=1840.0, bytes=10**9))
        ms = 1100.0 + iteration % 7 / 10
        lines.event(StepEvent(iteration, ms, loss, tokens=524_288, lr=6e-4, grad_norm=0.84))
    if end is not None:
        told: dict[str, Any] = {"reason": end, "iteration": stop - 1, "wall_ms": 1000 * wall_s, "energy_kwh": kwh}
        lines.finished(Outcome(ledger="out/ledger.jsonl", checkpoint="x", **told))
    return out.getvalue()


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


def feed(*lines: str) -> list[Run]:
    return fed(NANOPACE, lines)


ROWS = [f"iter {n}: loss 3.0000, time 150.00ms, mfu n/a, 100 tok/s, lr 1.00e-03" for n in range(10)]


def test_the_run_that_was_told_of(out: io.StringIO) -> None:
    (run,) = read(print_run(out))
    assert run.format == "nanopace"
    assert run.row_contains_evaluation is False
    assert run.mfu_smoothing is None
    assert [row.iteration for row in run.rows] == list(range(0, 1001, 10))
    assert run.rows[1].ms == 1100.3
    assert run.rows[1].mfu == pytest.approx(0.412)
    assert run.evaluations[0] == Evaluation(0, None, 11.0, ms=800.0, val_error=0.0031)
    assert run.evaluations[1] == Evaluation(250, 5.3857, 5.2857, ms=800.0, val_error=0.0031, train_steps=250)
    assert [each.iteration for each in run.evaluations] == [0, 250, 500, 750, 1000]
    path = "runs/out, 2/checkpoints/step-00000250"
    assert run.checkpoints[0] == Checkpoint(250, path, ms=12.3, background_ms=1840.0)
    assert run.wall_ms == 1_200_000.0
    assert run.gpu_use == GpuUse(energy_kwh=0.2)
    assert run.ending == "finished"


def test_what_is_known_of_it(out: io.StringIO) -> None:
    (run,) = read(print_run(out))
    said = {"out_dir": "runs/out, 2", "tokens_per_iteration": 524_288, "max_iters": 1000, "n_layer": 12}
    said |= {"n_embd": 768, "block_size": 1024, "compile": True, "device": "cuda", "gpu": "NVIDIA H200"}
    assert {name: run.facts[name] for name in said} == {name: Fact(value, "log") for name, value in said.items()}
    assert run.facts["parameters"] == Fact(123_587_328, "inferred", "model_shape")
    assert run.value("eval_interval") == 250
    assert run.value("printed_peak_tflops") == pytest.approx(989, rel=0.01)
    assert "attention" not in run.facts
    assert "learning_rate" not in run.facts  # nanoGPT's defaults are not ours


@pytest.mark.parametrize("gpu", [None, "no such card"])
def test_without_a_known_card_the_peak_stays_unknown(out: io.StringIO, gpu: str | None) -> None:
    choices = {"dtype": "bfloat16: it is fast"} | ({} if gpu is None else {"gpu": gpu})
    (run,) = read(print_run(out, choices=choices))
    assert run.value("printed_peak_tflops") is None


def test_the_report_is_right(out: io.StringIO) -> None:
    (run,) = read(print_run(out))
    found = diagnose(run)
    assert found.step.median_ms == pytest.approx(1100.3, abs=0.1)
    assert found.slow_rows == ()
    assert found.evaluations.each_ms == 800.0
    assert (found.checkpoints.each_ms, found.checkpoints.background_ms) == (12.3, 1840.0)
    assert found.wall.total_s == 1200.0
    assert found.wall.measured
    assert found.wall.evaluation_s == pytest.approx(4.0)
    assert found.wall.training_s == pytest.approx(1001 * 1.1003, rel=0.001)
    assert found.loss.best_val_error == 0.0031
    assert found.mfu.steady_printed == pytest.approx(0.412)
    assert found.mfu.card == pytest.approx(0.412, abs=0.001)
    codes = [finding.code for finding in found.findings]
    assert "energy" in codes
    assert "overfitting" not in codes
    assert "tokens_unknown" not in codes
    assert "±0.0031" in render(found)


def test_it_can_be_compared_with_a_log_of_nanogpt(out: io.StringIO) -> None:
    (ours,), (theirs,) = read(print_run(out)), read(WHOLE_LOG)
    found = compare(theirs, ours)
    assert found.tokens_per_s.ratio == pytest.approx(9343 / 1100.3, rel=0.01)
    assert found.overhead_share.b is not None
    assert found.equal_tokens
    assert "tokens/s" in render(found)


def test_a_log_without_its_beginning_is_known_by_its_rows(out: io.StringIO) -> None:
    text = print_run(out)
    (run,) = read(text[text.index("iter 400") :])
    assert (run.format, run.row_contains_evaluation) == ("nanopace", False)
    assert run.wall_ms is None  # the end has the time of the full run, and this is only a part
    assert run.ending == "finished"


def test_a_terminal_that_broke_the_lines(out: io.StringIO) -> None:
    text = print_run(out)
    broken = "\n".join(line[at : at + 80] for line in text.splitlines() for at in range(0, len(line), 80)) + "\n"
    (run,) = read(broken)
    assert run.format == "nanopace"
    assert len(run.rows) == 101
    assert run.rows[1].mfu == pytest.approx(0.412)
    assert [each.val for each in run.evaluations] == [each.val for each in read(text)[0].evaluations]


def test_torchruns_prefix(out: io.StringIO) -> None:
    text = print_run(out)
    (run,) = read("".join(f"[rank0]: {line}\n" for line in text.splitlines()))
    (plain,) = read(text)
    assert run.evaluations == plain.evaluations
    assert run.wall_ms == plain.wall_ms


def test_a_run_that_was_interrupted_and_went_on(out: io.StringIO) -> None:
    print_run(out, end="interrupted", stop=601)
    (run,) = read(print_run(out, first=500))
    assert [row.iteration for row in run.rows] == list(range(0, 1001, 10))
    (restart,) = run.restarts
    assert (restart.iteration, restart.reached) == (500, 600)
    assert run.ending == "finished"
    assert run.wall_ms is None  # the first process did not say
    assert run.gpu_use is None


def test_the_times_and_the_energy_of_processes_add_up(out: io.StringIO) -> None:
    print_run(out, last=500, wall_s=100.0)
    (run,) = read(print_run(out, first=501, last=1000, wall_s=3700.0))
    assert run.wall_ms == 3_800_000.0
    assert run.gpu_use == GpuUse(energy_kwh=0.4)
    out = io.StringIO()
    print_run(out, last=500, kwh=None)
    (run,) = read(print_run(out, first=501, last=1000))
    assert run.gpu_use is None


def test_a_process_that_went_on_and_was_killed_makes_all_of_it_unknown(out: io.StringIO) -> None:
    print_run(out, last=500)
    (run,) = read(print_run(out, first=501, last=1000, end=None, stop=700))
    assert (run.wall_ms, run.gpu_use, run.ending) == (None, None, None)


def test_a_resumed_process_alone_tells_its_own_time(out: io.StringIO) -> None:
    (run,) = read(print_run(out, first=500))
    assert run.rows.iteration[0] == 500
    assert run.wall_ms == 1_200_000.0


def test_two_runs_in_one_log(out: io.StringIO) -> None:
    print_run(out, wall_s=2000.0)
    print_run(out, end=None, stop=600)
    first, second, third = read(print_run(out, wall_s=1800.0))
    assert (first.wall_ms, first.ending, first.gpu_use) == (2_000_000.0, "finished", GpuUse(energy_kwh=0.2))
    assert (second.wall_ms, second.ending, second.gpu_use) == (None, None, None)
    assert (third.wall_ms, third.gpu_use) == (1_800_000.0, GpuUse(energy_kwh=0.2))


def test_a_run_that_died(out: io.StringIO) -> None:
    (run,) = read(print_run(out, end=None, stop=600) + "Traceback (most recent call last):\n  torch.OutOfMemoryError\n")
    assert run.ending == "out_of_memory"
    assert run.wall_ms is None


def test_an_unknown_mfu_and_a_lost_loss() -> None:
    (run,) = feed(*ROWS, "iter 10: loss nan, time 150.00ms, mfu n/a, 100 tok/s, norm nan, lr 1.00e-03")
    assert run.rows[0].mfu is None
    assert run.rows[10].loss == math.inf


def test_a_checkpoint_by_another_name_belongs_to_the_evaluation_before_it() -> None:
    line = "saved elsewhere/newest, time 1.00ms, in the background 2.00ms, 1.00 MB"
    (run,) = feed(*ROWS[:5], "step 5: val loss 3.0000, time 9.00ms, val error 0.0100", line, *ROWS[5:])
    assert run.checkpoints == (Checkpoint(5, "elsewhere/newest", ms=1.0, background_ms=2.0),)


def test_only_knobs_that_can_be_are_facts() -> None:
    header = "nanopace 0.3.0 train: out, 8 tokens a step, steps 0 to 9"
    choices = ("  n_layer: many: so", "  batch_size: 4: so", "no choice", "  n_head: 2: too late")
    (run,) = feed(header, *choices, *ROWS)
    assert run.value("batch_size") == 4
    assert {"n_layer", "n_head"}.isdisjoint(run.facts)


def test_a_row_that_a_terminal_broke_belongs_before_the_next_line() -> None:
    header, broken = "nanopace 0.3.0 train: out, 8 tokens a step, steps 0 to 9", "iter 10: loss 3.0000, time 150.00ms"
    first, second = feed(header, *ROWS, broken, header, *ROWS)
    assert (len(first.rows), len(second.rows)) == (11, 10)
    (run,) = feed(header, *ROWS, broken, "finished after 11 steps in 3.50 s")
    assert (len(run.rows), run.ending) == (11, "finished")


def test_what_stands_before_a_header_is_not_ours() -> None:
    (run,) = feed("  n_layer: 6: so", "device: NVIDIA L4", "batch_size: 3", "block_size: 4", "n_head: 5", *ROWS)
    assert {"n_layer", "gpu", "batch_size", "block_size", "n_head", "fork_settings"}.isdisjoint(run.facts)


@pytest.mark.parametrize(
    ("end", "wall_s"),
    [
        ("finished after 10 steps in 3.50 s", 3.5),
        ("finished after 10 steps in 2 min 3.50 s", 123.5),
        ("finished after 10 steps in 1 h 2 min 3.50 s, 0.5 kWh", 3723.5),
        ("finished after 10 steps in 1 h 3.50 s", 3603.5),
        ("interrupted after 1 step", None),
        ("finished after 10 steps in 3.50 s or so", None),
    ],
)
def test_how_long_a_process_took(end: str, wall_s: float | None) -> None:
    (run,) = feed("nanopace 0.3.0 train: out, 8 tokens a step, steps 0 to 9", *ROWS, end)
    assert run.wall_ms == (None if wall_s is None else 1000 * wall_s)
    assert run.gpu_use == (GpuUse(energy_kwh=0.5) if "kWh" in end else None)
    assert run.ending == end.split()[0]


@pytest.mark.parametrize("piece", ["saved ", "nanopace 1 train: x", "step 1: val loss 1.0, ", "finished after 1 in "])
def test_a_line_that_begins_again_and_again_takes_no_time(piece: str) -> None:
    began = time.process_time()
    assert feed(piece * (65_536 // len(piece))) == []
    assert time.process_time() - began < 2


def test_the_command_line_explains_it(out: io.StringIO, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from nanopace.cli.main import main

    log = tmp_path / "train.log"
    log.write_text(print_run(out))
    assert main(["--lang", "en", "explain", str(log)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("train.log · nanopace · 101 rows, iterations 0 to 1,000 · 20 min 0 s")
    assert "The card used 0.200 kWh for this run, 600 W on average." in shown


TAIL = "val loss 3.2841, time 812.40ms, val error 0.0031"


@pytest.mark.parametrize(
    ("line", "train", "steps"),
    [
        (f"step 250: train loss (last 250 steps) 3.3121, {TAIL}, train error 0.0103, change +0.1", 3.3121, 250),
        (f"step 250: train loss (last 1 step) 3.3121, {TAIL}", 3.3121, 1),
        (f"step 250: train loss 3.3121, {TAIL}, train error 0.0103, 0.9871 bits per byte", 3.3121, None),
        (f"step 250: {TAIL}, change -0.0312 (error 0.0009)", None, None),
        # as older versions printed them
        (f"step 250: train loss 3.3121, {TAIL}, train error 0.0103 (last 250 steps), 0.98 bits per byte", 3.3121, 250),
        (f"step 250: train loss 3.3121, {TAIL}, last 250 steps, 0.9871 bits per byte", 3.3121, 250),
        # broken by a terminal, or copied from one: what is left is no loss of nanoGPT's
        ("step 250: train loss (last 250 steps) 3.3121, val loss 3.2841", None, None),
    ],
)
def test_what_the_training_loss_is_of(line: str, train: float | None, steps: int | None) -> None:
    (run,) = feed(*ROWS, line)
    (found,) = run.evaluations
    assert (found.iteration, found.train, found.val, found.train_steps) == (250, train, 3.2841, steps)
