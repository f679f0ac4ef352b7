"""build-nanogpt's console, in the many forms that people gave its rows, and its log of losses."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace import diagnose
from nanopace.run import Fact
from nanopace.sources.formats.gpt2.build_nanogpt_lines import read_row
from nanopace.sources.infer.infer import complete

from ...reading import detected, read, read_one
from ..examples.gpt2 import BUILD_NANOGPT, BUILD_NANOGPT_LOG
from .reading import caveats, log, losses, rows, scores, values


def test_a_log() -> None:
    run = read_one(BUILD_NANOGPT)
    assert run.format == "build_nanogpt"
    assert run.row_contains_evaluation
    assert run.row_loss == "step"
    assert [(row.iteration, row.ms, row.loss) for row in run.rows] == [
        (0, 37298.0, 10.955015),
        (1, 1572.0, 10.902713),
        (2, 1577.0, 10.803934),
        (3, 1572.5, 10.662127),
        (4, 36100.0, 10.518579),
        (5, 1573.0, 10.376801),
    ]
    assert losses(run) == [(0, 10.9517, 0), (4, 10.6012, 4)]
    assert scores(run) == [(0, 0.25), (4, 0.247)]
    assert caveats(run) == ["evaluation_with_samples"]
    assert values(run) == {
        "device": "cuda",
        "gpu_count": 1,
        "tokens_per_iteration": 524288,
        "gradient_accumulation_steps": 8,
        "n_layer": 12,
        "n_embd": 768,
        "bias": True,
        "vocab_size": 50304,
        "block_size": 1024,
        "log_interval": 1,
        "eval_interval": 4,
        "parameters": 123_689_472,
        "flops_per_token": 855_383_040,
        "flops_per_token_causal": 798_759_936.0,
    }
    assert run.facts["tokens_per_iteration"].origin == "log"
    assert run.facts["block_size"] == Fact(1024, "inferred", "parameter_groups")
    assert run.restarts == ()


FORMS = [
    ("step    7 | loss: 3.250000 | lr 1.6783e-06 | norm: 1.5000 | dt: 410.50ms | tok/sec: 1000.00", 410.5),
    ("step 7, loss: 3.25, dt: 410.50 ms", 410.5),
    ("step 7, loss: 3.25, dt: 410.50ms, tok/sec: 1000.00", 410.5),
    ("step 7 || loss: 3.2500 || norm: 1.5000 || elapsed_time: dt=410.5000ms || tok/sec: 1000.00", 410.5),
    ("step 7 | loss: 3.2500 | dt: 410.50ms | tok/sec: 1000.00 | norm: 1.50 | lr: 0.000999", 410.5),
    ("Step: 7 | Loss: 3.250000 | LR: 1.0000e-04 | GradNorm: 1.5000 | Time: 410.50ms | Tok/sec: 1000.00", 410.5),
    ("step: 7 | train loss: 3.2500 | lr: 0.0003 |  norm: 1.5000 | dt: 410.50ms | tok/sec: 1000.00", 410.5),
    ("step7 | loss: 3.25 | dt: 410.50ms | tok/sec:  1000.00", 410.5),
    ("step 7| loss : 3.25| lr:1.0000e-04 | norm: 1.5000 | dt: 410.50ms, tok/sec: 1000.00", 410.5),
    ("step 7 with loss: 3.2500, dt: 410.50ms, tok/sec: 1000.00", 410.5),
    ("Step: 7, Loss: 3.25, time: 410.5 ms, tok/sec: 1000.0", 410.5),
    ("Step 7, Loss: 3.250000 | lr: 2.0979e-04 | norm: 0.8421 | dt: 410.50 ms, tok/sec: 1000.00", 410.5),
    ("step 7 | train loss 3.2500 | norm 1.5000 | 410.50ms | tok/sec 1000", 410.5),
    ("step 7   | train_loss 3.25  | norm 1.50  | time 410.50 ms | tok/sec 1.00K", 410.5),
    ("step 7 | loss: 3.250000 | grad norm: 1.5000 | time 410.50ms | tok/sec: 1000.0", 410.5),
    ("> step 7 loss: 3.25 | time: 410 ms | tok/sec: 1000.00", 410.0),
    ("step 7/100 | loss: 3.25 | lr: 1e-4 | time: 0.41s", 410.0),
    ("step 7 | loss: 3.25 | total time: 99.5s | step time: 0.4105 sec", 410.5),
    ("step 7 | loss: 3.25 | lr 1e-4 | eval time: 9.0s | dt: 410.5ms", 410.5),
    ("2026-01-02 10:00:00 - INFO - step 7 | loss: 3.25 | dt: 410.50ms", 410.5),
    ("step    7 | loss 3.250000 | lr: 6.0000e-05 | dt: 410.50 ms | throughput: 1000.00 tok/s", 410.5),
    ("step 7 | loss: 3.25 | dt: 410.50ms | 1.00K tokens/sec | norm: 1.50", 410.5),
    ("train: step: 7 | loss: 3.2500 | norm: 1.5000 | dt: 410.50ms | tok/sec: 1000.00", 410.5),
    ("step: 00007/00100 | loss: 3.2500 | time: 410.50ms | tok-sec: 1000.00 | total time: 1.16s", 410.5),
]


@pytest.mark.parametrize(("line", "ms"), FORMS)
def test_forms_of_a_row(line: str, ms: float) -> None:
    """As printed by programs that people typed along with the video."""
    row = read_row(line)
    assert row is not None
    assert (row.step, row.loss, row.ms) == (7, 3.25, pytest.approx(ms))
    assert not row.rate or float(row.rate) * row.rate_unit == 1000
    assert detected([line]) == "build_nanogpt"


def test_a_row_behind_a_sample_without_a_line_end() -> None:
    row = read_row("and so it goes Istep:     7 | loss: 3.250000 | lr: 6.0e-05 | dt: 410.50ms, tok/sec: 1000.00")
    assert row is not None
    assert (row.step, row.ms) == (7, 410.5)


@pytest.mark.parametrize(
    "line",
    [
        "step 100: train loss 4.2000, val loss 4.3000",  # nanoGPT's evaluation
        "step 10: train loss 4.2000, val loss 4.3000, time 512.00ms",  # our own
        "step 00010/05000 (0.20%) | loss: 9.1 | lrm: 1.00 | dt: 480.10ms | tok/sec: 1,092 | total time: 0.01m",
        "step 00010 (3.5%) | loss: 5.1 | lrm: 1.00 | dt: 142ms | tok/sec: 182,000 | mfu: 39.1% | remaining: 9s",
        "step    7/1000 | loss 9.100000 (+nanz)| norm 3.0000 (+nanz)| lr 1.00e-06 | 150.00 ms | 30.0% bf16 MFU",
        "step    7/1000 | train loss 9.100000 | norm 3.0000 | lr 1.00e-06 | (150.00 ms | 3000 tok/s)",
        "step 7: train loss 5.356189 (took 1452.121000 ms)",
        "step:7/1000 train_loss:9.1000 train_time:700ms step_avg:50.00ms",
        "step:  7  loss:  9.10000  grad_norm:  1.0  memory:  5.0GiB(6.0%)  tps: 900  tflops: 1.0  mfu: 1.00%",
        "step: 7  acc: 0  loss:  9.1  grad: 1.0e+00  wps: 1.0e+03  iter:  0.35  data:  0.01",
        "Epoch 1 | iter 7 step 7 | loss train: 9.100, val: n/a | iter time: 150.00 ms (step)",
        "[T] step     7 [  1.0%] | time:  1869 ms | norm   4.315545 | loss   3.282568 | tps 35064",
        "micro-step 7 | loss: 3.25 | dt: 12.00ms",
        "microstep: 7 | loss: 3.25 | dt: 12.00ms",
        "step 7 | loss: 3.25 | total time: 99.5s | eta: 10.0s",
        "step 7 | loss: 3.25 | elapsed time: 99.5s",
        "in step 7 the loss was 3.25 and a step took long",
        "[actor=<root>] step   7  loss=0.1364  reward_mean=-0.004  dt=25.6s",
        "print(f'step {step:5d} | loss: {loss:.6f} | dt: {dt*1000:.2f}ms')",
    ],
)
def test_what_is_no_row_of_it(line: str) -> None:
    assert read_row(line) is None
    assert detected([line]) != "build_nanogpt"


@pytest.mark.parametrize("line", ["1000 tok/s/gpu", "norm 1.50 tok/sec", "tokens/sec/gpu: 1000"])
def test_what_is_no_rate_of_the_run(line: str) -> None:
    row = read_row(f"step 7 | loss: 3.25 | dt: 410.50ms | {line} 900.00")
    assert row is not None
    assert row.rate in ("", "900.00")


def test_the_time_of_an_evaluation_is_no_row() -> None:
    assert read_row("val: step: 7 | loss: 3.25 | dt: 410.50ms") is None


def test_checkpoints_that_forks_print() -> None:
    run = read_one(
        log(rows(4999), "saving checkpoint to log/model_05000.pt", rows(5000), "Saved checkpoint", rows(5001))
    )
    assert [(each.iteration, each.path, each.row) for each in run.checkpoints] == [(5000, None, None)]
    run = read_one(log(rows(4999), "saving checkpoint to log/model_05000.pt", rows(5000), rows(5001)))
    assert [(each.iteration, each.path, each.row) for each in run.checkpoints] == [(5000, "log/model_05000.pt", 1)]
    run = read_one(log(rows(4998), "Saving model checkpoint", rows(4999)))
    assert [(each.iteration, each.path, each.row) for each in run.checkpoints] == [(4999, None, 1)]


SAMPLES = ["rank 0 sample 0: Hello, I'm", "step 900 | loss: 1.0 | dt: 1.00ms", "validation is"]


def test_a_row_that_the_model_wrote_does_not_count() -> None:
    run = read_one(log(rows(0, 1, 2), SAMPLES, rows(3, 4)))
    assert list(run.rows.iteration) == [0, 1, 2, 3, 4]
    assert set(run.rows.ms) == {100.0}


def test_a_process_that_went_back_while_it_wrote_samples() -> None:
    run = read_one(log(rows(100, 101, 102), SAMPLES[0], rows(100, 101, 102, 103), SAMPLES[0], rows(104)))
    assert list(run.rows.iteration) == [100, 101, 102, 103, 104]
    (restart,) = run.restarts
    assert list(restart.lost.iteration) == [100, 101, 102]


def test_samples_of_several_ranks_count_the_gpus() -> None:
    run = read_one(log(rows(0, 1), "rank 3 sample 0: a", "rank 0 sample 0: b", rows(2)))
    assert run.facts["gpu_count"] == Fact(4, "log")


def test_the_groups_of_every_rank_count_them_too() -> None:
    groups = "Num decayed parameter tensors: 50. Total decayed parameters: 124354560."
    run = read_one(log("total desired batch size: 65536", groups, groups + groups, groups, rows(0, 1)))
    assert run.facts["gpu_count"] == Fact(4, "inferred", "repeated_line")
    assert read_one(BUILD_NANOGPT).facts["gpu_count"] == Fact(1, "inferred", "unnumbered_device")


def test_tokens_by_the_printed_rate() -> None:
    run = read_one(log(rows(0, 1, 2, ms=471.28, tokens=16384)))
    assert run.facts["tokens_per_iteration"] == Fact(16384, "inferred", "printed_rate")


@pytest.mark.parametrize("rate", ["throughput: {} tok/s", "{} tokens/sec", "tok-sec: {}"])
def test_tokens_by_a_rate_in_other_words(rate: str) -> None:
    told = [
        f"step {n} | loss: 3.0 | dt: {ms:.2f} ms | {rate.format(f'{65536 / ms * 1000:.2f}')}"
        for n, ms in enumerate((471.28, 470.02))
    ]
    assert read_one(log(told)).facts["tokens_per_iteration"] == Fact(65536, "inferred", "printed_rate")


def test_the_accumulation_in_short() -> None:
    run = read_one(log("using device: mps", "Using gradient accum steps: 4", rows(0, 1)))
    assert run.value("gradient_accumulation_steps") == 4


@pytest.mark.parametrize("wrong", [1000.0, 0.1])
def test_a_rate_that_is_none(wrong: float) -> None:
    """Some divide by milliseconds, some do not divide at all."""
    printed = [
        f"step {n} | loss: 3.0 | dt: {ms:.2f}ms | tok/sec: {65536 / (ms if wrong > 1 else 1):.2f}"
        for n, ms in enumerate((471.28, 470.02, 475.5))
    ]
    assert "tokens_per_iteration" not in read_one(log(printed)).facts


def test_rows_that_cover_several_iterations() -> None:
    """The batch is printed, and rate times time gives ten batches."""
    head = ["total desired batch size: 65536"]
    run = read_one(log(head, rows(*range(0, 100, 10), ms=1000.0, tokens=655_360)))
    assert run.rows_cover == 10
    assert run.rows[5].ms == 100.0


def test_two_processes() -> None:
    head = ["using device: cuda", "total desired batch size: 65536", "=> calculated gradient accumulation steps: 2"]
    first, second = read(log(head, rows(0, 1, 2), head, rows(0, 1)))
    assert (len(first.rows), len(second.rows)) == (3, 2)


def test_endings() -> None:
    assert (
        read_one(log(rows(0, 1), "^CTraceback (most recent call last):", "KeyboardInterrupt")).ending == "interrupted"
    )
    assert read_one(log(rows(0, 1), "- `CUDA out of memory`: lower B")).ending is None


def test_a_terminal_that_broke_the_rows() -> None:
    text = log(rows(*range(20)))
    broken = "\n".join(line[at : at + 40] for line in text.splitlines() for at in range(0, len(line), 40)) + "\n"
    assert [(row.iteration, row.ms) for row in read_one(broken).rows] == [(n, 100.0) for n in range(20)]


@given(st.lists(st.sampled_from([*BUILD_NANOGPT.splitlines(), *SAMPLES, "", "step 5 | loss: 3.0 |"]), max_size=30))
def test_iterations_rise_whatever_comes(lines: list[str]) -> None:
    text = log(rows(0), lines)
    for run in read(text):
        assert list(run.rows.iteration) == sorted(set(run.rows.iteration))
        complete(run)


def test_the_log_of_losses() -> None:
    run = read_one(BUILD_NANOGPT_LOG)
    assert (run.format, len(run.rows)) == ("build_nanogpt_log", 0)
    assert [(row.iteration, row.loss) for row in run.untimed_rows] == [
        (0, 10.954321),
        (1, 10.902713),
        (2, 10.803934),
        (3, 10.662127),
        (4, math.inf),
    ]
    assert losses(run) == [(0, 10.9512, None), (3, 10.701, None)]
    assert scores(run) == [(0, 0.247), (3, 0.248)]
    more = read_one("0 train 10.548814 ce=10.548814 aux=0.000000\n1 train 10.2 lr 6.0e-04 dt 12.0\n2 train 10.1")
    assert list(more.untimed_rows.iteration) == [0, 1]  # a last number may be cut


def test_a_restart_in_the_log_of_losses() -> None:
    steps = [*range(1, 40), *range(20, 60)]
    diagnosis = diagnose(read_one("".join(f"{n} train {9 - n / 30:.6f}\n" for n in steps)))
    (said,) = [each for each in diagnosis.findings if each.code == "restarts_untimed"]
    assert said.numbers == {"count": 1, "lost_iterations": 20}


def test_under_torchrun_the_number_of_gpus_is_unknown() -> None:
    """The device is only printed if a process trains alone."""
    text = BUILD_NANOGPT.replace("using device: cuda\n", "")
    run = read_one(text)
    assert (run.value("gpu_count"), run.value("gradient_accumulation_steps")) == (None, None)
    assert "gpus_unknown" in {finding.code for finding in diagnose(run).findings}
    told = read_one(text, gpu="2x H100")
    assert "gpus_unknown" not in {finding.code for finding in diagnose(told).findings}
    assert "gpus_unknown" not in {finding.code for finding in diagnose(read_one(BUILD_NANOGPT)).findings}


def test_fewer_batches_are_no_advice() -> None:
    """An evaluation is mostly HellaSwag and samples: fewer batches would not make it proportionally shorter."""
    lines = []
    for n in range(2000):
        if n % 20 == 0:
            lines += ["validation loss: 3.1000", "HellaSwag accuracy: 2510/10042=0.2500"]
        lines += rows(n, ms=9000.0 if n % 20 == 0 else 500.0)
    codes = {finding.code for finding in diagnose(read_one(log(lines))).findings}
    assert "raise_eval_interval" in codes
    assert not codes & {"lower_eval_iters", "lower_eval_iters_unknown"}


def test_nor_does_one_in_the_middle_of_what_it_wrote() -> None:
    run = read_one(log(rows(0, 1, 2), SAMPLES[0], "and so step 3 | loss: 1.0 | dt: 1.00ms it is", rows(3, 4)))
    assert set(run.rows.ms) == {100.0}
    assert run.restarts == ()


def test_an_attempt_that_failed_counts_no_gpus() -> None:
    head = ["total desired batch size: 65536", "num decayed parameter tensors: 50, with 124,354,560 parameters"]
    assert "gpu_count" not in read_one(log(head, "RuntimeError: no", head, rows(0, 1))).facts


def groups(matrices: int, width: int = 768, layers: int = 12) -> list[str]:
    """A header with this many rows in the token and position tables together."""
    decayed = 12 * layers * width * width + matrices * width
    return [
        f"num decayed parameter tensors: {4 * layers + 2}, with {decayed:,} parameters",
        f"num non-decayed parameter tensors: {8 * layers + 2}, with {(13 * layers + 2) * width:,} parameters",
    ]


def test_the_shape_by_the_parameter_groups() -> None:
    run = read_one(log("Total Parameters: 124,475,904", groups(50304 + 1024), rows(0, 1)))
    assert (run.value("vocab_size"), run.value("block_size"), run.value("parameters")) == (50304, 1024, 123_689_472)
    run = read_one(log(groups(32000 + 1024), rows(0, 1)))  # or 32768 + 256
    assert (run.value("n_layer"), run.value("n_embd"), run.value("vocab_size")) == (12, 768, None)


def test_hellaswag_is_called_so() -> None:
    findings = {finding.code: finding for finding in diagnose(read_one(BUILD_NANOGPT)).findings}
    assert findings["core_metric"].numbers["score"] == "HellaSwag"
