"""The lines that nanoGPT prints, in every era: the kind of a line, its values, and whether it is complete.

Terminals wrap lines anywhere, and a log may stop anywhere. So it is not enough that a line can be read: `time 39` may
be the start of `time 3909.80ms`. A line is `complete` if nothing that follows could change its values.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from nanopace.sources.processes.died import ENDING

Kind = Literal[
    "row", "evaluation", "saving",
    "config", "override", "tokens", "parameters", "groups", "vocabulary",
    "scratch", "pretrained", "forcing", "resuming", "compiling",
    "traceback", "memory", "interrupt",
]  # fmt: skip

HEADER: frozenset[Kind] = frozenset(
    ("config", "override", "tokens", "parameters", "groups", "vocabulary", "scratch", "pretrained", "resuming")
)

_LOSS = r"-?(\d{1,9}\.\d{1,12}(?:[eE][+-]?\d{1,3})?|nan|inf)"
_UNIT = r"(?:\s*((?i:bpc|bits?\s?(?:/|per\s)\s?char(?:acter)?))\b)?"  # nats have no unit
_ITER, _STEP = r"[iI]ter(?:ation)?\s*", r"[sS]tep\s*"
_NUMBER = r"(?:\s*/\s*\d{1,12})?\s*[:|]\s*"  # after an iteration: some print the total, too
_NUMBER_OF_BOTH = r"(?:\s*/\s*\d{1,12})?\s*(?:[:|]|[,;](?=\s*[tT]rain))\s*"  # some print a comma before two losses
_ROW = re.compile(rf"{_ITER}(\d{{1,12}}){_NUMBER}(?:train(?:ing)?[\s_]*)?loss[\s:=]{{0,40}}{_LOSS}{_UNIT}")
_EVALUATION = re.compile(
    rf"(?:{_STEP}|{_ITER})(\d{{1,12}}){_NUMBER_OF_BOTH}(?:[tT]rain(?:ing)?[\s_]*(?:[lL]oss)?[\s:=]{{0,40}}{_LOSS}{_UNIT})?"
)
# Nearly every row has this form, which is parsed five times as fast.
_PLAIN_ROW = re.compile(
    rf"iter (\d{{1,12}}): loss {_LOSS}, time (\d{{1,12}}\.\d{{1,6}})ms, mfu (-?\d{{1,9}}\.\d{{1,6}})%"
)
# Their figures follow in any order, with anything between them, but before the next of them begins.
_NEXT = re.compile(rf"(?:{_ITER}|{_STEP})\d{{1,12}}{_NUMBER}")
_LONGEST_TAIL = 300
_VAL = re.compile(rf"(?<![A-Za-z])[vV]al(?:id(?:ation)?)?[\s_/]*(?:[lL]oss)?[\s:=]{{0,40}}{_LOSS}{_UNIT}")
_TIME = re.compile(
    r"(?<![\w.])(?:(?:step|iter)[ _])?(?:time|dt)(?:/(?:iter|step))?\s*[:=]?\s*(\d{1,12}(?:\.\d{1,6})?)\s*"
    r"(ms|s|secs?|seconds)(?![A-Za-z])"
)
_OTHER_TIME = re.compile(  # what precedes a time that is not the iteration's
    r"(?:total|elapsed|wall|remaining|eval|val|data|load\w{0,3}|forward|backward|fwd|bwd|optimizer|sync|train)[\s_]*$"
)
_LIKE_TIME = re.compile(r"(?i:time|elapsed|\bdt\b|/s\b|\d\s?(?:ms|s|sec|seconds|min)\b|\d:\d\d)")
_MFU = re.compile(r"mfu\s*[:=]?\s*(-?\d{1,9}\.\d{1,6}|nan)\s*%")
_MFU_BEGUN = re.compile(r"\s*(?:,\s*(?:m|mf|mfu\s*-?[\d.]*)?)?\s*")
_TOKENS = re.compile(
    r"(?<![\d.])(\d[\d,]{0,14}(?:\.\d{1,6})?)\s*(k?)\s*tok(?:ens?)?\s?/\s?s"
    r"|tok(?:ens?)?(?:\s?/\s?|_per_)s(?:ec(?:ond)?)?\s*[:=]?\s*(\d[\d,]{0,14}(?:\.\d{1,6})?)\s*(k?)",
    re.IGNORECASE,
)
_LIKE_EVALUATION = re.compile(r"[sS]tep\s*\d{1,12}(?:/\d{1,12})?\s*[:|,-].{0,200}?loss\D{0,12}\d{1,9}\.\d")
_MENTIONS_VALIDATION = re.compile(
    r"(?<![A-Za-z_])(?:[vV]al(?:id(?:ation)?)?|[eE]val(?:uation)?)(?![A-Za-z]).{0,80}?(?<![\d.])\d{1,2}\.\d{2,12}(?![\d.%])"
)
# A single alternation: the outer group that matched is the kind.
_OTHER = re.compile(
    r"(?P<saving>(?:[Ss]av(?:ing|ed)|[Ww]riting|[Ww]rote) (?:\w{1,12} ){0,2}(?:checkpoint|model)(?: file)?"
    r"(?: to| at| in|:)\s*(\S.*))"
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
# A word from each of them: an alternation of plain words is searched ten times as fast.
_WORD = re.compile(
    r"checkpoint|model |Overriding|iteration|parameter|vocab_size|default|Initializing|Resuming|compiling"
    r"|OutOfMemoryError|CUDA|KeyboardInterrupt|\^C|Traceback|Killed|Segmentation"
)
# How a row, an evaluation and the parameter groups begin: a terminal may have wrapped such a line.
_BEGUN = re.compile(rf"(?:{_ITER}\d|{_STEP}\d{{1,12}}(?:$|\s?[:|]\s*(?:$|[tv]))|num\s*(?:non-)?decayed)")
_LONGEST_PREFIX = 2000  # before a row: time stamps, ranks, a progress bar


class Line(NamedTuple):
    """A recognised line."""

    kind: Kind
    values: tuple[str, ...]  # of rows and evaluations as below, "" if missing; of other lines what they contain
    end: int  # end of what was recognised; more may follow
    complete: bool
    start: int = 0


def read_line(text: str) -> Line | None:
    """The first thing in this text that nanoGPT or a fork of it prints; None if there is none."""
    if (plain := _PLAIN_ROW.fullmatch(text)) is not None:
        return Line("row", (*plain.groups(), "", "", ""), plain.end(), True)
    if "ter" in text and (row := read_row(text)) is not None:
        return row if "#" not in _before(text, row.start) else None
    if ("tep" in text or "ter" in text) and "al" in text and (evaluation := _read_evaluation(text)) is not None:
        return evaluation if "#" not in _before(text, evaluation.start) else None
    if _WORD.search(text) and (found := _OTHER.search(text)) and "#" not in _before(text, found.start()):
        kind: Kind = found.lastgroup  # type: ignore[assignment]
        values = tuple(value for value in found.groups() if value is not None)[1:]
        return Line(kind, values, found.end(), True, found.start())
    return None


def read_row(text: str) -> Line | None:
    """A row: iteration, loss, milliseconds, mfu in percent, unit of the loss, tokens per second, other columns."""
    at = 0
    while (head := _ROW.search(text, at)) is not None:
        at = head.end()
        stop = _end_of_tail(text, at)
        time = _time_in(text, at, stop)
        if time is None:
            continue
        mfu, tokens = _MFU.search(text, at, stop), _TOKENS.search(text, at, stop)
        others = text[at : time.start()].strip(" ,") or (text[time.end() : stop].strip() and mfu is None)
        values = (
            head[1],
            head[2],
            time[1] if time[2] == "ms" else str(1000 * float(time[1])),
            mfu[1] if mfu else "",
            head[3] or "",
            _tokens(tokens) if tokens else "",
            "other" if others else "",
        )
        end = max(time.end(), mfu.end() if mfu else 0)
        # Without mfu, it may be from nanoGPT's first weeks, or the line was wrapped there.
        return Line("row", values, end, mfu is not None or not _MFU_BEGUN.fullmatch(text, end), head.start())
    return None


def read_untimed_row(text: str) -> tuple[int, str] | None:
    """Iteration and loss of a row on which nothing looks like a time."""
    head = _ROW.search(text) if "ter" in text else None
    if head is None or shows_time(text, head.start(), head.end()) or "#" in _before(text, head.start()):
        return None
    return int(head[1]), head[2]


def shows_time(text: str, start: int, end: int) -> bool:
    """Whether what stands there, or behind it, may be a time, in whatever words."""
    return _LIKE_TIME.search(text, start, end + _LONGEST_TAIL) is not None


def _read_evaluation(text: str) -> Line | None:
    """An evaluation: iteration, train loss, validation loss, unit of the losses."""
    at = 0
    while (head := _EVALUATION.search(text, at)) is not None:
        at = head.end()
        val = _VAL.search(text, at, _end_of_tail(text, at))
        if val is None:
            continue
        value, end = val[1], val.end()
        complete = value in ("nan", "inf") or len(value.partition(".")[2]) >= 4 or end < len(text)
        return Line("evaluation", (head[1], head[2] or "", value, val[2] or head[3] or ""), end, complete, head.start())
    return None


def _end_of_tail(text: str, start: int) -> int:
    following = _NEXT.search(text, start, start + _LONGEST_TAIL)
    return following.start() if following else min(len(text), start + _LONGEST_TAIL)


def _time_in(text: str, start: int, stop: int) -> re.Match[str] | None:
    for found in _TIME.finditer(text, start, stop):
        if not _OTHER_TIME.search(text, max(start, found.start() - 20), found.start()):
            return found
    return None


def _tokens(found: re.Match[str]) -> str:
    number, thousands = (found[1], found[2]) if found[1] else (found[3], found[4])
    return str(float(number.replace(",", "")) * (1000 if thousands else 1))


def begins_line(text: str) -> bool:
    """Whether this may be the start of a line that a terminal has wrapped."""
    return len(text) < _LONGEST_PREFIX and _BEGUN.search(text) is not None


def like_evaluation(text: str) -> bool:
    """Whether this would be an evaluation if it could be read."""
    return "tep" in text and "loss" in text and _LIKE_EVALUATION.search(text) is not None


def mentions_validation(text: str) -> bool:
    """Whether this may be an evaluation in other words. If others can be read, it is a remark about one of them."""
    return "val" in text and len(text) < _LONGEST_TAIL and _MENTIONS_VALIDATION.search(text) is not None


def _before(text: str, start: int) -> str:
    """The text before it: an echoed config may have anything in its comments."""
    return text[max(0, start - _LONGEST_PREFIX) : start] if start else ""
