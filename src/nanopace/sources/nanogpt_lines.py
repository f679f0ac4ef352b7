"""The lines that nanoGPT prints, in every era: which kind a line is, what it says, and whether it is surely whole.

A terminal breaks lines anywhere, a log may stop anywhere. So it is not enough that a line can be read: `time 39` may be
the beginning of `time 3909.80ms`. A line is `sure` if nothing could follow that would change what it says.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from nanopace.sources.process import ENDING

Kind = Literal[
    "row", "evaluation", "saving",
    "config", "override", "tokens", "parameters", "groups", "vocabulary",
    "scratch", "pretrained", "forcing", "resuming", "compiling",
    "traceback", "memory", "interrupt",
]  # fmt: skip

HEADER: frozenset[Kind] = frozenset(
    ("config", "override", "tokens", "parameters", "groups", "vocabulary", "scratch", "pretrained", "resuming")
)

_LOSS = r"(\d{1,9}\.\d{1,12}|nan|inf)"
_ROW = re.compile(
    rf"iter\s*(\d{{1,12}})\s*:\s*loss\s*-?{_LOSS}\s*,[^:]{{0,80}}?time\s*(\d{{1,12}}\.\d{{1,6}})\s*ms"
    rf"(?:\s*,\s*mfu\s*(-?\d{{1,9}}\.\d{{1,6}}|nan)\s*%)?"
)
_MFU_BEGUN = re.compile(r"\s*(?:,\s*(?:m|mf|mfu\s*-?[\d.]*)?)?\s*")
_EVALUATION = re.compile(rf"step\s*(\d{{1,12}})\s*:\s*train\s*loss\s*{_LOSS}\s*,\s*val\s*loss\s*{_LOSS}")
# One alternation: the outer group that matched is the kind.
_OTHER = re.compile(
    r"(?P<saving>saving checkpoint to\s*(\S.*))"
    r"|(?P<config>Overriding config with\s)"
    r"|(?P<override>Overriding: (\w{1,60}) = (.*))"
    r"|(?P<tokens>tokens per iteration(?: will be)?:\s*(\d[\d,]{0,20}))"
    r"|(?P<parameters>number of parameters:\s*(\d{1,9}\.\d\d)\s*M)"
    r"|(?P<groups>num\s*(non-)?decayed\s*parameter\s*tensors:\s*(\d{1,6}),\s*with\s*(\d[\d,]{0,20})\s*parameters)"
    r"|(?P<vocabulary>defaulting\s*to\s*vocab_size\s*of\s*GPT-2\s*to\s*(\d{1,9})\s*\("
    r"|vocab_size\s*=\s*(\d{1,9})\s*\((?:inside|from)"
    r"|using\s*GPT-2\s*default\s*of\s*(\d{1,9})(?:\s*\(rounded\s*up\s*to\s*(\d{1,9}))?)"
    r"|(?P<scratch>Initializing a new model from scratch)"
    r"|(?P<pretrained>Initializing from OpenAI GPT-2 weights:\s*(gpt2[\w-]*))"
    r"|(?P<forcing>forcing vocab_size=(\d{1,9}), block_size=(\d{1,9}), bias=(True|False))"
    r"|(?P<resuming>Resuming training from\s)"
    r"|(?P<compiling>compiling the model\.\.\.)"
    rf"|{ENDING}"
)
# A word of each of them: an alternation of plain words is searched ten times as fast.
_WORD = re.compile(
    r"checkpoint|Overriding|iteration|parameter|vocab_size|default|Initializing|Resuming|compiling"
    r"|OutOfMemoryError|CUDA|KeyboardInterrupt|\^C|Traceback|Killed|Segmentation"
)
# How a row, an evaluation and the parameter groups begin: a line like this may have been broken by a terminal.
_BEGUN = re.compile(r"(?:iter\s*\d|step\s*\d{1,12}(?:$|:\s*(?:$|t))|num\s*(?:non-)?decayed)")
_LONGEST_PREFIX = 2000  # what stands before a row: time stamps, ranks, a progress bar


class Line(NamedTuple):
    """One line that was recognised."""

    kind: Kind
    values: tuple[str, ...]  # of a row and an evaluation: each field, "" where there is none; of others what they say
    end: int  # of what was recognised; more may follow
    sure: bool


def read_line(text: str) -> Line | None:
    """What the first thing in this text is that nanoGPT prints; None if it is nothing known."""
    if "iter" in text and (found := _ROW.search(text)):
        if _in_comment(found):
            return None
        end = found.end()
        # Without mfu it may be one of the first weeks of nanoGPT, or the line was broken there.
        return Line("row", found.groups(""), end, found[4] is not None or not _MFU_BEGUN.fullmatch(text, end))
    if "step" in text and (found := _EVALUATION.search(text)):
        if _in_comment(found):
            return None
        value, end = found[3], found.end()
        sure = value in ("nan", "inf") or len(value.partition(".")[2]) >= 4 or end < len(text)
        return Line("evaluation", found.groups(), end, sure)
    if _WORD.search(text) and (found := _OTHER.search(text)) and not _in_comment(found):
        kind: Kind = found.lastgroup  # type: ignore[assignment]
        return Line(kind, tuple(value for value in found.groups() if value is not None)[1:], found.end(), True)
    return None


def begins_line(text: str) -> bool:
    """Whether this may be the beginning of a line that a terminal broke."""
    return len(text) < _LONGEST_PREFIX and _BEGUN.search(text) is not None


def _in_comment(found: re.Match[str]) -> bool:
    """A config that is echoed may speak of anything behind a #."""
    return "#" in found.string[max(0, found.start() - _LONGEST_PREFIX) : found.start()]
