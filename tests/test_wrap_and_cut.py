"""What a terminal or a full disk does to a log does not change what is said about the remaining rows."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace import NanopaceError, diagnose, open_runs, render

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
LOGS = ("slow-rows.log", "narrow.log", "wide-header.log")

pytestmark = pytest.mark.usefixtures("untraced")  # the same three logs, hundreds of times


@cache
def log(name: str) -> bytes:
    return (EXAMPLES / name).read_bytes()


def explained(data: bytes) -> str | None:
    """The complete Diagnosis as text, or None if no row is left."""
    try:
        runs = open_runs(io.BytesIO(data))
    except NanopaceError:
        return None
    return render([diagnose(run) for run in runs], format="json")


@cache
def explained_whole(name: str) -> str | None:
    return explained(log(name))


def wrapped(data: bytes, width: int) -> bytes:
    lines = data.decode().split("\n")
    return "\n".join(line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)).encode()


@pytest.mark.parametrize(
    ("name", "width"), [(name, width) for name in LOGS for width in range(31, max(map(len, log(name).splitlines())))]
)
def test_wrapping_changes_nothing(name: str, width: int) -> None:
    assert explained(wrapped(log(name), width)) == explained_whole(name)


@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_cutting_leaves_the_whole_rows(name: str, data: st.DataObject) -> None:
    text = log(name)
    cut = data.draw(st.integers(min_value=0, max_value=len(text)), label="cut")
    start = text.rfind(b"\n", 0, cut) + 1
    whole = text[:start]
    # A row or an evaluation has a fixed number of decimals: it is complete if it lacks only its newline.
    if text[cut : cut + 1] == b"\n" and text[start:cut].startswith((b"iter ", b"step ")):
        whole = text[: cut + 1]
    assert explained(text[:cut]) == explained(whole)


def test_every_cut_through_one_row() -> None:
    text = log("slow-rows.log")
    start = text.index(b"iter 1000:")
    end = text.index(b"\n", start)
    before = explained(text[:start])
    assert all(explained(text[:cut]) == before for cut in range(start, end))
    assert explained(text[:end]) == explained(text[: end + 1]) != before
