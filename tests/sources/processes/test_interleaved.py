from __future__ import annotations

import random

import pytest

from nanopace import diagnose
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.table import NANOGPT
from nanopace.sources.processes.interleaved import WINDOW, of_one_process

from ..reading import read
from .test_rank_prefixes import ROWS, nanogpt_row


def lane(first: int, count: int, step: int, ms: float, form: str = "nanogpt") -> list[str]:
    return [ROWS[form](first + step * at, ms) for at in range(count)]


def alternating(*lanes: list[str]) -> str:
    return "".join(f"{row}\n" for rows in zip(*lanes, strict=True) for row in rows)


@pytest.mark.parametrize("form", ROWS)
@pytest.mark.parametrize("step", [1, 10])
@pytest.mark.parametrize("apart", [-20, -2, -1, 0, 1, 2, 20])
def test_two_processes(form: str, step: int, apart: int) -> None:
    first = 50 * step
    (run,) = read(alternating(lane(first, 200, step, 100.0, form), lane(first + apart * step, 200, step, 110.0, form)))[
        -1:
    ]
    assert run.restarts == ()
    if apart not in (0, 1):  # if both print the same iteration one after another, nothing shows whose it is
        fewer = min(list(run.rows.ms).count(ms) for ms in (100.0, 110.0))
        assert fewer <= 1  # a first row ahead of the other's is not known for what it is
    assert len(run.rows) + run.rows_of_others in (399, 400)
    (said,) = [each for each in diagnose(run).findings if each.code == "interleaved_processes"]
    assert said.numbers["rows"] == run.rows_of_others
    assert diagnose(run).restarts.count == 0


@pytest.mark.parametrize("processes", [3, 10, 100])
def test_many_processes(processes: int) -> None:
    lanes = [lane(1000 - 3 * number, 60, 1, 100.0 + number) for number in range(processes)]
    (run,) = read(alternating(*lanes))
    assert (len(run.rows), run.restarts, run.rows_of_others) == (60, (), 60 * (processes - 1))


def test_in_any_order() -> None:
    """Not strictly alternating, and with evaluations."""
    lanes = [
        [
            line
            for at in range(first, first + 1500)
            for line in (
                *([f"step {at}: train loss 5.0000, val loss {4 + number}.0000"] if at % 250 == 0 else []),
                nanogpt_row(at, 100.0 + number),
            )
        ]
        for number, first in enumerate((40, 0))
    ]
    chosen = random.Random(1)
    printed: list[str] = []
    while any(lanes):
        which = chosen.choice([each for each in lanes if each])
        printed += [which.pop(0) for _ in range(min(len(which), chosen.randint(1, 4)))]
    (run,) = read("\n".join(printed) + "\n")
    assert run.restarts == ()
    assert run.rows.lines + run.rows_of_others == 3000
    assert list(run.rows.iteration) == sorted({*run.rows.iteration})
    assert len(run.rows) > 1400  # where one overtakes the other, they may change places
    assert [each.iteration for each in run.evaluations] == [250, 500, 750, 1000, 1250, 1500]


def test_a_second_process_that_joins_later_and_ends_sooner() -> None:
    first, second = lane(0, 2000, 1, 100.0), lane(0, 300, 1, 110.0)[5:]
    printed = [*first[:700], *(row for pair in zip(first[700:995], second, strict=True) for row in pair), *first[995:]]
    (run,) = read("\n".join(printed) + "\n")
    assert (len(run.rows), run.restarts, run.rows_of_others) == (2000, (), 295)


@pytest.mark.parametrize("rows", [3, 40, 2 * WINDOW])
def test_a_restart_is_still_one(rows: int) -> None:
    """However often a process returns to its checkpoint, and whatever follows."""
    begun = [nanogpt_row(at, 100.0) for at in range(1000)]
    again = [nanogpt_row(at, 101.0) for at in range(990, 990 + rows)]
    (run,) = read("\n".join([*begun, *again, *again]) + "\n")
    assert [(each.iteration, each.reached) for each in run.restarts] == [(990, 999), (990, 989 + rows)]
    assert (run.rows_of_others, len(run.rows)) == (0, 990 + rows)


def test_in_a_long_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where numpy would read it."""
    monkeypatch.setattr("nanopace.sources.runs.BULK_BYTES", 1000)
    (run,) = read(alternating(lane(10, 500, 1, 100.0), lane(9, 500, 1, 110.0)))
    assert (len(run.rows), run.restarts, run.rows_of_others) == (500, (), 500)


def test_rows_that_two_handlers_print() -> None:
    rows = lane(0, 100, 1, 100.0)
    (run,) = read(alternating(rows, rows))
    assert (len(run.rows), run.restarts, run.rows_of_others) == (100, (), 0)


def kept(*printed: int | str) -> tuple[list[int | str], int]:
    """Which of these rows (by iteration) and other lines are kept, and how many rows belong to other processes."""
    builder = RunBuilder("", NANOGPT)
    lines = [each if isinstance(each, str) else f"iter {each}: loss 1.0" for each in printed]
    left = [line for line, _ in of_one_process([(line, True) for line in lines], builder)]
    return [int(each[5:-10]) if each.startswith("iter") else each for each in left], builder.rows_of_others


def test_a_process_has_to_continue_three_times() -> None:
    twice = (100, 50, 101, 51, 102)
    assert kept(*twice) == ([*twice], 0)
    assert kept(*twice, 52, 103) == ([100, 101, 102, 103], 3)
    assert kept(*twice, 52, 103, 53) == ([100, 101, 102, 103], 4)  # one that is known is another to the end


def test_processes_that_print_the_same_iteration_keep_their_order() -> None:
    pairs = [at for at in range(100, 110) for _ in (0, 1)]
    different = [f"iter {at}: loss {1 + number % 2}.0" for number, at in enumerate(pairs)]
    builder = RunBuilder("", NANOGPT)
    left = [line for line, _ in of_one_process([(line, True) for line in different], builder)]
    assert (left, builder.rows_of_others) == (different[::2], 10)


def test_a_process_that_is_left_alone_for_512_rows_has_taken_over() -> None:
    both, alone = (100, 50, 101, 51, 102, 52, 103), range(53, 53 + 513)
    assert kept(*both, *alone[:-1]) == ([100, 101, 102, 103], 3 + 512)
    assert kept(*both, *alone) == ([100, 101, 102, 103, *alone], 3)
    assert kept(*both, *alone, 60, 61) == ([100, 101, 102, 103, *alone, 60, 61], 3)


def test_rows_that_are_missing_are_no_process() -> None:
    assert kept(100, 105, 106, 120, 121) == ([100, 105, 106, 120, 121], 0)
    assert kept(100, 99, 100, 101, 102) == ([100, 99, 100, 101, 102], 0)  # a restart


def test_rows_of_a_process_are_as_far_apart_as_most() -> None:
    """Ten apart: row 110 continues 100, and row 60 continues 50."""
    assert kept(100, 50, 110, 60, 120, 70, 130, 80, 140) == ([100, 110, 120, 130, 140], 4)


EVALUATION = "step {}: train loss 1.0, val loss 1.0"


def test_an_evaluation_of_the_past_announces_a_row_of_the_past() -> None:
    old, new = EVALUATION.format(50), EVALUATION.format(100)
    rows = (51, 101, 52, 102, 53, 103)
    assert kept(100, old, 50, *rows, 54, 104) == ([100, 101, 102, 103, 104], 5)
    assert kept(100, new, *rows[1:2], *rows[3::2]) == ([100, new, 101, 102, 103], 0)


def test_of_an_evaluation_that_each_process_prints_the_first_counts() -> None:
    first, second = EVALUATION.format(102), "step 102: train loss 1.0, val loss 2.0"
    printed = (100, 99, 101, 100, first, 102, second, 101, 103, 102, 104, 103, 105)
    assert kept(*printed) == ([100, 101, first, 102, 103, 104, 105], 5)
    core = "step 102 | CORE metric: 0.1"  # another metric of the same iteration is no repetition
    more = [each for line in printed for each in ((line, core, core) if line == first else (line,))]
    assert kept(*more) == ([100, 101, first, core, 102, 103, 104, 105], 5)


def test_other_lines_stay_where_they_are() -> None:
    assert kept("a", 100, "b", 50, "c", 101, 51, 102, "d", 52, 103, "e")[0] == [
        "a",
        100,
        "b",
        "c",
        101,
        102,
        "d",
        103,
        "e",
    ]
    assert kept(100, 100, 50, "a") == ([100, 100, 50, "a"], 0)


@pytest.mark.parametrize(("before", "found"), [(788, True), (789, False)])
def test_a_row_begins_in_the_first_800_characters_of_its_line(before: int, found: bool) -> None:
    far = ["x" * before + f"iter {at}: loss" for at in (5, 6, 7)]
    assert kept(100, far[0], 101, far[1], 102, far[2], 103)[1] == (3 if found else 0)


# --- two trainings in one log -----------------------------------------------------------------------------------------


def of_nanochat(iteration: int, total: int, ms: float) -> str:
    return (
        f"step {iteration:05d}/{total:05d} ({100 * iteration / total:.2f}%) | loss: 3.000000 | lrm: 1.00 | "
        f"dt: {ms:.2f}ms | tok/sec: 1,000 | bf16_mfu: 1.00 | epoch: 1 pq: 0 rg: 1 | total time: 1.00m"
    )


def two_trainings(*, slow: int = 90, fast: int = 300, twice: bool = False) -> list[str]:
    """One of 500 iterations that is alone at first, and one of 700 that is three times as fast and ends sooner."""
    printed = [of_nanochat(at, 500, 300.0) for at in range(20)]
    slow_rows = iter([of_nanochat(at, 500, 300.0) for at in range(20, slow)])
    for at in range(fast):
        printed += [of_nanochat(at, 700, 100.0)] * (1 + twice)
        if at % 5 == 4:
            printed += [next(slow_rows, "")]
    return [*printed, *slow_rows]


@pytest.mark.parametrize("twice", [False, True])
def test_two_trainings_of_different_lengths(twice: bool) -> None:
    (run,) = read("\n".join(two_trainings(twice=twice)) + "\n")
    assert {*run.rows.ms} == {300.0}
    assert [*run.rows.iteration] == [*range(90)]
    assert (run.restarts, run.rows_of_others) == ((), 300)


def test_the_other_training_does_not_take_over() -> None:
    (run,) = read("\n".join(two_trainings(slow=30, fast=300 + 2 * WINDOW)) + "\n")
    assert {*run.rows.ms} == {300.0}
    assert len(run.rows) == 30


def test_the_training_after_both_is_another_run() -> None:
    later = [of_nanochat(at, 900, 200.0) for at in range(2 * WINDOW)]
    runs = read("\n".join([*two_trainings(), *later]) + "\n")
    assert [{*run.rows.ms} for run in runs] == [{300.0}, {200.0}]
    assert [len(run.rows) for run in runs] == [90, 2 * WINDOW]
    assert [run.restarts for run in runs] == [(), ()]


def test_a_training_ahead_of_the_other() -> None:
    """The first row of the one that is ahead continues the iterations of the other."""
    pairs = [(of_nanochat(at, 500, 300.0), of_nanochat(100 + at, 700, 100.0)) for at in range(80)]
    (run,) = read("\n".join(row for pair in pairs for row in pair) + "\n")
    assert {*run.rows.ms} == {300.0}
    assert (len(run.rows), run.rows_of_others) == (80, 80)


def test_only_its_own_evaluations_count() -> None:
    own, others = "Step 00050 | Validation bpb: 1.5000", "Step 00300 | Validation bpb: 0.5000"
    printed = two_trainings()
    printed.insert(printed.index(of_nanochat(50, 500, 300.0)), own)
    printed.insert(printed.index(of_nanochat(299, 700, 100.0)) + 1, others)
    (run,) = read("\n".join(printed) + "\n")
    assert [(each.iteration, each.val) for each in run.evaluations] == [(50, 1.5)]


def test_the_header_of_the_other_is_not_its_own() -> None:
    printed = two_trainings()
    printed.insert(15, "Autodetected device type: cuda\nDistributed world size: 1\nNumber of parameters: 77,000,000")
    (run,) = read("\n".join(printed) + "\n")
    assert (len(run.rows), "parameters" in run.facts) == (90, False)


def test_a_run_that_is_resumed_with_more_iterations() -> None:
    begun = [of_nanochat(at, 500, 300.0) for at in range(100)]
    (run,) = read("\n".join([*begun, *(of_nanochat(at, 700, 300.0) for at in range(90, 700))]) + "\n")
    assert [(each.iteration, each.reached) for each in run.restarts] == [(90, 99)]
    assert (len(run.rows), run.rows_of_others) == (700, 0)
    (run,) = read("\n".join([*begun, *(of_nanochat(at, 700, 300.0) for at in range(100, 700))]) + "\n")
    assert (len(run.rows), run.rows_of_others, run.restarts) == (700, 0, ())


@pytest.mark.parametrize("named", ["step {} | val loss 3.1000", "Step {:5d} | Validation loss: 3.1000"])
def test_an_evaluation_that_names_its_step_as_a_row_does_is_no_row(named: str) -> None:
    lines = []
    for step in range(100):
        lines += [named.format(step)] if step % 20 == 0 or step == 99 else []
        lines += [f"step {step:4d} | loss 3.0000 | norm 0.5000 | lr 6.00e-04 | dt 500.00ms | tok/s 65536"]
    (run,) = read("".join(f"{line}\n" for line in lines))
    assert [*run.rows.iteration] == [*range(100)]
    assert run.rows_of_others == 0
    assert [each.iteration for each in run.evaluations] == [0, 20, 40, 60, 80, 99]


def test_evaluations_of_runs_after_two_that_printed_together() -> None:
    """A later run does less, so its evaluations are of earlier iterations than those of the first."""

    def evaluated(at: int, bits: float) -> str:
        return f"Step {at:05d} | Validation bpb: {bits:.4f}"

    def whole(total: int, bits: float) -> list[str]:
        rows = [of_nanochat(at, total, 200.0) for at in range(total)]
        return [evaluated(0, 3.0), *rows[:50], evaluated(50, 2.0), *rows[50:], evaluated(total, bits)]

    first, *later = read("\n".join([*two_trainings(), evaluated(90, 1.5), *whole(300, 1.2), *whole(200, 1.3)]) + "\n")
    assert first.rows_of_others > 0
    assert [[(each.iteration, each.val) for each in run.evaluations] for run in later] == [
        [(0, 3.0), (50, 2.0), (300, 1.2)],
        [(0, 3.0), (50, 2.0), (200, 1.3)],
    ]
