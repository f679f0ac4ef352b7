"""Hostile replacements for a number, a word, a byte or a file. All are drawn from a `Random`, so that a seed and a case
number give the same input again."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from copy import deepcopy
from random import Random
from typing import Any

NUMBERS = (
    *("nan", "inf", "-inf", "1e308", "-1e308", "1e400", "5e-324", "1e-300", "-1", "0", "-0.0", "1", "2", "0.5", "1e18"),
    *("10" + "0" * 17, "9" * 19, "9" * 40, "1" + "0" * 400, "-" + "9" * 30, "2147483648", "18446744073709551616"),
    *("1,000", "1_0", "0x10", "1e", "--1", "1.2.3", "", " ", "٣", "½", "None", "True", "3e5", "1e16", "12345.678"),
)
WORDS = (
    *("", " ", ".", "..", "/", "../victim.txt", "/dev/null", "/dev/zero", "/nowhere/at/all", "a" * 300, "a" * 5000),
    *("\0", "\n", "\x1b[31m", "\u202e", "\ud800", "é" * 50, "😀", "{0}", "{path}", "%s", "%n", "$(touch pwned)", "-"),
    *("--", "-1", "null", "[]", "{}", "__import__('os')", "x.py", "best", "last", "7", "cuda", "mps", "gpt2", "resume"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 10**18, -(10**18), 10**400, 2**63, 0.0, -0.5, 1e308, -1e308, 5e-324, 1.5),
    *(float("nan"), float("inf"), float("-inf"), "", "a", "../victim.txt", "\0", "\ud800", "1", "nan", "x" * 2000),
    *([], [0], [None], [[]], [1, 2, 3], [-1, 1e308], {}, {"": ""}, {"a": {"a": {}}}, [10**400], ["a", 1]),
)
JUNK = (b"\0", b"\r", b"\n", b"\r\n", b"\x1b[2K", b"\x1b]8;;x\x07", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\x08")


def value(dice: Random) -> Any:
    """A replacement for any value in a JSON document; sometimes a deep or a long one."""
    if dice.random() < 0.02:
        deep: Any = 0
        for _ in range(dice.choice((10, 50, 100))):
            deep = [deep] if dice.random() < 0.5 else {"a": deep}
        return deep
    if dice.random() < 0.02:
        return (
            dice.choice(("a", 0, None, "é"))
            if dice.random() < 0.5
            else [deepcopy(dice.choice(VALUES))] * dice.randrange(3000)
        )
    return deepcopy(dice.choice(VALUES))  # a copy: it may be altered, but must stay the same for the next input


def alter(dice: Random, document: Any) -> None:
    """Change one place in a JSON document: another value, an extra or missing key, a repeated entry."""
    places: list[tuple[Any, Any]] = []
    _collect(document, places)
    if not places:
        return
    holder, key = dice.choice(places)
    match dice.randrange(6):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 0 | 1 if isinstance(holder, list):
            holder.insert(dice.randrange(len(holder) + 1), value(dice))
        case 1:
            holder[dice.choice(WORDS) if dice.random() < 0.5 else str(key) + "x"] = holder[key]
        case 2:
            other, their_key = dice.choice(places)
            if not isinstance(other[their_key], (dict, list)):
                holder[key] = other[their_key]
        case 3 if isinstance(was := holder[key], (int, float)):
            holder[key] = dice.choice((was + 1, was - 1, -was, was / 2 if abs(was) < 1e300 else 0, was * 2, str(was)))
        case _:
            holder[key] = value(dice)


def _collect(document: Any, places: list[tuple[Any, Any]]) -> None:
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, held in items:
        places.append((document, key))
        if isinstance(held, (dict, list)):
            _collect(held, places)


def altered_json(dice: Random, document: Any) -> bytes:
    """A copy with one to three places changed. Python also writes NaN and infinities, and so may others."""
    document = json.loads(json.dumps(document))
    for _ in range(dice.choice((1, 1, 2, 3))):
        alter(dice, document)
    return json.dumps(document).encode()


def spoil(dice: Random, data: bytes, most: int = 4) -> bytes:
    """The data with a few bytes changed, inserted, removed or repeated."""
    changed = bytearray(data)
    for _ in range(dice.randint(1, most)):
        at = dice.randrange(len(changed) + 1)
        match dice.randrange(6):
            case 0 if changed:
                changed[at - 1] = dice.randrange(256)
            case 1 if changed:
                changed[at - 1] ^= 1 << dice.randrange(8)
            case 2:
                changed[at:at] = dice.choice(JUNK) * dice.choice((1, 1, 3))
            case 3:
                del changed[at : at + dice.choice((1, 2, 8, 64))]
            case 4:
                changed[at:at] = changed[at : at + dice.choice((1, 8, 64))]
            case _:
                changed[at : at + 8] = dice.randbytes(dice.randrange(12))
    return bytes(changed)


def packed(dice: Random, data: bytes) -> bytes:
    """The data compressed, sometimes cut, damaged or repeated."""
    import zstandard

    pack = dice.choice((gzip.compress, bz2.compress, lzma.compress, zstandard.compress))
    made = pack(data)
    match dice.randrange(4):
        case 0:
            return made[: dice.randrange(len(made) + 1)]
        case 1:
            return spoil(dice, made)
        case 2:
            return made + made
        case _:
            return made


def encoded(dice: Random, data: bytes) -> bytes:
    """The data in another encoding, as an editor or a shell on another system might write it."""
    text = data.decode("utf-8", "replace")
    match dice.randrange(5):
        case 0:
            return text.encode("utf-16")
        case 1:
            return text.encode("utf-16-le")
        case 2:
            return b"\xef\xbb\xbf" + data
        case 3:
            return data.replace(b"\n", dice.choice((b"\r\n", b"\r", b"\n\r")))
        case _:
            return text.encode("utf-32")
