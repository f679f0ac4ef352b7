"""Amounts as people write them: 10B, 300M, 2.5e9 or 524,288 tokens."""

from __future__ import annotations

import re

from nanopace.errors import UsageError
from nanopace.literals import shown

_FACTORS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
_WRITTEN = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?(?:e\+?[0-9]{1,2})?) ?([kmbgt]?)", re.IGNORECASE)
_MOST = 10**16  # tokens: a thousand times what anybody has trained on


def read_tokens(text: str, flag: str) -> int:
    """A number of tokens. `flag` is what an error calls it."""
    plain = re.sub(r"(?<=[0-9])[,_](?=[0-9]{3}(?![0-9]))", "", text.strip())
    found = _WRITTEN.fullmatch(plain)
    if found is not None:
        amount = float(found[1]) * _FACTORS[found[2].lower()]
        if 1 <= amount <= _MOST:
            return round(amount)
    raise UsageError(
        "{flag} must be a number of tokens such as 10B, 300M or 1e9, not {value}", flag=flag, value=shown(text)
    )
