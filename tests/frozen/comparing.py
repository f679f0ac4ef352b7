"""Compares a frozen text with the current one: exactly on the same kind of machine, otherwise number by number."""

from __future__ import annotations

import re
from difflib import unified_diff
from pathlib import Path

from .session import machine

FROZEN = Path(__file__).parent
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.(\d+))?(?:e([-+]\d+))?")
# Other kernels round differently: by 3e-7 of a loss after 13 steps, and more of the difference of two losses.
_RELATIVE, _ABSOLUTE = 1e-4, 2e-6


def is_same_machine() -> bool:
    return (FROZEN / "machine.txt").read_text() == machine() + "\n"


def differences(found: dict[str, str], folder: str) -> str:
    """Differences between the current texts and those frozen in `folder`, file by file; '' if there are none."""
    frozen = {f"{folder}/{path.name}": path.read_text(encoding="utf-8") for path in (FROZEN / folder).iterdir()}
    exact = is_same_machine()
    return "".join(
        _difference(name, found.get(name, ""), frozen.get(name, ""), exact=exact) for name in sorted({*found, *frozen})
    )


def _difference(name: str, found: str, frozen: str, *, exact: bool) -> str:
    if found == frozen or (not exact and _differ_little(found, frozen)):
        return ""
    lines = frozen.splitlines(keepends=True), found.splitlines(keepends=True)
    return "".join(unified_diff(*lines, f"{name}, frozen", f"{name}, now", n=0))


def _differ_little(found: str, frozen: str) -> bool:
    """Whether they differ only in floats, and only by rounding."""
    return _NUMBER.sub("0", found) == _NUMBER.sub("0", frozen) and all(
        _near(now, then) for now, then in zip(_NUMBER.finditer(found), _NUMBER.finditer(frozen), strict=True)
    )


def _near(now: re.Match[str], then: re.Match[str]) -> bool:
    """Whole numbers must be equal; others may be off by one in the last digit, as when 0.12345 is rounded."""
    if then[1] is None and then[2] is None:
        return now[0] == then[0]
    unit = 10.0 ** (int(then[2] or 0) - len(then[1] or ""))
    return abs(float(now[0]) - float(then[0])) <= max(1.01 * unit, _RELATIVE * abs(float(then[0])), _ABSOLUTE)
