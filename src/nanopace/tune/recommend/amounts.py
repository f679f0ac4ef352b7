"""Amounts as people write them: 10B, 300M, 2.5e9 or 524,288 tokens; 90s or 5m."""

from __future__ import annotations

import re

from nanopace.errors import UsageError
from nanopace.literals import shown

_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
_WRITTEN = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?(?:e\+?[0-9]{1,2})?) ?([kmbgt]?)", re.IGNORECASE)
_TIME = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ?(s|m|min|h)", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600}
_LONGEST = 7 * 24 * 3600
_MOST = 10**16  # tokens: a thousand times what anybody has trained on


def read_tokens(text: str, flag: str) -> int:
    """A number of tokens. Errors name the `flag`."""
    plain = re.sub(r"(?<=[0-9])[,_](?=[0-9]{3}(?![0-9]))", "", text.strip())
    found = _WRITTEN.fullmatch(plain)
    if found is not None:
        amount = float(found[1]) * _FACTORS[found[2].lower()]
        if 1 <= amount <= _MOST:
            return round(amount)
    raise UsageError(
        "{flag} must be a number of tokens such as 10B, 300M or 1e9, not {value}", flag=flag, value=shown(text)
    )


def read_seconds(text: str, flag: str) -> float:
    """A time. Errors name the `flag`."""
    found = _TIME.fullmatch(text.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found is not None else 0.0
    if 0 < seconds <= _LONGEST:
        return seconds
    raise UsageError("{flag} must be a time such as 90s or 5m, not {value}", flag=flag, value=shown(text))
