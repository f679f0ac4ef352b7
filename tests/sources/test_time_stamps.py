from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.sources.time_stamps import Stamps

from .reading import read


@pytest.mark.parametrize(
    "form",
    [
        "2023-03-22 {} ",
        "2023-03-22 {},123 INFO ",
        "[2024-01-01T{}Z] ",
        "> 2023-03-22 {} ",
        "{} ",
        "[{}] ",
        "0: 2023-03-22 {} ",
        "INFO 2023/03/22 {} - ",
        "[rank0] {} ",
        "2023-03-22 {} [rank0]: ",
    ],
)
def test_seconds_between_two_stamps(form: str) -> None:
    stamps = Stamps()
    first, second = stamps.read(form.format("09:30:39")), stamps.read(form.format("09:31:50"))
    assert first is not None
    assert second is not None
    assert second - first == pytest.approx(71)


@pytest.mark.parametrize(
    "text", ["", "33", "12%|███ | 3/100 [00:12<10:00, 2it/s] ", "[01:02:03<10:00:00] ", "epoch 1:2 "]
)
def test_what_is_no_stamp(text: str) -> None:
    assert Stamps().read(text) is None


def test_midnight() -> None:
    stamps = Stamps()
    read = [stamps.read(text) for text in ("23:59:50 ", "00:00:10 ", "00:00:30 ")]
    assert read[0] is not None
    assert [each - read[0] for each in read if each is not None] == [0, 20, 40]


@pytest.mark.parametrize(
    ("before", "after", "seconds"), [("13:00:00 ", "01:00:00 ", -43200), ("13:00:01 ", "01:00:00 ", 43199)]
)
def test_more_than_half_a_day_back_is_the_next_day(before: str, after: str, seconds: int) -> None:
    stamps = Stamps()
    first, second = stamps.read(before), stamps.read(after)
    assert first is not None
    assert second is not None
    assert second - first == seconds


def test_fractions_of_a_second() -> None:
    assert [Stamps().read(text) for text in ("00:00:01.25 ", "00:00:01,5 ", "00:01:00 ", "01:00:00 ")] == [
        1.25,
        1.5,
        60,
        3600,
    ]


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)), st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1))
)
def test_the_calendar(first: datetime, second: datetime) -> None:
    stamps = Stamps()
    a, b = (stamps.read(each.strftime("%Y-%m-%d %H:%M:%S ")) for each in (first, second))
    assert a is not None
    assert b is not None
    assert b - a == (second.replace(microsecond=0) - first.replace(microsecond=0)).total_seconds()


def test_rows_and_evaluations_have_their_stamps() -> None:
    (run,) = read(
        "> 2023-03-22 09:31:56 iter 2990: loss 3.8853, time 1096.65ms, mfu 15.34%\n>\n"
        "> 2023-03-22 09:32:32 step 3000: train loss 4.0390, val loss 4.0427\n>\n> saving checkpoint to out\n"
        "> 2023-03-22 09:32:41 iter 3000: loss 4.2490, time 35392.33ms, mfu 13.85%\n"
    )
    first, last = run.rows.at_s
    assert last - first == 45
    assert run.evaluations[0].at_s == first + 36


def test_the_same_line_twice_with_two_stamps_is_one_row() -> None:
    line = "iter 5: loss 3.8853, time 1096.65ms, mfu 15.34%\n"
    (run,) = read(f"10:00:00 {line}10:00:01 {line}")
    assert len(run.rows) == 1
