"""What numpy reads is what the plain reader reads, and nothing more."""

from __future__ import annotations

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
