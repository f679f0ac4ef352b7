"""Hints for a file that cannot be read: another trainer's log, or the line that looks most like a row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

_MOST_LINES = 200_000  # that are looked at; a refusal is no reason to wait
_LONGEST_LINE = 2000  # characters of it
_LONGEST = 100  # characters of a line that is quoted
_INT, _REAL = r"\d{1,12}", r"-?(?:\d{1,9}(?:\.\d{1,15})?(?:[eE][+-]?\d{1,3})?|nan|inf)"

# Rows by who prints them. A trainer has several lines here where its rows have several forms.
_ROWS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "build-nanogpt",
            rf"\bstep\s{{1,9}}{_INT}\s?[|,]{{1,2}}\s?(?:train )?loss\s?:\s?{_REAL}.{{0,120}}?\bdt:?\s?{_REAL}\s?m?s",
        ),
        ("modded-nanogpt", rf"^step:{_INT}/{_INT} .{{0,60}}?train_time:"),
        ("llm.c", rf"\bstep\s+{_INT}/{_INT} \| (?:train )?loss {_REAL} ?[(|]|^s:{_INT} (?:trl|tel|eval):"),
        ("llama2.c", rf"^{_INT} \| loss {_REAL} \| lr {_REAL} \| {_REAL}ms"),
        ("torchtitan", rf"\bstep:\s{{1,8}}{_INT}\s{{1,8}}loss:\s{{0,8}}{_REAL}\s.{{0,120}}?\btps:"),
        ("Megatron", rf"\biteration\s{{1,12}}{_INT}/\s{{0,12}}{_INT} \|.{{0,120}}?elapsed time per iteration"),
        ("litgpt", rf"\biter {_INT} step {_INT} \| loss train: |^iter {_INT}: val loss {_REAL}, val time: "),
        ("lingua", rf"\bstep: {_INT}\s{{1,4}}acc: {_INT}\s{{1,4}}loss: |\"speed/wps\": "),
        ("LLaMA-Factory", rf"^\{{\"current_steps\": {_INT}, \"total_steps\": {_INT}, "),
        ("Hugging Face Trainer", r"\{'(?:loss|eval_loss|train_runtime)': .{1,400}?'epoch': "),
    )
)
_TRAINER_STATE = '"log_history"'  # without it, a "loss" in a JSON file may be anybody's
_STATE_ROW = re.compile(r"\"(?:loss|eval_loss)\": ?\d")
_CSV_HEADER = re.compile(r"^(?=(?:[\w/]{1,40},){0,40}step(?:,|$))(?=(?:[\w/]{1,40},){0,40}epoch(?:,|$))[\w/,]{1,400}$")
_TFEVENTS = b"brain.Event:2"

# What a row has: a step, a loss, a time.
_PARTS = (
    re.compile(r"(?i:\b(?:step|iter(?:ation)?|epoch))\W{0,3}\d"),
    re.compile(r"(?i:loss)\W{0,6}\d"),
    re.compile(r"\d\s?(?:ms|s|sec|min|it/s|s/it)\b|\d:\d\d:\d\d"),
)
_FEWEST_PARTS = 2


class Others(NamedTuple):
    """What a file holds that no reader can read."""

    trainer: str | None  # that printed most rows
    rows: int
    near_line: int  # number of the line that is nearest to a row
    near_text: str


def is_tensorboard(head: bytes) -> bool:
    """Whether these are the first bytes of a TensorBoard event file."""
    return _TFEVENTS in head[:200]


def look_for_others(printed: Iterator[str]) -> Others:
    """The trainer with the most rows, or else the line that looks most like a row."""
    rows: Counter[str] = Counter()
    nearest, near_line, near_text, in_state = _FEWEST_PARTS - 1, 0, "", False
    for number, line in enumerate(islice(printed, _MOST_LINES), start=1):
        if number == 1 and "loss" in line and _CSV_HEADER.match(line):
            rows["Lightning"] = sum(1 for row in islice(printed, _MOST_LINES) if row.strip())
            break
        in_state |= _TRAINER_STATE in line
        if in_state:
            rows["Hugging Face Trainer"] += len(_STATE_ROW.findall(line))
            continue
        line = line[:_LONGEST_LINE]
        if (name := _trainer_of(line)) is not None:
            rows[name] += 1
        parts = sum(pattern.search(line) is not None for pattern in _PARTS)
        if parts > nearest:
            nearest, near_line, near_text = parts, number, line
    trainer = max(rows, key=rows.__getitem__, default=None)
    count = rows[trainer] if trainer else 0
    return Others(trainer if count else None, count, near_line, shortened(near_text))


def _trainer_of(line: str) -> str | None:
    return next((name for name, pattern in _ROWS if pattern.search(line)), None)


def shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
