"""A refusal names what was seen."""

from __future__ import annotations

import pytest

from nanopace.errors import NotALog

from ..reading import read


def refused(text: str) -> str:
    with pytest.raises(NotALog) as caught:
        read(text)
    said = str(caught.value)
    assert "\n" not in said
    assert "the start of a training log" not in said
    return said


def test_the_line_that_is_nearest() -> None:
    said = refused("hello\nthe loss was 3\nepoch 4 has loss 2.5000 and took 3.5 s\nepoch 5 has loss 2.4\n")
    assert said == ("log: no line has a step and a time; the closest is line 3: epoch 4 has loss 2.5000 and took 3.5 s")


NEAR = "epoch 5 has loss 2.4 "


@pytest.mark.parametrize(("more", "shown"), [(79, "x" * 79), (80, "x" * 78 + "…")])
def test_a_nearest_line_is_quoted_up_to_100_characters(more: int, shown: str) -> None:
    assert refused(f"one\n{NEAR}{'x' * more}\n").endswith(f"the closest is line 2: {NEAR}{shown}")


def test_one_part_of_a_row_is_not_near() -> None:
    assert "no training log; supported" in refused("hello\nthe loss was 3\nstep 5\n")


@pytest.mark.parametrize(("before", "known"), [(1981, True), (1982, False)])
def test_2000_characters_of_a_line_are_looked_at(before: int, known: bool) -> None:
    assert ("the closest is line 1" in refused(f"{'x' * before} {NEAR}\n")) == known


def test_a_header_and_nothing_else_is_a_beginning() -> None:
    with pytest.raises(NotALog, match="the start of a training log, but no row with a time yet"):
        read(b"tokens per iteration will be: 16,384\nnumber of parameters: 10.65M\n")


def test_a_time_stamp_is_no_time_of_a_step() -> None:
    assert "no training log; supported" in refused("2026-01-02 03:04:05 INFO: Epoch: 1\n2026-01-02 03:09:05 done\n")


DIED = """Traceback (most recent call last):
  File "train.py", line 3, in <module>
    train()
{before}ValueError: 3 heads do not divide 64
{before}torch.distributed.elastic.ChildFailedError: rank 1
"""


@pytest.mark.parametrize("before", ["", "[rank3]: ", "12: "])
def test_a_run_that_died_before_its_first_row_names_the_first_error(before: str) -> None:
    said = refused(f"tokens per iteration will be: 16,384\n{DIED.format(before=before)}")
    assert said == (
        "log: no line looks like a training step, but line 5 has an error: "
        f"{before}ValueError: 3 heads do not divide 64"
    )


def test_an_error_without_a_traceback_may_be_a_warning() -> None:
    assert "no training log; supported" in refused("RuntimeError: ignored\nhello\n")
