"""What `complete` makes of facts, row by row and at the edges of its rules."""

from __future__ import annotations

import math

import pytest

from nanopace.run import Evaluation, Fact, FactValue, Row, Rows, Run
from nanopace.sources.infer.infer import complete


def run_of(*rows: Row, format: str = "nanogpt", evaluations: tuple[Evaluation, ...] = (), **facts: FactValue) -> Run:
    known = {name: Fact(value, "log") for name, value in facts.items()}
    return Run("log", format, Rows(rows or [Row(0, 1.0)]), evaluations=evaluations, facts=known)


@pytest.mark.parametrize(
    ("value", "known"),
    [
        *((0, True), (1, True), (-1, False), ("text", True), (True, True), (math.inf, False), (math.nan, False)),
        *((1e-18, False), (1.01e-18, True), (1e18, False), (0.99e18, True)),
    ],
)
def test_numbers_that_a_run_can_have(value: FactValue, known: bool) -> None:
    assert ("learning_rate" in complete(run_of(learning_rate=value)).facts) == known


@pytest.mark.parametrize(
    ("gpu", "name", "count"), [("H100", "H100", None), ("1x H100", "H100", None), ("2x H100", "H100", 2)]
)
def test_a_flag_with_a_number_of_cards(gpu: str, name: str, count: int | None) -> None:
    facts = complete(run_of(gpu="A100"), gpu=gpu).facts
    assert facts["gpu"] == Fact(name, "flag")
    assert facts.get("gpu_count") == (None if count is None else Fact(count, "flag"))


@pytest.mark.parametrize("hint", ["row_tokens", "other_columns", "fork_settings", "loss_unit", "decayed_tensors"])
def test_hints_of_a_reader_are_no_facts(hint: str) -> None:
    assert hint not in complete(run_of(**{hint: 3})).facts


@pytest.mark.parametrize(
    ("last", "evaluated", "format", "ending"),
    [
        (100, None, "nanogpt", "finished"),
        (99, None, "nanogpt", None),
        (101, None, "nanogpt", "finished"),
        (90, 100, "nanogpt", "finished"),  # the last iteration is evaluated, and has no row
        (90, 99, "nanogpt", None),
        (100, 0, "nanogpt", "finished"),
        (100, None, "nanopace", None),  # its last row is that of max_iters - 1, and it prints how it ended
    ],
)
def test_a_run_that_reached_its_last_iteration(
    last: int, evaluated: int | None, format: str, ending: str | None
) -> None:
    evaluations = () if evaluated is None else (Evaluation(evaluated, 1.0, 1.0),)
    run = run_of(Row(0, 1.0), Row(last, 1.0), format=format, evaluations=evaluations, max_iters=100)
    assert complete(run).ending == ending
    assert complete(run_of(Row(last, 1.0), format=format)).ending is None


def test_how_a_process_died_is_not_overwritten() -> None:
    run = Run("log", "nanogpt", Rows([Row(9, 1.0)]), facts={"max_iters": Fact(5, "log")}, ending="error")
    assert complete(run).ending == "error"


@pytest.mark.parametrize(("second", "known"), [(0.0, False), (0.01, True)])
def test_an_mfu_of_zero_throughout_is_unknown_to_nanochat(second: float, known: bool) -> None:
    rows = complete(run_of(Row(0, 1.0, mfu=0.0), Row(1, 1.0, mfu=second), format="nanochat")).rows
    assert [row.mfu for row in rows] == ([0.0, second] if known else [None, None])
    kept = complete(run_of(Row(0, 1.0, mfu=0.0), Row(1, 1.0, mfu=second))).rows
    assert [row.mfu for row in kept] == [0.0, second]


def group(first: int, last: int, count: int) -> Row:
    return Row(first, 1.0, count=count, last_iteration=last, sum_ms=float(count))


@pytest.mark.parametrize(
    ("rows", "interval"),
    [
        ([Row(0, 1.0)], None),
        ([Row(0, 1.0), Row(7, 1.0)], 7),
        ([Row(0, 1.0), Row(10, 1.0), Row(20, 1.0), Row(25, 1.0), Row(26, 1.0)], 10),
        ([group(0, 90, 10)], 10),
        ([group(0, 90, 10), Row(91, 1.0), Row(92, 1.0)], 10),
        ([group(0, 10, 2), Row(13, 1.0), Row(16, 1.0), Row(19, 1.0)], 3),
        ([group(0, 99, 10), group(1, 98, 90)], 1),  # a mixture: 100 rows from 0 to 99
        ([group(0, 99, 10), group(1, 98, 90), Row(104, 1.0)], 1),
        ([group(0, 8, 3), group(2, 6, 2), Row(9, 1.0), Row(10, 1.0)], 2),
    ],
)
def test_the_usual_distance_of_rows(rows: list[Row], interval: int | None) -> None:
    assert complete(run_of(*rows)).number("log_interval") == interval


def test_the_usual_distance_of_evaluations() -> None:
    evaluations = (
        *(Evaluation(at, None, 1.0, "core") for at in (0, 30, 60, 90)),  # a benchmark is no evaluation of the loss
        *(Evaluation(at, None, 1.0) for at in (0, 100, 200)),
        Evaluation(900, None, 1.0, count=8, first_iteration=300),
    )
    run = run_of(format="nanochat", evaluations=evaluations)
    assert complete(run).facts["eval_interval"] == Fact(85, "inferred", "row_spacing")


SHAPE = {"n_layer": 12, "n_embd": 768, "block_size": 1024, "vocab_size": 50304}


@pytest.mark.parametrize("missing", SHAPE)
def test_parameters_need_the_whole_shape(missing: str) -> None:
    facts = complete(run_of(format="nanopace", **{name: SHAPE[name] for name in SHAPE if name != missing})).facts
    assert ("parameters" in facts) == (missing == "block_size")
    assert "flops_per_token" not in facts
    assert "parameters" in complete(run_of(format="nanopace", **SHAPE)).facts


def test_a_flag_wins_over_the_log_and_the_log_over_a_config() -> None:
    run = run_of(batch_size=8, n_layer=6)
    found = complete(run, {"batch_size": 9, "n_layer": 6, "dropout": 0.1, "n_head": 4, "weird": 1}, {"n_head": 5})
    assert found.conflicts == (("batch_size", 8, 9),)
    assert {name: found.facts[name] for name in ("batch_size", "n_layer", "dropout", "n_head")} == {
        "batch_size": Fact(8, "log"),
        "n_layer": Fact(6, "log"),
        "dropout": Fact(0.1, "config file"),
        "n_head": Fact(5, "flag"),
    }
    assert "weird" not in found.facts


@pytest.mark.parametrize(
    ("gpu", "dtype", "peak"),
    [("RTX 4090", "bfloat16", 165.2), ("RTX 4090", "float32", None), ("no such card", "bfloat16", None)],
)
def test_the_peak_of_our_own_trainer_is_the_cards(gpu: str, dtype: str, peak: float | None) -> None:
    facts = complete(run_of(format="nanopace", gpu=gpu, dtype=dtype)).facts
    assert facts.get("printed_peak_tflops") == (None if peak is None else Fact(peak, "inferred", "trainer"))


@pytest.mark.parametrize(("tokens", "conflict"), [(100, False), (101, True)])
def test_printed_tokens_against_the_batch(tokens: int, conflict: bool) -> None:
    run = run_of(tokens_per_iteration=tokens, batch_size=2, gradient_accumulation_steps=5, block_size=10)
    assert complete(run).conflicts == ((("tokens_per_iteration", tokens, 100),) if conflict else ())


def test_what_causal_attention_saves_is_not_more_than_all() -> None:
    assert complete(run_of(format="nanopace", **SHAPE, flops_per_token=1)).value("flops_per_token_causal") == 0.0
