"""Which trainer wrote this log? Told from its first lines; a reader is imported only when its format is found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from nanopace.run import Format

if TYPE_CHECKING:
    from nanopace.sources.build import LineReader, RunBuilder

SNIFF_BYTES = 256 * 1024  # long headers (pip, warnings, a config) fit in front of the first row

# What only one trainer prints. A row is proof; a header line is a strong hint, used where no row is in sight.
_ROW = re.compile(
    r"""(?P<nanopace>iter \d+: loss \S{1,24}, time [\d.]+ms, mfu (?:[\d.]+%|n/a), \d+ tok/s, )"""
    r"""|(?P<nanogpt>iter\s*\d+\s*:\s*loss\s*(?:\d+\.\d+|nan|inf)\s*,[^:]{0,80}?time\s*\d+\.\d+\s*ms)"""
    r"""|(?P<nanochat>step\s*\d+(?:/\d+)?\s[^|]{0,20}\|\s*loss:)"""
    r"""|(?P<ledger>^\s*\{\s*"event"\s*:\s*"run")"""
)
_HINT = re.compile(
    r"""(?P<nanopace>^\s*nanopace \d\S{0,40} train: )"""
    r"""|(?P<nanogpt>step\s*\d+:\s*train\s+loss\s|number\s+of\s+parameters:\s*[\d.]+M|tokens\s+per\s+iteration\s+will)"""
    r"""|(?P<nanochat>Step\s*\d+\s*\|\s*(?:Validation|CORE)|Estimated\s+FLOPs\s+per\s+token|Tokens\s*/\s*micro-batch)"""
)
_WORDS = ("iter", "step", "Step", "event", "parameters:", "FLOPs", "micro-batch", "nanopace")  # one is in each of them


def detect(lines: Iterable[str]) -> Format | None:
    """The format of these lines, which are cleaned of terminal debris; None if it is none that we know.

    Neighbouring lines are looked at together, since a terminal may have broken a row anywhere.
    """
    hint: Format | None = None
    for text in _with_neighbours(lines):
        if found := _ROW.search(text):
            name = _name(found)
            return "nanopace" if name == "nanogpt" and hint == "nanopace" else name  # ours are nanoGPT's, and longer
        if hint is None and (found := _HINT.search(text)):
            hint = _name(found)
    return hint


def has_row(lines: Iterable[str]) -> bool:
    """Whether a log of any format that we know is here: not only what may be the header of one."""
    return any(_ROW.search(text) for text in _with_neighbours(lines))


def _with_neighbours(lines: Iterable[str]) -> Iterator[str]:
    """Each line, and each joined with the two before it, as far as they are worth a closer look."""
    second, first = "", ""
    for line in lines:
        joined = second + first + line
        if any(word in joined for word in _WORDS):
            yield line
            yield joined
        second, first = first, line[-400:]


def _name(found: re.Match[str]) -> Format:
    """The group that matched is named like the format."""
    return found.lastgroup  # type: ignore[return-value]


def reader_for(format: Format, builder: RunBuilder, width: int = 0) -> LineReader:
    """The reader of a format; `width` is that of the terminal which broke the log's lines, where that is known."""
    if format == "nanochat":
        from nanopace.sources.nanochat import NanochatReader

        return NanochatReader(builder)
    if format == "nanopace":
        from nanopace.sources.nanopace_log import NanopaceReader

        return NanopaceReader(builder, width)
    if format == "ledger":
        from nanopace.sources.from_ledger import LedgerReader

        return LedgerReader(builder)
    from nanopace.sources.nanogpt import NanogptReader

    return NanogptReader(builder, width)
