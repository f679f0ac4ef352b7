"""What numpy reads is what the plain reader reads, and nothing more."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.sources.bulk.nanogpt_lines import Text, read_evaluations, read_rows, read_saves
from nanopace.sources.formats.nanogpt_lines import read_line

evaluation = st.builds(
    "step {}: train loss {:.4f}, val loss {:.4f}".format,
    st.one_of(st.integers(0, 10**6), st.integers(0, 10**13)),
    st.floats(0, 2000),
    st.floats(0, 2000),
)
saving = st.text("out-/ :,#iterstep01.", max_size=12).map("saving checkpoint to {}".format)
garbled = st.builds(
    lambda text, at, other: text[: at % len(text)] + other + text[at % len(text) + 1 :],
    st.one_of(evaluation, saving),
    st.integers(0, 80),
    st.text("0123456789.,: stepraint-/;", max_size=2),
)
lines = st.lists(st.one_of(evaluation, saving, garbled), min_size=1, max_size=20)


@settings(max_examples=200, deadline=None)
@given(lines)
def test_evaluations(lines: list[str]) -> None:
    found = read_evaluations(Text(("\n".join(lines) + "\n").encode()))
    for line, iteration, train, val in zip(*(column.tolist() for column in found), strict=True):
        plain = read_line(lines[line])
        assert plain is not None
        assert plain.kind == "evaluation"
        assert plain.complete
        assert (int(plain.values[0]), float(plain.values[1]), float(plain.values[2])) == (iteration, train, val)


@settings(max_examples=200, deadline=None)
@given(lines)
def test_saves(lines: list[str]) -> None:
    for line in read_saves(Text(("\n".join(lines) + "\n").encode())).tolist():
        plain = read_line(lines[line])
        assert plain is not None
        assert (plain.kind, plain.values) == ("saving", (lines[line].removeprefix("saving checkpoint to "),))


def test_usual_ones_are_all_read() -> None:
    usual = [f"step {10**digits}: train loss 3.1000, val loss {3 + digits}.2500" for digits in range(12)]
    usual += ["saving checkpoint to out", "saving checkpoint to x"]
    text = Text(("\n".join(usual) + "\n").encode())
    found = read_evaluations(text)
    assert found.iteration.tolist() == [10**digits for digits in range(12)]
    assert found.val.tolist() == [3.25 + digits for digits in range(12)]
    assert read_saves(text).tolist() == [12, 13]


def test_iterations_of_many_digits() -> None:
    rows = [f"iter {iteration}: loss 3.1000, time 5.00ms, mfu 1.00%" for iteration in (99999999, 100000000, 10**12 - 1)]
    found = read_rows(Text(("\n".join(rows) + "\n").encode()), without_mfu=False)
    assert found.iteration.tolist() == [99999999, 100000000, 10**12 - 1]


# --- a line that differs by a character -------------------------------------------------------------------------------

ROWS = (
    "iter 987654321098: loss 123.4567, time 98765.43ms, mfu 12345.67%",
    "iter 98765432: loss 3.1415, time 1.09ms, mfu 0.89%",
    "iter 0: loss 0.0000, time 0.00ms, mfu 0.00%",
)
SHORT_ROWS = tuple(row.partition(", mfu")[0] for row in ROWS)
EVALUATIONS = (
    "step 987654321098: train loss 123.4567, val loss 987.6543",
    "step 7: train loss 8.9012, val loss 3.4567",
)
SAVES = ("saving checkpoint to out", "saving checkpoint to ~", "saving checkpoint to !")

ROW = re.compile(r"iter (\d{1,12}): loss (\d{1,3}\.\d{4}), time (\d{1,5}\.\d\d)ms, mfu (\d{1,5}\.\d\d)%")
SHORT_ROW = re.compile(r"iter (\d{1,12}): loss (\d{1,3}\.\d{4}), time (\d{1,5}\.\d\d)ms")
EVALUATION = re.compile(r"step (\d{1,12}): train loss (\d{1,3}\.\d{4}), val loss (\d{1,3}\.\d{4})")
SAVE = re.compile(r"saving checkpoint to (?=[!-~])[^:,]+")


def near(*lines: str) -> list[str]:
    """The lines, and each with a character added, removed or changed at every position."""
    found = list(lines)
    for line in lines:
        for at in range(len(line) + 1):
            found += [line[:at] + other + line[at:] for other in "05x"]
            found += [line[:at] + other + line[at + 1 :] for other in ("", *"059/:;.,ps x\x7f")]
    return list(dict.fromkeys(each for each in found if each))


def text_of(lines: list[str]) -> Text:
    return Text(("\n".join(lines) + "\n").encode())


@pytest.mark.parametrize(("usual", "pattern", "mfu"), [(ROWS, ROW, True), (SHORT_ROWS, SHORT_ROW, False)])
def test_rows_are_read_to_the_character(usual: tuple[str, ...], pattern: re.Pattern[str], mfu: bool) -> None:
    lines = [line for line in near(*usual) if mfu or not ROW.fullmatch(line)]
    matches = [(number, found) for number, line in enumerate(lines) if (found := pattern.fullmatch(line))]
    expected = [
        (number, int(found[1]), float(found[3]), float(found[2])) for number, found in matches if float(found[3]) > 0
    ]
    block = read_rows(text_of(lines), without_mfu=True)
    assert list(zip(*(each.tolist() for each in block[:4]), strict=True)) == expected
    if mfu:
        assert block.mfu.tolist() == [float(found[4]) / 100 for _, found in matches if float(found[3]) > 0]
    else:
        assert np.isnan(block.mfu).all()
        assert not len(read_rows(text_of(lines), without_mfu=False).line)


def test_evaluations_are_read_to_the_character() -> None:
    lines = near(*EVALUATIONS)
    matches = [(number, found) for number, line in enumerate(lines) if (found := EVALUATION.fullmatch(line))]
    expected = [(number, int(found[1]), float(found[2]), float(found[3])) for number, found in matches]
    assert list(zip(*(each.tolist() for each in read_evaluations(text_of(lines))), strict=True)) == expected


def test_saves_are_read_to_the_character() -> None:
    lines = near(*SAVES)
    assert read_saves(text_of(lines)).tolist() == [at for at, line in enumerate(lines) if SAVE.fullmatch(line)]
