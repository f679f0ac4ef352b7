"""Lines of litgpt, lingua and autoresearch from every year, and what they leave unknown."""

from __future__ import annotations

import json

import pytest

from ...reading import read, read_one
from ..examples.frameworks import EXAMPLES, autoresearch_log, lingua_metrics

LITGPT = {
    "2023-06": "iter {n} step {s}: loss 9.5000, iter time: 150.00ms{old}",
    "2023-11": "iter {n} step {s}: loss 9.5000, iter time: 150.00 ms{old} remaining time: 1.25 days",
    "2024-02": "iter {n} | step {s}: loss 9.5000, iter time: 150.00 ms{old}",
    "2024-03": "Epoch 1 | iter {n} step {s} | loss train: 9.500, val: n/a | iter time: 150.00 ms{new}",
    "2024-04": "Epoch 1 | iter {n} step {s} | loss train: 9.500, val: 8.250 | iter time: 150.00 ms{new} remaining "
    "time: 0:01:54",
    "shown": "Epoch 1 | iter {n:2} step {s} | loss train: 9.500 | iter time:  150.00 ms",
}


@pytest.mark.parametrize("era", LITGPT)
def test_litgpt_of_every_year(era: str) -> None:
    text = "".join(
        LITGPT[era].format(n=n, s=n // 4, old=" (optimizer.step)" * (n % 4 == 0), new=" (step)" * (n % 4 == 0)) + "\n"
        for n in range(1, 21)
    )
    run = read_one(text)
    assert [(row.iteration, row.ms, row.loss) for row in run.rows] == [(n, 150.0, 9.5) for n in range(1, 21)]
    assert run.row_loss == ("micro-batch" if era < "2024-03" else "step")
    told = {each.code: dict(each.numbers) for each in run.caveats}
    assert told == ({} if era == "shown" else {"iterations_are_micro_batches": {"per_step": 4}})


@pytest.mark.parametrize(("printed", "wrong"), [("25,600.00", False), ("25600.00", False), ("12.34", True)])
def test_a_rate_is_only_called_wrong_if_it_is(printed: str, wrong: bool) -> None:
    text = EXAMPLES["litgpt"].replace("12.34", printed)
    assert ("rate_wrong" in {each.code for each in read_one(text).caveats}) == wrong
    resumed = read_one(text.replace("Measured TFLOPs", "Resuming training from out/step-00000010\nMeasured TFLOPs"))
    assert "rate_wrong" not in {each.code for each in resumed.caveats}


def test_sequences_of_finetuning_have_no_one_length() -> None:
    run = read_one(EXAMPLES["litgpt"].replace(" remaining time: 0:01:40", ""))
    assert "tokens_per_iteration" not in run.facts
    assert run.value("batch_size") == 4


def test_lingua_that_went_on_in_the_same_file() -> None:
    lines = lingua_metrics().splitlines()
    run = read_one("\n".join([*lines, *lines[7:]]) + "\n")
    assert [row.iteration for row in run.rows] == list(range(10, 101, 10))
    assert [(each.iteration, each.lost.lines) for each in run.restarts] == [(80, 3)]


def test_lingua_that_began_again_in_the_same_file() -> None:
    rows = lingua_metrics().splitlines(keepends=True)
    runs = read("".join([*rows[:4], *rows]))
    assert [(len(run.rows), len(run.restarts)) for run in runs] == [(4, 0), (10, 0)]


def test_lingua_whose_clock_stood_still() -> None:
    rows = [json.loads(line) for line in lingua_metrics().splitlines()]
    text = "".join(json.dumps({**row, "created_at": rows[0]["created_at"]}) + "\n" for row in rows)
    assert list(read_one(text).rows.ms) == pytest.approx([860.0] * 10)


def test_lingua_with_accumulation_and_losses_of_other_names() -> None:
    rows = [json.loads(line) for line in lingua_metrics().splitlines()]
    for row in rows:
        row["loss/interval_across_gpu"] = row.pop("loss/out")
    run = read_one("".join(f"{json.dumps(row)}\n" for row in rows))
    assert [row.loss for row in run.rows] == [row["loss/interval_across_gpu"] for row in rows]
    hostile = ['{"global_step": 1e400, "speed/curr_iter_time": 1}', "[" * 5000, '{"global_step": 10, "speed/cur']
    run = read_one("\n".join([json.dumps(rows[0]), *hostile, json.dumps(rows[1])]) + "\n")
    assert [row.iteration for row in run.rows] == [10, 20]


def test_lingua_rows_with_a_time_beyond_all_measure_are_left_out() -> None:
    rows = [json.loads(line) for line in lingua_metrics().splitlines()]
    for row in rows:
        del row["created_at"]
    rows[3]["speed/curr_iter_time"] = 2.6e80
    metrics = "".join(json.dumps(row) + "\n" for row in rows)
    console = "".join(
        f"step: {n}  acc: 0  loss:  8.5000  grad: 1.00e+00  flops: 1.00e+14  wps: 1.00e+04  iter: "
        f" {'2.6e80' if n == 4 else '0.5000'}  data:  0.0010  lr: 1.00e-03  mem: 50%  pow: 400.0 W\n"
        for n in range(1, 10)
    )
    assert len(read_one(metrics).rows) == len(rows) - 1
    assert [row.iteration for row in read_one(console).rows] == [1, 2, 3, 5, 6, 7, 8, 9]


def test_a_lingua_log_without_stamps_has_the_time_of_the_micro_batch() -> None:
    row = "step: {n}  acc: 0  loss: 9.5  grad: 1e0  flops: 1e14  wps: 1e4  iter:  0.85  data: 0.05  lr: 1e-4  mem: 9%"
    run = read_one("".join(f"{row.format(n=n)}  pow: 9.5 W\n" for n in range(1, 9)))
    assert list(run.rows.ms) == pytest.approx([900.0] * 8)


def test_autoresearch_on_another_card() -> None:
    """Its peak follows from its own figures; a card that it does not know has none."""
    run = read_one(autoresearch_log().replace("2.400000e+08", "1.200000e+08"))
    assert run.value("printed_peak_tflops") == pytest.approx(989.5 / 2, rel=0.01)
    unknown = read_one(autoresearch_log().replace("| mfu: 41.0% |", "| mfu: n/a |"))
    assert "printed_peak_tflops" not in unknown.facts
    assert {row.mfu for row in unknown.rows} == {None}
    assert len(unknown.rows) == 40


def test_autoresearch_excerpts_of_two_batch_sizes() -> None:
    row = (
        "step {n:05d} (1.0%) | loss: 9.000000 | lrm: 1.00 | dt: 310ms | tok/sec: {rate:,} | epoch: 1 | remaining: 9s\n"
    )
    tokens = (524288, 262144)
    text = "".join(row.format(n=n, rate=int(each / 0.31)) for each in tokens for n in range(20))
    assert [each.value("tokens_per_iteration") for each in read(text)] == [*tokens]


def test_autoresearch_rows_of_forks() -> None:
    row = (
        "step {n:05d} (14%) | loss: 4.123456 | lrm: 0.0412 | dt: 118.32ms | tok/sec: 4429.1 | mfu: 41.22 | epoch: 1 | "
    )
    run = read_one("".join(f"{row.format(n=n)}remaining: 246s\n" for n in range(9)))
    assert {(each.ms, each.loss, each.mfu) for each in run.rows} == {(118.32, 4.123456, 41.22 / 100)}
    assert len(run.rows) == 9


def test_autoresearch_that_failed_and_several_in_one_file() -> None:
    head, _, _ = autoresearch_log().partition("---")
    assert read_one(f"{head}FAIL\n").ending == "diverged"
    runs = read(autoresearch_log() + autoresearch_log(20))
    assert [(len(each.rows), each.evaluations[0].iteration, each.ending) for each in runs] == [
        (40, 40, "finished"),
        (20, 20, "finished"),
    ]
