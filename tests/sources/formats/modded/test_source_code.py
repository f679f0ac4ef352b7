"""The tokens of a step, from the program at the start of the log. Lines in the form of each era."""

from __future__ import annotations

import pytest

from nanopace.sources.formats.modded.source_code import SourceCode

PRODUCT = "    batch_size : int = 8*64 # batch size, in sequences\n    sequence_length : int = 64*1024 # in tokens\n"
LOADER = "train_loader = distributed_data_generator(args.train_files, {of}, rank, world_size)\n"
STAGE = "    TrainingStage(duration=1/3, train_max_seq_len=896, batch_size={of}, window_sizes=(1, 3)),\n"


def code(text: str) -> SourceCode:
    found = SourceCode()
    for line in text.splitlines():
        found.read(line)
    return found


@pytest.mark.parametrize(
    ("text", "gpus", "tokens"),
    [
        (PRODUCT, None, 8 * 64 * 64 * 1024),
        (PRODUCT + "    batch_size = args.batch_size\n", None, 8 * 64 * 64 * 1024),
        ("    batch_size : int = 8*64\n    sequence_length : int = args.length\n", None, None),
        ("    batch_size = 8*64*1024 # batch size in tokens\n    seq_len = 64*1024\n", None, 524_288),
        ("    batch_size = 524288\n    batch_size = 262144\n", None, None),  # which one?
        ("    batch_size = 8 * 64 * 1024 * world_size\n", None, None),
        ("    batch_size = A.size(0) if A.ndim == 3 else 1\n", None, None),
        ('    batch_size = int(os.environ.get("BATCH", 8 * 1024))\n', None, None),
        ("    batch_size = 1.5\n", None, None),
        ("    train_batch_size: int = 2048 * 24 * 8\n    batch_size = 3\n", None, 393_216),
        ("    train_seq_len = 48*1024\n" + LOADER.format(of="world_size * args.train_seq_len"), 8, 393_216),
        ("    train_seq_len = 48*1024\n" + LOADER.format(of="world_size * args.train_seq_len"), None, None),
        ("    seq_len = 1024\n    args.train_files, world_size * args.seq_len, rank, world_size\n", 8, 8192),
        ("    seq_len = 48*1024\n" + LOADER.format(of="world_size * args.seq_len"), 4, 196_608),
        ("    train_seq_len = 48*1024\ngrad_accum_steps = 8 // world_size\n", 1, None),
        (
            "    train_seq_len = 48*1024\ngrad_accum_steps = 8 // world_size\n"
            + LOADER.format(of="args.train_seq_len, grad_accum_steps"),
            1,
            393_216,
        ),
        ("    train_bs_schedule: tuple = (131072, 262144, 393216,\n", None, None),
        ("    train_bs_schedule: tuple = (131072, 131072)\n", None, 131_072),
        (STAGE.format(of="8 * 2048 * 8") + STAGE.format(of="16 * 2048 * 8"), None, None),
        ("    batch_size = " + "9" * 12 + " * " + "9" * 12 + "\n", None, None),
        ("", 8, None),
    ],
)
def test_tokens(text: str, gpus: int | None, tokens: int | None) -> None:
    assert code(text).tokens(gpus) == tokens


def test_what_is_scheduled() -> None:
    assert code(STAGE.format(of="8 * 2048 * 8") + STAGE.format(of="24 * 2048 * 8")).schedule == (131_072, 393_216)
    assert code("    train_bs_schedule: tuple = (8 * 2048 * 8, 16 * 2048 * 8)\n").schedule == (131_072, 262_144)
    assert code(PRODUCT).schedule is None
    assert code("    ws_schedule: tuple = (3, 7, 11)\n").schedules_attention
    assert not code("# no ws_schedule here\n    window = 3\n").schedules_attention


def test_gpus() -> None:
    assert code("assert world_size == 8 # this code is designed for 8xH100\n").gpus == 8
    assert code("assert 8 % world_size == 0\n").gpus is None
