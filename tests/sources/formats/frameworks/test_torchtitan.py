"""torchtitan's rows from every year, and what is known about them if the header is cut off."""

from __future__ import annotations

import pytest

from ...reading import read, read_one
from ..examples.frameworks import TITAN_HEAD, titan, titan_log, titan_row

STAMP = "2024-05-01 10:00:{:02d},000 - root - INFO - "
ERAS = {
    "2024-03": "step: {n:2}  loss:  9.5000  wps:   4,096  peak_memory: 57.8%",
    "2024-04": "step: {n:2}  loss:  9.5000  memory:  1.50GiB(1.90%)  wps: 4,096  mfu: 26.86%",
    "2024-11": "step: {n:2}  loss:  9.5000  memory:  1.50GiB(1.90%)  tps: 4,096  mfu: 26.86%",
    "2025-02": "step: {n:2}  loss:  9.5000  memory:  1.50GiB(1.90%)  tps: 4,096  tflops: 83.10  mfu: 26.86%",
    "2025-06": "step: {n:2}  loss:  9.5000  grad_norm:  1.2  memory:  1.50GiB(1.90%)  tps: 4,096  tflops: 1,083.10  "
    "mfu: 26.86%",
    "a fork": "step: {n}/644 = 12.3789%  loss:  9.5000  memory:  1.50GiB(1.90%)  tps: 4,096  mfu: 26.86%",
    "quantized": "step: {n:2}  loss:  9.50000  grad_norm:  1.2  memory:  1.50GiB(1.90%)  tps: 4,096  tflops: 83.10  "
    "mfu: N/A",
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("prefix", ["", "[rank0]:", "[rank0]:[titan] ", "    "])
def test_rows_of_every_year_by_their_stamps(era: str, prefix: str) -> None:
    """Ten steps of 0.5 s between two timestamps. The first row has none before it, so its rate gives the time."""
    steps = ((1, 5), (10, 10), (20, 15), (30, 20))
    run = read_one("".join(f"{prefix}{STAMP.format(at)}{ERAS[era].format(n=n)}\n" for n, at in steps))
    assert [row.iteration for row in run.rows] == [1, 10, 20, 30]
    assert list(run.rows.ms) == pytest.approx([5000 / 9, 5000 / 9, 500, 500])
    assert {row.loss for row in run.rows} == {9.5}
    assert run.rows[0].mfu == (None if era in ("2024-03", "quantized") else pytest.approx(0.2686))
    assert ("flops_per_token" in run.facts) == ("tflops" in ERAS[era])
    assert run.caveats[0].numbers == {"per_gpu": 4096, "gpus": None, "total": None}


def test_the_rate_of_one_gpu_that_is_alone_is_the_runs() -> None:
    mesh = titan("Building 1-D device mesh with ['dp_shard'], [1]", 9)
    assert not read_one(mesh + "".join(titan(titan_row(n, 9.0, 4096), 10 + n) for n in range(1, 9))).caveats


def test_rows_without_any_time() -> None:
    run = read_one("".join(f"{ERAS['2025-02'].format(n=n)}\n" for n in (10, 20, 30)))
    assert not len(run.rows)
    assert [row.iteration for row in run.untimed_rows] == [10, 20, 30]


@pytest.mark.parametrize(
    ("head", "tokens", "gpus"),
    [
        ("Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]", 16384, 8),  # inferred from stamps and rate
        ("Building device mesh with parallelism: pp=2, dp_replicate=1, dp_shard=2, cp=1, tp=1, ep=2", 8192, 4),
        (
            "Training starts at step 1, with local batch size 8, global batch size 16, sequence length 2048, total "
            "steps 100 (warmup 2)",
            32768,
            None,
        ),
        (
            "Trainer is initialized with 8192 tokens per DP rank, 65536 tokens per train step, gradient accumulation "
            "steps 2, maximum context length 2048, total steps 100 (warmup 2)",
            65536,
            None,
        ),
        (
            "Training starts at step 1, with local batch size: 8, sequence length: 2048, total steps: 100(2), ",
            None,
            None,
        ),
    ],
)
def test_tokens_of_a_step(head: str, tokens: int | None, gpus: int | None) -> None:
    rows = "".join(titan(titan_row(n, 9.0, 4096), 100 + n / 2) for n in range(1, 30))
    run = read_one(titan(head, 99) + rows)
    assert (run.value("tokens_per_iteration"), run.value("gpu_count")) == (tokens, gpus)
    assert run.value("max_iters") == (100 if "total steps" in head else None)
    assert list(run.rows.ms) == pytest.approx([500.0] * 29, rel=0.01) or head.startswith("Training starts")


def test_of_pipeline_stages_the_one_with_the_loss_is_read() -> None:
    rows = [
        titan(titan_row(n, -1.0 if rank == 0 else 9.0 + n / 100, 4096 - rank), 100 + n + rank / 10, rank)
        for n in range(1, 30)
        for rank in (0, 3)
    ]
    run = read_one("".join(rows))
    assert [row.loss for row in run.rows] == [9.0 + n / 100 for n in range(1, 30)]
    assert list(run.rows.ms) == pytest.approx([1000.0] * 29)
    assert not run.restarts
    assert run.other_ranks is not None
    assert (run.other_ranks.rank, run.other_ranks.ranks) == (3, 2)
    alone = read_one("".join(rows[::2]))  # with LOG_RANK=0, as torchtitan has it unless told otherwise
    assert [(row.iteration, row.loss) for row in alone.rows] == [(n, None) for n in range(1, 30)]


def test_of_ranks_that_all_have_the_loss_the_first_is_read() -> None:
    rows = [titan(titan_row(n, 9.0, 4096), 100 + n + rank / 10, rank) for n in range(1, 30) for rank in (1, 0, 2)]
    run = read_one(TITAN_HEAD + "".join(rows))
    assert len(run.rows) == 29
    assert run.other_ranks is not None
    assert (run.other_ranks.rank, run.other_ranks.rows) == (0, 58)


def test_a_validation_between_rows_sets_the_clock() -> None:
    """Its tps covers training and validation, so its time is unknown; the row after it has 5 steps."""
    rows = [
        titan(titan_row(10, 9.0, 9999), 105),
        titan("validate step: 15  loss:  8.7500  memory: 31.00GiB(32.62%)  tps: 20,000", 120),
        titan(titan_row(20, 8.0, 9999), 125),
    ]
    run = read_one("".join(rows))
    assert run.rows[-1].ms == pytest.approx(1000.0)
    assert [(each.iteration, each.val, each.ms) for each in run.evaluations] == [(15, 8.75, None)]


@pytest.mark.parametrize("words", ["saving the checkpoint (or staging if async is enabled)", "staging the checkpoint "])
def test_a_checkpoint_is_taken_out_of_the_row_behind_it(words: str) -> None:
    """Ten steps of 0.5 s and a save of 5 s: the row's rate is halved, and so is its mfu."""
    saved = titan(f"Finished {words}in 5.00 seconds.", 110)
    rows = [titan(titan_row(10, 9.0, 8192), 105), saved, titan(titan_row(20, 8.0, 4096), 115)]
    for head in (TITAN_HEAD, ""):  # by the tokens, and by the stamps
        run = read_one(head + "".join(rows))
        assert run.rows[-1].ms == pytest.approx(500.0)
        assert [(each.iteration, each.ms) for each in run.checkpoints] == [(10, 5000.0)]


def test_a_resumed_process_and_another_run() -> None:
    """The first row after the checkpoint contains the start-up, and is not a hundred steps long."""
    resumed = TITAN_HEAD.replace("starts at step 1.", "starts at step 31.").replace(" 2025-06-04 00", " 2025-06-04 01")
    again = "".join(titan(titan_row(n, 7.0, 8192), 3700 + n / 2) for n in (40, 50))
    run = read_one(titan_log() + resumed + again)
    assert [row.iteration for row in run.rows] == [1, 10, 20, 30, 40, 50]
    assert list(run.rows.ms)[-2:] == pytest.approx([500.0, 500.0])
    assert [(each.iteration, each.reached, each.lost.lines) for each in run.restarts] == [(40, 40, 1)]
    assert [len(each.rows) for each in read(titan_log() + titan_log())] == [5, 5]


FETCH = 'HTTP Request: GET https://example.org/datasets/some/text/resolve/0123abc/en/part.{}.gz "HTTP/1.1 302 Found"'
OTHER = 'HTTP Request: HEAD https://example.org/datasets/some/text/resolve/0123abc/README.md "HTTP/1.1 404 Not Found"'


@pytest.mark.parametrize("loss", [9.0, -1.0])  # rows without one wait for another rank's
def test_a_row_contains_the_data_fetched_since_the_row_before(loss: float) -> None:
    text = "".join(
        titan(FETCH.format(n), 100 + n) * (n in (20, 50))
        + titan(OTHER, 100 + n)
        + titan(titan_row(n, loss, 4096), 100 + n)
        for n in range(10, 80, 10)
    )
    assert read_one(text).fetches == (20, 50)
    again = TITAN_HEAD.replace("step 1.", "step 41.") + titan(titan_row(50, loss, 4096), 200)
    assert read_one(text + again).fetches == (20,)


def test_of_mixed_processes_nothing_shows_whose_header_it_is() -> None:
    rows = [
        "".join(titan(titan_row(step - behind, 7.0, 8192), 100 + step / 2) for behind in (0, 30))
        for step in range(40, 140)
    ]
    (run,) = read(TITAN_HEAD + "".join([*rows[:50], TITAN_HEAD.replace("step 1.", "step 50."), *rows[50:]]))
    assert (len(run.rows), run.rows_of_others, run.restarts) == (100, 100, ())


def test_figures_that_are_not_finite() -> None:
    run = read_one(TITAN_HEAD + "".join(titan(titan_row(n, float("nan"), 8192), 100 + n) for n in range(1, 9)))
    assert {row.loss for row in run.rows} == {float("inf")}
