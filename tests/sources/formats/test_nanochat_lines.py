"""What single lines of nanochat mean, at the edges of their rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nanopace.hardware.flops import flops_per_token
from nanopace.run import Run
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.nanochat_lines import shape_of_config, stage_of_command, stage_of_directory
from nanopace.sources.formats.table import NANOCHAT
from nanopace.sources.printed_numbers import RateBounds, half_unit, to_int


def step(
    number: int = 1,
    *,
    total: str = "/00100",
    ms: str = "500.00",
    mfu: str = "mfu: 40.00",
    epoch: str = "",
    rate: str = "1,000",
    more: str = "",
) -> str:
    return (
        f"step {number:05d}{total} (1.00%) | loss: 3.100000 | lrm: 1.00 | dt: {ms}ms | tok/sec: {rate} | {mfu}"
        f"{epoch and ' | epoch: 1'} | total time: 0.50m{more}"
    )


STEP = step()


def read(*lines: str) -> tuple[list[Run], list[bool]]:
    """The runs, and whether each line was understood."""
    builder = RunBuilder("log")
    reader = NANOCHAT.open_reader(builder)
    understood = [reader.feed(line) for line in lines]
    reader.finish()
    return builder.finish(), understood


def run_of(*lines: str) -> Run:
    (run,), _ = read(*lines)
    return run


@pytest.mark.parametrize(
    ("line", "understood"),
    [
        *((STEP, True), ("Step 00001 | Validation bpb: 1.0000", True), ("Step 00001 | ChatCORE: 0.1000", True)),
        *(("Saved model file to: /x/base_checkpoints/d8/model_000006.pt", True), ("Peak memory usage: 1MiB", True)),
        *(("Step 00001/00009 | Training loss: 1.0", True), ("Step 1/9 | Average reward: 1.0", True)),
        *(("Autodetected device type: cuda", True), ("Resuming optimization from step 5", True)),
        *(("torchrun -m scripts.base_train", True), ("GPU: NVIDIA L4 | Peak FLOPS (BF16): 1.21e+14", True)),
        *(("Tokens / micro-batch / rank: 8 x 1024 = 8,192", True), ("Tokens / micro-batch: 8,192", True)),
        *(("Total batch size 8,192 => gradient", True), ("num_layers: 8", True), ("Vocab size: 65,536", True)),
        *(('  "n_layer": 12,', True), ("Detected 8 GPU", True), ("KeyboardInterrupt", True)),
        *(("", False), ("   ", False), ("hello", False), ("step 5", False)),
    ],
)
def test_which_lines_are_understood(line: str, understood: bool) -> None:
    assert read(line)[1] == [understood]


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mfu", "share"), [("40.00", 0.4), ("0.00", 0.0), ("-1.00", None), ("nan", None), ("inf", None)]
)
def test_an_mfu_that_a_card_can_have(mfu: str, share: float | None) -> None:
    assert run_of(step(mfu=f"mfu: {mfu}")).rows[0].mfu == share


def test_a_clock_that_stood_still_is_no_row() -> None:
    assert list(run_of(step(1, ms="0.00"), step(2, ms="0.01")).rows.iteration) == [2]


CARD = "GPU: NVIDIA L4 | Peak FLOPS (BF16): {}"
DEVICE = "Autodetected device type: {}"


@pytest.mark.parametrize(
    ("header", "mfu"),
    [
        *((DEVICE.format("cuda"), 0.4), (DEVICE.format("cpu"), None), (DEVICE.format("mps"), None)),
        *((CARD.format("1.21e+14"), 0.4), (CARD.format("inf"), None)),
    ],
)
def test_without_a_card_or_its_peak_an_mfu_means_nothing(header: str, mfu: float | None) -> None:
    run = run_of(header, step())
    assert run.rows[0].mfu == mfu
    assert ("printed_peak_tflops" in run.facts) == (mfu is not None)


@pytest.mark.parametrize(
    ("header", "row", "peak"),
    [
        ([], step(), 989.0),
        ([], step(mfu="bf16_mfu: 40.00"), None),  # later than the card's line
        ([], step(epoch="1"), None),  # about then: a header would show it
        (["Autodetected device type: cuda"], step(epoch="1"), 989.0),
        (["Distributed world size: 2"], step(epoch="1"), 989.0),
        (["Autodetected device type: cuda"], step(mfu="bf16_mfu: 40.00"), None),
        ([CARD.format("1.21e+14")], step(), 121.0),
        ([CARD.format("inf")], step(), None),
    ],
)
def test_the_peak_behind_the_mfu(header: list[str], row: str, peak: float | None) -> None:
    assert run_of(*header, row).value("printed_peak_tflops") == peak


@pytest.mark.parametrize(("pieces", "joined"), [(41, True), (42, False)])
def test_a_step_of_up_to_41_pieces(pieces: int, joined: bool) -> None:
    parts = [STEP[:10], *(STEP[10 + 2 * at : 12 + 2 * at] for at in range(pieces - 2)), STEP[6 + 2 * pieces :]]
    assert "".join(parts) == STEP
    assert all(each.strip() for each in parts)
    runs, _ = read(*parts)
    assert len(runs) == joined


def test_what_stands_before_a_long_line_is_dropped() -> None:
    assert len(read("x" * 5000 + " " + STEP)[0]) == 1


def test_the_end_of_a_line_of_1000_characters_is_read() -> None:
    line = "Saved model file to: /{}/model_000006.pt"
    for length, paths in ((1000, 1), (1001, 0)):
        path = line.format("a" * 300)
        text = path + "x" * (length - len(path))
        assert len(run_of(STEP, text).checkpoints) == paths


# --- the header ------------------------------------------------------------------------------------------------------


def test_cards_are_counted_by_micro_batches() -> None:
    one, world, batch = (
        "Tokens / micro-batch / rank: 8 x 1024 = 8,192",
        "Tokens / micro-batch: 32,768",
        "Total batch size 65,536 => gradient accumulation steps: 2",
    )
    names = ("gpu_count", "batch_size", "block_size", "tokens_per_iteration", "gradient_accumulation_steps")
    assert [run_of(one, world, batch, STEP).value(name) for name in names] == [4, 8, 1024, 65_536, 8]
    assert [run_of(world, batch, STEP).value(name) for name in names] == [None, None, None, 65_536, None]


@pytest.mark.parametrize(
    ("header", "count", "memory"),
    [
        (["Detected 8 GPUs"], 8, None),
        (["Detected profile: gpus=2, vram_mib=24576"], 2, 24.0),
        (["Detected 8 GPUs", "Distributed world size: 4"], 4, None),  # what the program says counts
        ([], None, None),
    ],
)
def test_what_a_script_says_of_the_machine(header: list[str], count: int | None, memory: float | None) -> None:
    run = run_of(*header, STEP)
    assert (run.value("gpu_count"), run.value("gpu_memory_gb")) == (count, memory)


CONFIG = {"sequence_len": 1024, "vocab_size": 50304, "n_layer": 12, "n_head": 6, "n_kv_head": 6, "n_embd": 768}


@pytest.mark.parametrize(
    ("change", "counted"),
    [
        ({}, True),
        ({"n_kv_head": 3}, False),  # keys that heads share
        ({"window_pattern": "SSL"}, False),  # windows
        ({"n_kv_head": None}, False),
    ],
)
def test_what_a_token_costs_follows_from_a_plain_config(change: dict[str, Any], counted: bool) -> None:
    config = {name: value for name, value in (CONFIG | change).items() if value is not None}
    facts = shape_of_config(str(config))
    expected = flops_per_token(12 * 12 * 768**2 + 50304 * 768, 12, 768, 1024)
    assert facts.pop("flops_per_token", None) == (expected if counted else None)
    assert facts == {"block_size": 1024, "vocab_size": 50304, "n_layer": 12, "n_head": 6, "n_embd": 768}
    assert shape_of_config('"n_layer": 12') == {"n_layer": 12}


def test_stages() -> None:
    assert [stage_of_directory(f"/x/{each}_checkpoints/d8") for each in ("base", "mid", "chatsft", "chatrl", "x")] == [
        *("base", "mid", "sft", "rl", None)
    ]
    assert stage_of_directory("/base_checkpoints/mid_checkpoints/d8") == "mid"
    commands = ("base_train", "mid_train", "chat_sft", "chat_rl", "tok_train")
    assert [stage_of_command(f"python -m scripts.{each} --x") for each in commands] == [
        "base",
        "mid",
        "sft",
        "rl",
        None,
    ]


def test_another_form_of_row_is_another_program() -> None:
    runs, _ = read(step(1), step(2), step(1, total=""), step(2, total=""))
    assert [(run.stage, list(run.rows.iteration)) for run in runs] == [("base", [1, 2]), ("mid", [1, 2])]


# --- tokens of a step ------------------------------------------------------------------------------------------------


def tokens_of(*rows: tuple[str, str]) -> int | None:
    one, all_at_once = RateBounds(), RateBounds()
    for ms, rate in rows:
        one.add(to_int(rate), float(ms), half_unit(ms))
    all_at_once.add_all(np.array([to_int(rate) for _, rate in rows]), np.array([float(ms) for ms, _ in rows]), 0.005)
    assert one.tokens == all_at_once.tokens
    return one.tokens


def rate(tokens: int, ms: float) -> tuple[str, str]:
    return f"{ms:.2f}", f"{int(tokens / ms * 1000):,}"


@pytest.mark.parametrize("tokens", [1000, 65_536, 524_288, 500_000])
def test_the_tokens_of_a_step_by_its_rate(tokens: int) -> None:
    assert tokens_of(*(rate(tokens, ms) for ms in (101.37, 103.12, 99.83, 100.41))) == tokens


def test_tokens_need_two_rows_that_agree() -> None:
    assert tokens_of(rate(65_536, 101.37)) is None
    assert tokens_of(rate(65_536, 101.37), rate(65_536, 99.83)) == 65_536
    assert tokens_of(rate(65_536, 101.37), rate(65_000, 99.83)) is None


def test_tokens_that_are_not_known_to_one_percent_are_not_known() -> None:
    """150 tokens per second, rounded, in steps of a second: 149.5 to 151 tokens; above that, the bounds are close."""
    assert tokens_of(("1000.00", "149"), ("1000.00", "149")) is None
    assert tokens_of(("1000.00", "152"), ("1000.00", "152")) == 152


def test_a_time_with_other_decimals_is_rounded_elsewhere() -> None:
    coarse, fine = RateBounds(), RateBounds()
    for _ in range(2):
        coarse.add(1e6, 20.0, half_unit("20.0"))
        fine.add(1e6, 20.0, half_unit("20.0000"))
    assert coarse.tokens == 19_968  # 39 x 512, the roundest of 19,950 to 20,050
    assert fine.tokens == 20_000


@pytest.mark.parametrize(
    ("columns", "known"),
    [
        ({}, False),
        ({"epoch": "1"}, True),
        ({"mfu": "bf16_mfu: 40.00"}, True),
        ({"more": " | eta: 1.0m"}, True),
    ],
)
def test_tokens_by_the_rate_need_a_column_that_came_later(columns: dict[str, str], known: bool) -> None:
    rows = [step(n, rate=rate(65_536, 500.0 + n)[1], ms=f"{500.0 + n:.2f}", **columns) for n in range(3)]
    assert run_of(*rows).value("tokens_per_iteration") == (65_536 if known else None)


def test_a_rate_that_contradicts_the_batch_is_reported() -> None:
    batch = "Total batch size {} => gradient accumulation steps: 2"
    rows = [step(n, rate=rate(65_536, 500.0 + n)[1], ms=f"{500.0 + n:.2f}", epoch="1") for n in range(3)]
    agreeing, other = run_of(batch.format("65,536"), *rows), run_of(batch.format("131,072"), *rows)
    assert (agreeing.told_tokens, other.told_tokens) == (None, 65_536)
    assert other.value("tokens_per_iteration") == 131_072
