from __future__ import annotations

import pytest

from nanopace import diagnose
from nanopace.run import OtherRanks, Run
from nanopace.sources.formats.table import NANOGPT
from nanopace.sources.processes.rank_prefixes import find_ranks

from ..reading import read

STAMP = "2026-01-01 10:{:02d}:{:02d}"


def nanogpt_row(at: int, ms: float) -> str:
    return f"iter {at}: loss {1 + 9 / (1 + at):.4f}, time {ms:.2f}ms, mfu 10.00%"


def nanochat_row(at: int, ms: float) -> str:
    return (
        f"step {at:05d}/00100 ({at}.00%) | loss: {1 + 9 / (1 + at):.6f} | lrm: 1.00 | dt: {ms:.2f}ms | tok/sec: 1,000 "
        f"| bf16_mfu: 48.10 | epoch: 1 | total time: 0.05m"
    )


def nanopace_row(at: int, ms: float) -> str:
    return f"iter {at}: loss {1 + 9 / (1 + at):.4f}, time {ms:.2f}ms, mfu 10.00%, 12345 tok/s, 1.0 GB"


ROWS = {"nanogpt": nanogpt_row, "nanochat": nanochat_row, "nanopace": nanopace_row}
SPELLINGS = (
    *("[rank{}]: ", "[default{}]:", "[{}]: ", "{}: ", " {}: ", "(rank {}) ", "rank={} ", "[GPU{}] ", "node{}: "),
    *("[trainer{}]:", "[Rank {}] ", "[rank {}/2] ", "RANK:{} ", "cuda:{} ", "worker-{} | "),
)


def mixed(form: str, prefixes: list[str], *, rows: int = 30) -> str:
    """Every iteration from both ranks; the second one is slower."""
    row = ROWS[form]
    return "".join(
        f"{prefix}{row(at, 100.0 + at % 3 + 20 * number)}\n"
        for at in range(rows)
        for number, prefix in enumerate(prefixes)
    )


def check(run: Run, *, ranks: int = 2, rows: int = 30) -> None:
    assert list(run.rows.iteration) == list(range(rows))
    assert max(run.rows.ms) < 110
    assert run.restarts == ()
    assert run.other_ranks == OtherRanks(0, ranks, rows * (ranks - 1))
    (said,) = [each for each in diagnose(run).findings if each.code == "other_ranks"]
    assert dict(said.numbers) == {"rank": 0, "ranks": ranks, "rows": rows * (ranks - 1)}


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_way_to_write_a_rank(form: str, spelling: str) -> None:
    (run,) = read(mixed(form, [spelling.format(rank) for rank in (0, 1)]))
    assert run.format == form
    check(run)


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("prefix", ["{stamp} [rank{rank}]: ", "[rank{rank}]: {stamp} ", "{stamp},123 INFO {rank}: "])
def test_with_time_stamps(form: str, prefix: str) -> None:
    lines = mixed(form, ["0|", "1|", "2|"]).splitlines()
    stamped = []
    for number, line in enumerate(lines):
        rank, _, rest = line.partition("|")
        stamp = STAMP.format(number // 60, number % 60)
        stamped.append(prefix.format(stamp=stamp, rank=rank) + rest)
    (run,) = read("\n".join(stamped) + "\n")
    check(run, ranks=3)


def test_what_the_others_print_is_theirs() -> None:
    lines = [
        "[rank0]: step 0: train loss 9.0000, val loss 9.1000",
        "[rank1]: step 0: train loss 9.0000, val loss 8.0000",
    ]
    lines += mixed("nanogpt", ["[rank0]: ", "[rank1]: "]).splitlines()
    lines += ["[rank1]: Resuming training from out", *mixed("nanogpt", ["[rank1]: "], rows=30).splitlines()]
    lines += ["[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GB"]
    (run,) = read("\n".join(lines) + "\n")
    assert [each.val for each in run.evaluations] == [9.1]
    assert run.restarts == ()
    assert run.other_ranks == OtherRanks(0, 2, 60)
    assert run.ending == "out_of_memory"


@pytest.mark.parametrize("number", ["epoch", "line", "none", "some"])
def test_numbers_that_are_no_ranks(number: str) -> None:
    rows = [nanogpt_row(at, 100.0 + at % 3) for at in range(40)]
    before = {
        "epoch": [f"[{at // 10}]: " for at in range(40)],
        "line": [f"{at}: " for at in range(40)],
        "none": [""] * 40,
        "some": ["[rank1]: " if at % 5 == 0 else "" for at in range(40)],
    }[number]
    lines = [prefix + row for prefix, row in zip(before, rows, strict=True)]
    assert find_ranks(lines, NANOGPT) is None
    (run,) = read("\n".join(lines) + "\n")
    assert (len(run.rows), run.other_ranks) == (40, None)


def test_epochs_that_begin_again_are_no_ranks() -> None:
    assert find_ranks((f"{epoch}: {nanogpt_row(at, 100.0)}" for epoch in range(2) for at in range(40)), NANOGPT) is None


def ranks_of(*rows: tuple[int | None, int]) -> int | None:
    """The rank chosen from rows with an iteration and a rank, or none."""
    lines = [("" if rank is None else f"[rank{rank}]: ") + nanogpt_row(at, 100.0) for rank, at in rows]
    found = find_ranks(lines, NANOGPT)
    return None if found is None else found.rank


def test_four_rows_are_the_fewest() -> None:
    assert ranks_of((0, 0), (1, 0), (0, 1)) is None
    assert ranks_of((0, 0), (1, 0), (0, 1), (1, 1)) == 0
    assert ranks_of((7, 0), (3, 0), (7, 1), (3, 1)) == 3


def test_nine_of_ten_rows_have_their_rank() -> None:
    ranked = [(rank, at) for at in range(9) for rank in (0, 1)]
    assert ranks_of(*ranked, (None, 9), (None, 10)) == 0
    assert ranks_of(*ranked, (None, 9), (None, 10), (None, 11)) is None


def test_each_rank_prints_two_rows_or_more() -> None:
    assert ranks_of((0, 0), (1, 0), (2, 0), (0, 1), (1, 1)) is None
    assert ranks_of((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)) == 0


def test_ranks_take_turns_as_often_as_they_are_many() -> None:
    assert ranks_of((0, 0), (0, 1), (1, 0), (1, 1)) is None
    assert ranks_of((0, 0), (1, 0), (1, 1), (0, 1)) == 0


def test_half_of_the_rows_are_of_iterations_that_two_ranks_print() -> None:
    alone = [(0, 10), (1, 11), (0, 12), (1, 13)]
    assert ranks_of((0, 0), (1, 0), (0, 1), (1, 1), *alone) == 0
    assert ranks_of((0, 0), (1, 0), (0, 1), (1, 1), *alone, (0, 14)) is None
    assert ranks_of((0, 0), (0, 0), (1, 1), (1, 1), (0, 2), (1, 3)) is None  # twice by the same rank


def test_ranks_are_looked_for_in_the_first_2000_rows() -> None:
    alone = [(None, at) for at in range(200)]
    ranked = [(rank, at) for at in range(200, 1100) for rank in (0, 1)]
    assert ranks_of(*alone, *ranked, (None, 1100)) == 0  # the 2,001st row does not count
    assert ranks_of(*alone, (None, 200), *ranked) is None


@pytest.mark.parametrize(("before", "found"), [(194, True), (195, False)])
def test_a_rank_is_in_the_200_characters_before_a_row(before: int, found: bool) -> None:
    lines = [f"[rank{rank}]{'-' * before}{nanogpt_row(at, 100.0)}" for at in range(4) for rank in (0, 1)]
    assert (find_ranks(lines, NANOGPT) is not None) == found


@pytest.mark.parametrize(
    ("line", "rank", "rest"),
    [
        ("[rank1]: iter 5: loss 1.0", 1, "iter 5: loss 1.0"),
        ("12:00 [rank1]: iter 5: loss 1.0", 1, "12:00 iter 5: loss 1.0"),
        ("INFO [rank1]: hello", 1, "INFO hello"),
        ("INFOS [rank1]: hello", None, "INFOS [rank1]: hello"),
        ("on [rank1]: hello", 1, "on hello"),
        ("about [rank1]: hello", None, "about [rank1]: hello"),  # a sentence that names a rank
        ("hello", None, "hello"),
        ("iter 5: loss 1.0 [rank1]", None, "iter 5: loss 1.0 [rank1]"),
    ],
)
def test_the_rank_of_a_line(line: str, rank: int | None, rest: str) -> None:
    ranks = find_ranks(mixed("nanogpt", ["[rank0]: ", "[rank1]: "]).splitlines(), NANOGPT)
    assert ranks is not None
    assert ranks.split(line) == (rank, rest)
