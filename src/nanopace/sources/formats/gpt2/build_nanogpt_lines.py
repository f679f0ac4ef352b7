"""The lines of build-nanogpt, and of the many programs typed from its video.

    step   250 | loss: 6.1000 | lr 2.1063e-04 | norm: 0.9000 | dt: 410.00ms | tok/sec: 1278751.22
    step 250 || loss: 6.1000 || norm: 0.9000 || elapsed_time: dt=410.0000ms || tok/sec: 1278751.22
    Step: 250, Loss: 6.1, time: 0.41 s
    step 250 | train loss 6.1000 | norm 0.9000 | 410.00ms | tok/sec 1278751

A row has a step, then a loss, and a time with its unit. The order and names of the other columns vary.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nanopace.sources.rates import printed_rate

_REAL = r"-?(?:\d{1,9}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?|nan|inf)"
_LONGEST_TAIL = 300  # characters of a row after its loss
_LONGEST_WORD = 16  # characters before its step

HEAD = re.compile(
    rf"""(?:(?<![\w-])|(?<=[^\W\d_])(?=step:\s\s))  # a sample may end without its line
    step\s{{0,8}}[:=\#]?\s{{0,8}}(?P<step>\d{{1,12}})(?P<total>\s{{0,4}}/\s{{0,4}}\d{{1,12}})?\s{{0,12}}
    (?P<mark>[|,]{{1,2}}|with\b)?\s{{0,12}}(?:train(?:ing)?[\s_]{{0,4}})?loss\s{{0,4}}
    (?P<colon>[:=])?\s{{0,12}}(?P<loss>{_REAL})(?![\w.])""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_NUMBER = r"(?P<time>\d{1,12}(?:\.\d{1,20})?)"
_TIME = re.compile(
    rf"(?<![A-Za-z])(?P<name>dt|(?:step|iter)?[\s_]{{0,2}}time(?:/step|\sper\sstep)?|took)[\s:=]{{0,8}}{_NUMBER}\s{{0,4}}"
    r"(?P<unit>ms|s(?:ecs?|econds)?)(?![A-Za-z/])",
    re.IGNORECASE | re.ASCII,
)
_BARE_TIME = re.compile(rf"[|,]\s{{0,8}}{_NUMBER}\s{{0,2}}(?P<unit>ms)(?![A-Za-z/])", re.IGNORECASE | re.ASCII)
_OTHER_TIME = re.compile(
    r"(?i:total|train|elapsed|eta|remaining|wall|eval|val)[\s_]{0,2}$"
)  # before the word: not of a step
_REWARD = re.compile(r"\breward", re.IGNORECASE)  # of reinforcement learning, by another trainer
_PER_SECOND = r"tok(?:en)?s?[\s_]{0,2}(?:/|per|-)[\s_]{0,2}s(?:ec(?:ond)?)?"
_TOKENS = r"(?P<rate>\d[\d,]{0,20}(?:\.\d{1,20})?)\s?(?P<thousands>[km](?![a-z]))?"
_VALUE = r"\s{0,2}[:=]?\s{0,4}"  # between a name and its value
_RATE = re.compile(rf"{_PER_SECOND}{_VALUE}{_TOKENS}", re.IGNORECASE | re.ASCII)
_RATE_AND_UNIT = re.compile(
    rf"(?<![\d.,]){_TOKENS}\s{{0,2}}{_PER_SECOND}(?![\w/]|{_VALUE}\d)", re.IGNORECASE | re.ASCII
)
_MFU = re.compile(r"\bmfu[\s:=]{0,4}(\d{1,3}(?:\.\d{1,6})?)\s?%", re.IGNORECASE | re.ASCII)
_VALIDATION = r"(?:val(?:idation)?|test|eval(?:uation)?)"
_VAL_IN_ROW = re.compile(rf"{_VALIDATION}[\s_]loss{_VALUE}({_REAL})(?![\w.])", re.IGNORECASE | re.ASCII)
# Before a step: no row of training.
_OF_VALIDATION = re.compile(rf"\b{_VALIDATION}\W{{1,4}}$", re.IGNORECASE | re.ASCII)
_LINE_START = r"[^A-Za-z]{0,48}(?:(?:INFO|DEBUG|root|main)\b[^A-Za-z]{0,24}){0,3}"
_STEP = r"step\W{0,8}(?P<step>\d{1,12})(?:\s{0,4}/\s{0,4}\d{1,12})?\W{1,6}"
# "validation loss: 6.1", "step 250 | val loss 6.1", "val: step: 250 | loss: 6.1": the word comes first or just before
# the loss. The complete line must match, so that prose about a loss does not.
EVALUATION = re.compile(
    rf"""{_LINE_START}(?P<of_validation>{_VALIDATION}\W{{1,4}})?
    (?:{_STEP}(?:train(?:ing)?[\s_]loss\W{{0,3}}(?P<train>{_REAL})\W{{1,6}})?)?
    (?:final\s)?(?:{_VALIDATION}[\s_|:/]{{1,3}}|(?(of_validation)|(?!)))loss{_VALUE}
    (?P<val>{_REAL})\s{{0,80}}(?:[|,(].{{0,400}})?""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
# "HellaSwag accuracy: 2510/10042=0.25" anywhere; without the fraction only as a line, or a column, of its own.
HELLASWAG = re.compile(
    rf"""(?:(?P<apart>^{_LINE_START}(?:{_STEP})?|[|,;]\s{{0,4}})|\b)
    hellaswag(?:[\s_|:]{{1,3}}acc(?:uracy)?(?:_norm)?)?{_VALUE}
    (?:\d{{1,9}}\s?/\s?\d{{1,9}}\s{{0,2}}=\s{{0,2}}|(?(apart)|(?!)))
    (?P<score>\d{{1,3}}\.\d{{1,9}})\s?(?P<percent>%)?(?(apart)\s{{0,80}}(?:$|[|,;(]))""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
SAMPLE = re.compile(r"\brank (\d{1,4}) sample \d{1,4}:", re.ASCII)
CHECKPOINT = re.compile(
    r"\W{0,8}(?:sav(?:ing|ed)|wrote|writing)\s(?:(?:the|a|model)\s){0,2}checkpoint\b"
    r"(?:.{0,60}?(?P<path>[^\s'\"]{1,300}\.(?:pth?|bin|safetensors)))?",
    re.IGNORECASE | re.ASCII,
)
STEP_OF_PATH = re.compile(r"_0{0,8}(\d{1,12})\.\w{2,12}$", re.ASCII)

BATCH = re.compile(r"total desired batch size:?\s{0,4}(\d[\d,]{0,20})", re.IGNORECASE | re.ASCII)
ACCUMULATION = re.compile(
    r"\bgrad(?:ient)?[\s_]accum(?:ulation)?[\s_]steps:?\s{0,4}(\d{1,9})\b", re.IGNORECASE | re.ASCII
)
DEVICE = re.compile(r"\busing device: (cuda|mps|cpu)(:\d{1,3})?(?![\w:])", re.IGNORECASE | re.ASCII)
STARTS = re.compile(
    r"\bloaded \d{1,15} tokens|\bfound \d{1,9} shards for (?:the )?split train", re.IGNORECASE | re.ASCII
)
RESUMES = re.compile(r"\b(?:loaded|resum(?:ed|ing)|loading)\b.{0,40}\bcheckpoint\b", re.IGNORECASE | re.ASCII)
# What a terminal may have wrapped.
OPENS = re.compile(r"(?<![\w-])step\s{0,8}[:=#]?\s{0,8}\d{1,12}\s{0,12}[|,]", re.IGNORECASE | re.ASCII)


class Printed(NamedTuple):
    """A row as printed. `unit_ms`: milliseconds per unit of its time."""

    start: int
    step: int
    loss: float
    time: str
    unit_ms: float
    rate: str
    rate_unit: float
    mfu: float | None
    val: float | None
    learning_rate: float | None

    @property
    def ms(self) -> float:
        return float(self.time) * self.unit_ms


def read_row(text: str) -> Printed | None:
    """The first row in a line."""
    at = 0
    while (head := HEAD.search(text, at)) is not None:
        at = head.end()
        # llm.c has a total and no colon, modded-nanogpt a total and no mark; without either, it may be any sentence.
        if not (head["colon"] and head["mark"]) and (head["total"] or not (head["colon"] or head["mark"])):
            continue
        if _OF_VALIDATION.search(text, max(0, head.start() - _LONGEST_WORD), head.start()):
            continue
        following = HEAD.search(text, at, at + _LONGEST_TAIL)
        stop = following.start() if following else min(len(text), at + _LONGEST_TAIL)
        if (time := _time_in(text, at, stop)) is None or _REWARD.search(text, at, stop):
            continue
        rate = _RATE.search(text, at, stop) or _RATE_AND_UNIT.search(text, at, stop)
        mfu = _MFU.search(text, at, stop)
        val = _VAL_IN_ROW.search(text, at, stop)
        return Printed(
            start=head.start(),
            step=int(head["step"]),
            loss=float(head["loss"]),
            time=time["time"],
            unit_ms=1.0 if time["unit"].lower() == "ms" else 1000.0,
            rate=rate["rate"] if rate else "",
            rate_unit={"k": 1e3, "m": 1e6}.get((rate["thousands"] or "").lower(), 1.0) if rate else 1.0,
            mfu=float(mfu[1]) / 100 if mfu else None,
            val=float(val[1]) if val else None,
            learning_rate=printed_rate(text[at:stop]),
        )
    return None


def _time_in(text: str, start: int, stop: int) -> re.Match[str] | None:
    for found in _TIME.finditer(text, start, stop):
        named = found["name"].lower() != "dt" and _OTHER_TIME.search(
            text, max(start, found.start() - 20), found.start()
        )
        if not named:
            return found
    return _BARE_TIME.search(text, start, stop)
