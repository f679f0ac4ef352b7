"""How a trial failed, in words."""

from __future__ import annotations

from nanopace.wording.catalog import UNKNOWN, Words


def failure(code: str, words: Words) -> str:
    said = {"memory": words.text("out of memory"), "time": words.text("out of time"), "error": words.text("failed")}
    return said.get(code, UNKNOWN)
