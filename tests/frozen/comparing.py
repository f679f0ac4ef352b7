"""A text as it was frozen and as it is now: to the letter on a machine of the same kind, else number by number."""

from __future__ import annotations

import re
from pathlib import Path

from .session import machine

FROZEN = Path(__file__).parent
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.(\d+))?(?:e([-+]\d+))?")
_RELATIVE = 1e-4  # other kernels round otherwise: 3e-7 of a loss was seen after 13 steps, and a small error is larger


def is_same_machine() -> bool:
    return (FROZEN / "machine.txt").read_text() == machine() + "\n"


def same(found: str, name: str) -> None:
    """What `name` holds. Elsewhere than where it was made, floats may differ by 1e-4 of themselves."""
    expected = (FROZEN / name).read_text()
    if is_same_machine():
        assert found.splitlines() == expected.splitlines()
        return
    assert _NUMBER.sub("0", found).splitlines() == _NUMBER.sub("0", expected).splitlines()
    for now, then in zip(_NUMBER.finditer(found), _NUMBER.finditer(expected), strict=True):
        assert _near(now, then), f"{now[0]} instead of {then[0]}"


def _near(now: re.Match[str], then: re.Match[str]) -> bool:
    """A whole number is what it was; another may be a unit off in its last digit, as where 0.12345 is rounded."""
    if then[1] is None and then[2] is None:
        return now[0] == then[0]
    unit = 10.0 ** (int(then[2] or 0) - len(then[1] or ""))
    return abs(float(now[0]) - float(then[0])) <= max(1.01 * unit, _RELATIVE * abs(float(then[0])))
