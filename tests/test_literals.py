"""Arithmetic as Python does it, within bounds, and nothing else."""

from __future__ import annotations

import ast
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.literals import NotLiteralError, evaluate

NUMBERS = st.one_of(st.integers(0, 100), st.floats(0, 100, allow_nan=False).map(lambda x: round(x, 3))).map(repr)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.builds("-{}".format, inner),
        st.builds("({})".format, inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner),
    ),
    max_leaves=8,
)


def value_of(text: str) -> object:
    return evaluate(ast.parse(text, mode="eval").body, {"known": 3, "name": "text"})


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS)
def test_it_is_what_python_makes_of_it(text: str) -> None:
    try:
        expected = eval(text)  # noqa: S307  # our own sums
    except ZeroDivisionError:
        with pytest.raises(NotLiteralError):
            value_of(text)
        return
    if math.isfinite(expected):
        assert value_of(text) == expected
        assert type(value_of(text)) is type(expected)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("known * 2", 6),
        ("name + '!'", "text!"),
        ("None", None),
        ("[1, (2, known)]", (1, (2, 3))),
        ("+True", 1),
        ("1**99", 1),
    ],
)
def test_names_texts_and_rows(text: str, value: object) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("9**9**9", "2**64", "(-2)**63.5", "2**63", "1e308*10", "0**-1", "1 << 70", "5 @ 3"),
        *("unknown", "name * 3", "name % 3", "-name", "'a' + 1", "1j", "b'x'", "...", "~1", "not 1", "1 < 2"),
        *("f''", "abs(1)", "known.real", "(1, 2)[0]", "{1}", "{}", "(x := 1)", "[x for x in (1,)]", "'a' 'b' * 2"),
    ],
)
def test_what_would_have_to_be_run_or_is_too_large(text: str) -> None:
    with pytest.raises(NotLiteralError):
        value_of(text)


def test_a_text_cannot_be_doubled_for_ever() -> None:
    known: dict[str, object] = {"x": "abcd" * 1000}
    with pytest.raises(NotLiteralError):
        evaluate(ast.parse("x + x", mode="eval").body, known)
