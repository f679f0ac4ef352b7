"""The rows that modded-nanogpt and parameter-golf print, in all forms.

step:250/6200 train_loss:4.4653 train_time:51849ms step_avg:216.04ms     October to December 2024; parameter-golf
step:250/1770 train_time:24037ms step_avg:96.15ms                         since December 2024
step:250/1770 val_loss:4.1116 train_time:24131ms step_avg:96.53ms         an evaluation, in all of them
step:250/3350 val_loss:4.10812 train_time:39.812s step_avg:154.91ms       track 3, with more fields after it
step:200/20000 val_loss:2.0598 val_bpb:1.2199 train_time:600061ms         parameter-golf
500/20000 train_loss: 3.3363 train_time: 0.8m tok/s: 7727074              parameter-golf since April 2026
4000/20000 val_loss: 2.9184 val_bpb: 1.1298
"""

from __future__ import annotations

import re
from typing import NamedTuple

from nanopace.sources.printed_numbers import nan_as_inf

_ROW = re.compile(r"(?<!\w)step:(\d{1,12})/(\d{1,12}) (.{1,600})")
_GOLF_ROW = re.compile(r"(?:^|(?<=\s))(\d{1,12})/(\d{1,12}) ((?:train|val)_loss: .{1,400})")
_FIELD = re.compile(r"(?<!\S)([a-z_]{1,24}(?:/s)?): ?([^\s\[\]]{1,32})")
_TIME = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(ms|s|m)")
_NUMBER = re.compile(r"-?\d{1,9}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,3})?|nan|inf|-inf")
_RATE = re.compile(r"\d{1,12}")
_MS = {"ms": 1.0, "s": 1000.0}
_COMPLETE = re.compile(r"(?<!\S)(?:train_time|t):\d[\d.]{0,25}m?s(?:\s|$)")
_MINUTES_OFF = 0.06  # the printed minutes have one decimal

STOPPED = re.compile(r"^(?:\d[\d.]{0,20} )?stopping_early: wallclock_cap train_time: ?(\d{1,15})ms")
LAYERS_REPEATED = re.compile(
    r"^(?:\d[\d.]{0,20} )?(?:layer_loop: ?(?:enabled|phase\d{1,2})|(?:depth_)?recurrence: ?activated)(?: at)? step:? ?"
    r"(\d{1,12})(?!\d)"
)
STOPPED_AT = re.compile(r" step: ?(\d{1,12})/\d{1,12}")


class Printed(NamedTuple):
    """One line: a step and its figures."""

    step: int
    of: int  # total steps
    at_ms: float | None  # the running clock; None if the line has no time
    loss: float | None
    is_evaluation: bool
    bits_per_byte: float | None = None


def read_row(line: str, tokens: int = 0) -> Printed | None:
    """The row in a line. If the `tokens` of a step are known, a rate is more exact than tenths of minutes."""
    if "step:" in line and (found := _ROW.search(line)):
        fields = dict(_FIELD.findall(found[3]))
        at_ms = _time(fields.get("train_time") or fields.get("t", ""))
        if at_ms is None:
            return None
    elif "_loss: " in line and (found := _GOLF_ROW.search(line)):
        fields = dict(_FIELD.findall(found[3]))
        at_ms = _time_of_rate(int(found[1]), tokens, fields)
    else:
        return None
    val = _number(fields.get("val_loss"))
    loss = val if val is not None else _number(fields.get("train_loss") or fields.get("loss"))
    return Printed(int(found[1]), int(found[2]), at_ms, loss, val is not None, _number(fields.get("val_bpb")))


def is_complete(line: str) -> bool:
    """Whether a line without its end has everything needed: a time with its unit."""
    return _COMPLETE.search(line) is not None


def _time(text: str) -> float | None:
    found = _TIME.fullmatch(text)
    return float(found[1]) * _MS[found[2]] if found is not None and found[2] in _MS else None


def _time_of_rate(step: int, tokens: int, fields: dict[str, str]) -> float | None:
    """The time by the printed rate, which covers all tokens since the clock started."""
    rate, minutes = fields.get("tok/s", ""), _TIME.fullmatch(fields.get("train_time", ""))
    if not tokens or minutes is None or minutes[2] != "m" or not _RATE.fullmatch(rate) or not int(rate):
        return None
    seconds = step * tokens / int(rate)
    return 1000 * seconds if abs(seconds / 60 - float(minutes[1])) <= _MINUTES_OFF else None


def _number(text: str | None) -> float | None:
    return nan_as_inf(float(text)) if text is not None and _NUMBER.fullmatch(text) else None
