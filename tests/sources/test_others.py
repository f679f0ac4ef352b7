"""A refusal names what was seen. One line in the form of each trainer, with figures of our own."""

from __future__ import annotations

import io

import pytest

from nanopace.errors import NotALog
from nanopace.sources.runs import open_runs

ROWS = {
}


def refused(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(NotALog) as caught:
        open_runs(io.BytesIO(data))
    said = str(caught.value)
    assert "\n" not in said
    assert "the beginning of a training log" not in said
    return said


@pytest.mark.parametrize("trainer", ROWS)
def test_rows_of_other_trainers(trainer: str) -> None:
    log = "loading the data\n" + "".join(ROWS[trainer].format(n=n) + "\n" for n in range(1, 9))
    assert refused(log) == f"log: 8 lines look like rows of {trainer}, which nanopace cannot read yet"


def test_one_row() -> None:
    assert "one line looks like a row of litgpt" in refused(ROWS["litgpt"].format(n=1) + "\n")


def test_evaluations_as_nanogpt_has_them_do_not_hide_whose_rows_they_are() -> None:
    log = "step 0: train loss 4.9000, val loss 4.9100\n" + ROWS["litgpt"].format(n=0) + "\n"
    assert "litgpt" in refused(log)


def test_the_line_that_is_nearest() -> None:
    said = refused("hello\nthe loss was 3\nepoch 4 has loss 2.5000 and took 3.5 s\nepoch 5 has loss 2.4\n")
    assert said == (
        "log: no line with a step and a time; the nearest is line 3: epoch 4 has loss 2.5000 and took 3.5 s"
    )


NEAR = "epoch 5 has loss 2.4 "


@pytest.mark.parametrize(("more", "shown"), [(79, "x" * 79), (80, "x" * 78 + "…")])
def test_a_nearest_line_is_quoted_up_to_100_characters(more: int, shown: str) -> None:
    assert refused(f"one\n{NEAR}{'x' * more}\n").endswith(f"the nearest is line 2: {NEAR}{shown}")


def test_one_part_of_a_row_is_not_near() -> None:
    assert "no training log in it" in refused("hello\nthe loss was 3\nstep 5\n")


@pytest.mark.parametrize(("before", "known"), [(1975, True), (1976, False)])
def test_2000_characters_of_a_line_are_looked_at(before: int, known: bool) -> None:
    row = " step: 3  loss: 9.1  tps:"
    assert ("looks like a row of torchtitan" in refused("x" * before + row + "\n")) == known


def test_the_trainer_with_the_most_rows_is_named() -> None:
    rows = [ROWS["litgpt"], ROWS["Megatron"], ROWS["Megatron"], ROWS["litgpt"], ROWS["Megatron"]]
    log = "".join(row.format(n=n) + "\n" for n, row in enumerate(rows))
    assert "3 lines look like rows of Megatron" in refused(log)


def test_a_header_and_nothing_else_is_a_beginning() -> None:
    with pytest.raises(NotALog, match="the beginning of a training log, but no row with a time yet"):
        open_runs(io.BytesIO(b"tokens per iteration will be: 16,384\nnumber of parameters: 10.65M\n"))
