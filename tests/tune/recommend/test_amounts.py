"""Numbers of tokens and times, as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.errors import UsageError
from nanopace.tune.recommend.amounts import read_seconds, read_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("10B", 10**10),
        ("10b", 10**10),
        ("300M", 3 * 10**8),
        ("2.5B", 25 * 10**8),
        ("1e9", 10**9),
        ("2.5e+9", 25 * 10**8),
        ("524288", 524_288),
        ("524,288", 524_288),
        ("1_000_000", 10**6),
        (" 15 T ", 15 * 10**12),
        ("100k", 10**5),
    ],
)
def test_amounts(text: str, tokens: int) -> None:
    assert read_tokens(text, "--tokens") == tokens


@pytest.mark.parametrize(
    "text", ["", "B", "-1", "0", "0.2", "1e99", "nan", "inf", "10 B B", "1,2", "10Q", "0x10", "1" * 30, "٣B"]
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"--tokens must be a number of tokens such as 10B, 300M or 1e9, not '"):
        read_tokens(text, "--tokens")


@given(st.integers(1, 10**16), st.sampled_from(["{}", "{:,}", "{:_}"]))
def test_a_whole_number_is_itself(number: int, form: str) -> None:
    read = read_tokens(form.format(number), "--tokens")
    assert abs(read - number) <= number * 1e-15


@given(st.text(max_size=20))
def test_any_text_is_answered(text: str) -> None:
    try:
        read = read_tokens(text, "--batch")
    except UsageError:
        return
    assert read >= 1


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("3m", 180), ("1.5 min", 90), (" 2h ", 7200), ("0.5s", 0.5)]
)
def test_times(text: str, seconds: float) -> None:
    assert read_seconds(text, "--budget") == seconds


@pytest.mark.parametrize("text", ["", "90", "0s", "-1s", "1e3s", "9999h", "3 weeks", "m", "٣m"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="--budget must be a time such as 90s or 5m"):
        read_seconds(text, "--budget")
