"""Arithmetic as Python does it, within bounds, and nothing else."""

from __future__ import annotations

import ast
import contextlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.literals import UNKNOWN, Evaluator, NotLiteralError, evaluate

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
    return evaluate(ast.parse(text, mode="eval").body, {"known": 3, "name": "text", "hidden": int, "print": UNKNOWN})


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


NAMES = {"known": 3, "name": "text", "true": True, "part": 0.125}
OPERATORS = st.sampled_from(["+", "*", "//", "<", "==", "!=", ">=", "and", "or"])
FORMATS = st.sampled_from(["", ".2f", "05d", ">9", ".1e", "x", "+,", "{known}"])
ANYTHING = st.recursive(
    st.one_of(NUMBERS, st.sampled_from([*NAMES, "True", "None", "'a'", "''", "'7'", "(1, 2)"])),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, OPERATORS, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
        st.builds("({} < {} <= {})".format, inner, inner, inner),
        st.builds("(not {})".format, inner),
        st.builds("{}({})".format, st.sampled_from(["int", "float", "str", "round", "len"]), inner),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max", "round"]), inner, inner),
        st.builds('f"{{{}}}-{{{}!r}}"'.format, inner, inner),
        st.builds('f"{{{}:{}}}"'.format, inner, FORMATS),
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(ANYTHING)
def test_what_is_known_is_what_python_would_have(text: str) -> None:
    """A value may be given up, since lists cannot be compared here; but it is never wrong."""
    try:
        tree = ast.parse(text, mode="eval").body
        found = evaluate(tree, NAMES)
    except (NotLiteralError, SyntaxError):  # quotes inside quotes, before Python 3.12
        return
    expected = eval(text, {}, dict(NAMES))  # noqa: S307  # our own sums
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("known * 2", 6),
        ("name + '!'", "text!"),
        ("None", None),
        ("[1, (2, known)]", (1, (2, 3))),
        ("+True", 1),
        ("1**99", 1),
        ("int('8') + int(2.9) + int(True)", 11),
        ("float('1e-3')", 1e-3),
        ("str(known) + str(2.50) + str(None)", "32.5None"),
        ("round(2.567, 1) + round(7.5)", 10.6),
        ("min(4, known, 2.5)", 2.5),
        ("max(4, known)", 4),
        ("len(name) + len((1, 2))", 6),
        ("f''", ""),
        ("f'{name}-{known}x{known:03d}'", "text-3x003"),
        ("f'lr{1e-3:.0e}_{known / 7:.2f}_{name!r:>8}_{known:{known}d}'", "lr1e-03_0.43_  'text'_  3"),
        ("f'{name:*^{known * 3}}'", "**text***"),
        ("not known", False),
        ("1 < known <= 3", True),
        ("known == 3 != 4", True),
        ("name == 'text' and known > 5", False),
        ("0 or name", "text"),
        ("0 and unknown", 0),
        ("1 or unknown", 1),
        ("'a' if known > 5 else 'b'", "b"),
        ("1 if True else unknown", 1),
    ],
)
def test_names_texts_and_rows(text: str, value: object) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("9**9**9", "2**64", "(-2)**63.5", "2**63", "1e308*10", "0**-1", "1 << 70", "5 @ 3"),
        *("unknown", "name * 3", "name % 3", "-name", "'a' + 1", "1j", "b'x'", "...", "~1", "1 in (1,)", "1 is 1"),
        *("abs(1)", "int('x')", "int()", "int(1e300)", "float('inf')", "float((1,))", "str((1,))", "round(1.5, 10**9)"),
        *("max((1, 2))", "max(1)", "max(1, name)", "len(3)", "int(x=1)", "hidden(1)", "int(*(1,))", "print(1)"),
        *("f'{unknown}'", "f'{(1,)}'", "f'{1:9999}'", "f'{known:.100f}'", "f'{name:d}'", "f'{1:{name}}'"),
        *("1 < name", "(1,) == (1,)", "1 if unknown else 2", "unknown and 0", "0 or unknown"),
        *("known.real", "(1, 2)[0]", "{1}", "{}", "(x := 1)", "[x for x in (1,)]", "'a' 'b' * 2"),
    ],
)
def test_what_would_have_to_be_run_or_is_too_large(text: str) -> None:
    with pytest.raises(NotLiteralError):
        value_of(text)


def test_a_text_cannot_be_doubled_for_ever() -> None:
    known: dict[str, object] = {"x": "abcd" * 1000}
    with pytest.raises(NotLiteralError):
        evaluate(ast.parse("x + x", mode="eval").body, known)


def test_a_name_of_the_file_hides_a_function() -> None:
    with pytest.raises(NotLiteralError):
        evaluate(ast.parse("min(1, 2)", mode="eval").body, {"min": UNKNOWN})


def test_all_the_text_that_is_made_is_bounded() -> None:
    """A text of 4096 letters, built in every line, would fill memory a thousand times faster than it is written."""
    known: dict[str, object] = {"x": "a" * 4000}
    evaluator = Evaluator(known)
    made = 0
    for number in range(1000):
        with contextlib.suppress(NotLiteralError):
            made += len(str(evaluator.value(ast.parse(f"f'{{x}}{number}'", mode="eval").body)))
    assert 100_000 < made <= 1 << 20
    assert evaluator.value(ast.parse("1 + 1", mode="eval").body) == 2


def test_a_long_f_string_is_given_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    plain = Evaluator.value

    def value(self: Evaluator, node: ast.expr, depth: int = 0) -> object:
        asked.append(node)
        return plain(self, node, depth)

    monkeypatch.setattr(Evaluator, "value", value)
    with pytest.raises(NotLiteralError):
        evaluate(ast.parse("f'" + "{x}" * 900 + "'", mode="eval").body, {"x": "a" * 1000})
    assert len(asked) < 20
