"""Finds the learning rate's schedule in the program: modded-nanogpt's log starts with its source.

warmdown_iters : int = 1800 # number of iterations of linear warmup/warmdown         2024: in steps
cooldown_frac: int = 0.45 # fraction of training spent cooling down                  since 2025: a share of all steps

The rate is constant, then falls linearly to the end. Some programs have a cooldown for each group of weights, or
compute it: they have no single one, and it stays unknown.
"""

from __future__ import annotations

import re
from math import prod

_END = r"\s{0,20}(?:$|#)"
_SHARE = re.compile(r"^\s{0,16}cooldown_frac\s?(?::\s?\w{1,12}\s?)?=\s?([01]?\.\d{1,6}|1)" + _END)
_STEPS = re.compile(
    r"^\s{0,16}(cooldown_iters|warmdown_iters|warmup_iters)\s?(?::\s?\w{1,12}\s?)?=\s?"
    r"(\d{1,9}(?:\s?\*\s?\d{1,9}){0,3})" + _END
)
_SET_OTHERWISE = re.compile(
    r"^[^#]{0,200}\b(?:cooldown_frac|cooldown_iters|warmdown_iters)[\"']?\s?(?:=(?!=)|:\s?[\d.])"
)
_WORDS = ("cooldown_", "warmdown_", "warmup_iters")
_MOST_VALUES = 16


class CooldownCode:
    """Takes the source line by line."""

    def __init__(self) -> None:
        self._shares: set[float] = set()
        self._steps: dict[str, set[int]] = {}
        self._otherwise = False

    def read(self, line: str) -> None:
        if not any(word in line for word in _WORDS):
            return
        line = line[:400]
        if found := _SHARE.match(line):
            if len(self._shares) < _MOST_VALUES:
                self._shares.add(float(found[1]))
        elif found := _STEPS.match(line):
            values = self._steps.setdefault(found[1], set())
            if len(values) < _MOST_VALUES:
                values.add(prod(map(int, found[2].split("*"))))
        else:
            self._otherwise |= _SET_OTHERWISE.match(line) is not None

    def share(self, steps: int) -> float | None:
        """The last part of all steps, in which the rate falls; None if it is not given once, as a number."""
        falls = self._steps.get("cooldown_iters", set()) | self._steps.get("warmdown_iters", set())
        shares = self._shares | {fall / steps for fall in falls if steps}
        if self._otherwise or len(shares) != 1:
            return None
        share = shares.pop()
        return share if 0 < share <= 1 else None

    @property
    def warmup(self) -> int | None:
        """The steps in which the rate rises."""
        rises = self._steps.get("warmup_iters", set())
        return next(iter(rises)) if len(rises) == 1 else None
