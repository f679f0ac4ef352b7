"""What the Trainer prints: dicts of what it logs, with tqdm's progress bars between them.

    {'loss': 2.92, 'grad_norm': 1.1, 'learning_rate': 4.9e-05, 'epoch': 0.04}       values are quoted since version 5
     12%|█▏        | 199/1677 [05:36<41:13,  1.67s/it]

ms-swift, which is built on it, prints more: 'global_step/max_steps': '5/94', 'elapsed_time': '1m 9s'. It also writes
this as lines of JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_ENTRY = re.compile(r"\{(['\"])(?:(loss|eval_\w{0,60}?loss|train_runtime)|(?!epoch)[\w/().@ -]{1,80})\1: ")
_PAIR = re.compile(r"(['\"])([\w/()]{1,80})\1: ?(?:(['\"])([^'\"]{0,60})\3|([-+.\w]{1,40}))")
_LONGEST_ENTRY = 16_000  # characters

_BAR = re.compile(
    r"\d{1,3}%(?:\|[^|\r\n]{0,400}\|)?\s{1,4}(\d{1,12})/(\d{1,12}) \[(\d{1,6}(?::\d\d){1,2})<"
    r"[^\]{}]{0,60}?(?:\b(\d{1,9}(?:\.\d{1,4})?)|\?)(s/it|it/s)"
)
_DESCRIBED = re.compile(r"[\w)]\s{0,3}:$")  # before a bar: not "[rank0]:"
_OF_TRAINING = re.compile(r"(?i:train(?:ing)?)\s{0,3}:$")
_TOTAL = re.compile(r"Total optimization steps = (\d[\d,]{0,14})$")
_STEPS = re.compile(r"(\d{1,12})/(\d{1,12})")
_ELAPSED = re.compile(
    r"(?:(\d{1,6})d )?(?:(\d{1,6})h )?(?:(\d{1,6})m )?(\d{1,6})s"
    r"|(?:(\d{1,6}) days?, )?(?:(\d{1,6}):)?(\d{1,6}):(\d\d)"
)


class Bar(NamedTuple):
    """A progress bar, as printed once."""

    step: int
    total: int
    elapsed_s: float
    at: int  # where it ends in its line
    step_s: float | None = None  # its estimate of what a step takes: a mean of the last few


def bars(line: str) -> Iterator[Bar]:
    """The bars that may be the training's. Others say what they are for, such as "Loading weights"."""
    if "[" not in line or "/" not in line:
        return
    end = 0
    for found in _BAR.finditer(line):
        before = line[end : found.start()].rstrip()[-80:]
        end = found.end()
        if not _DESCRIBED.search(before) or _OF_TRAINING.search(before):
            elapsed_s = seconds(found[3])
            if elapsed_s is not None:
                rate = float(found[4] or 0)
                step_s = None if not rate else rate if found[5] == "s/it" else 1 / rate
                yield Bar(int(found[1]), int(found[2]), elapsed_s, end, step_s)


def entries(line: str) -> Iterator[tuple[int, dict[str, object]]]:
    """The dicts in a line, each with its position. The Trainer adds an epoch to whatever it logs.

    Those in a list are no news: it is the `log_history` of what was logged before, which ms-swift writes at the end.
    """
    if "{" not in line:
        return
    for found in _ENTRY.finditer(line):
        if line[max(0, found.start() - 4) : found.start()].rstrip().endswith(("[", "},")):
            continue
        text = line[found.start() : found.start() + _LONGEST_ENTRY]
        text = text[: text.find("}") + 1]
        entry: dict[str, object] = {each[2]: each[4] if each[3] else each[5] for each in _PAIR.finditer(text)}
        if entry and (found[2] or "epoch" in entry):
            yield found.start(), entry


class Cut:
    """Dicts that were cut where a buffer was full. The rest comes later, after bars."""

    def __init__(self) -> None:
        self._begun = ""

    def mend(self, line: str, bars_end: int) -> str:
        """The line, with the beginning of a dict that ends in it, after its bars."""
        opens, closes = line.find("{", bars_end), line.find("}", bars_end)
        if self._begun and closes >= 0 and not 0 <= opens < closes:
            rest = line[bars_end:].partition("]")[2] if bars_end else line
            line = " " * bars_end + self._begun + rest
            self._begun = ""
        last = line.rfind("{")
        if last > line.rfind("}"):
            self._begun = line[last : last + _LONGEST_ENTRY]
        elif last >= 0:
            self._begun = ""
        return line


def total_steps(line: str) -> int | None:
    """The number that the Trainer announces before it starts."""
    found = _TOTAL.search(line.rstrip()) if "Total optimization" in line else None
    return None if found is None else int(found[1].replace(",", "") or 0)


def step_of(entry: dict[str, object]) -> tuple[int | None, int | None]:
    """The step that an entry names, and the last step. The Trainer's own entries name none."""
    found = _STEPS.fullmatch(str(entry.get("global_step/max_steps", "")))
    if found is not None:
        return int(found[1]), int(found[2])
    named = str(entry.get("global_step", entry.get("step", "")))
    return (int(named), None) if named.isascii() and named.isdigit() and len(named) <= 12 else (None, None)


def seconds(elapsed: object) -> float | None:
    """Seconds from a time as tqdm, LLaMA-Factory and ms-swift write it."""
    found = _ELAPSED.fullmatch(elapsed) if isinstance(elapsed, str) else None
    if found is None:
        return None
    parts = [int(part or 0) for part in found.groups()]
    days, hours, minutes, rest = (spelled + clock for spelled, clock in zip(parts[:4], parts[4:], strict=True))
    return 86_400.0 * days + 3600 * hours + 60 * minutes + rest
