"""Comments appear among the lines of a log. Whatever its format, none of them is read as a line of it."""

from __future__ import annotations

import re

import pytest

from nanopace.live.last_words import Close
from nanopace.live.printer import PREFIX
from nanopace.sources.detect import Detector
from nanopace.sources.formats.registry import known_formats
from nanopace.sources.log_format import LogFormat

from .made_up import HEADER, Heard, rows


@pytest.fixture(scope="module")
def comments() -> list[str]:
    """Comments of every kind."""
    odd = rows(0, 80, took={30: 30_000.0, 40: 300.0}, losses={50: "nan", 60: "19.0"})
    heard = Heard(odd, rows(80, 140, ms=130.0), gpu="4090", silent_s=5.0)
    heard.wait(10)
    heard.lines(["Resuming training from out", *rows(100, 190)])
    heard.lines(["Traceback (most recent call last):", "CUDA out of memory."])
    heard.watcher.finish(Close(closed=True, left_out=7, path="train.log"))
    strange = Heard(header="")
    strange.watcher.finish(Close(closed=True))
    short = Heard(rows(0, 100), header=HEADER)
    short.watcher.finish(Close(closed=True))
    said = {re.sub(r"[\d.,]+", "N", text): text for text in [*heard.texts, *strange.texts, *short.texts]}
    assert len(said) > 20
    return [PREFIX + text for text in said.values()]


@pytest.mark.parametrize("format", known_formats(), ids=lambda format: format.name)
def test_no_format_has_such_a_line(format: LogFormat, comments: list[str]) -> None:
    for expression in filter(None, (format.row, format.header, format.row_start)):
        assert [line for line in comments if re.search(expression, line)] == []


def test_they_are_the_log_of_nobody(comments: list[str]) -> None:
    detector = Detector()
    detector.look_at("".join(f"{line}\n" for line in comments).encode())
    assert detector.format is None
