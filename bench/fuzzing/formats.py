"""Corrupted logs of every format, made from the examples in tests/sources/formats/examples.

Lines are lost, duplicated, moved, cut or mixed with another format's; numbers become absurd; bytes are changed, files
cut and joined. FUZZ_FORMAT names the formats to try (all if it is empty), FUZZ_EXAMPLES another directory.
"""

from __future__ import annotations

import io
import os
import re
import runpy
import zlib
from functools import cache
from pathlib import Path
from random import Random

from fuzzing.hostile import JUNK, NUMBERS, encoded, packed, spoil
from fuzzing.ledgers import explain

_EXAMPLES = Path(__file__).resolve().parents[2] / "tests/sources/formats/examples"
_NUMBER = re.compile(rb"-?\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
_PREFIXES = (b"[rank0]: ", b"[rank1]:", b"0: ", b"2024-05-01 12:00:00,123 INFO ", b"train-0  | ", b"> ", b"\x1b[32m")
_MOST_LINES = 12  # in most inputs: the shorter they are, the more can be tried


def read_example(data: bytes) -> None:
    """Read it; explain one in eight, since that does not depend on the format but takes most of the time."""
    if zlib.crc32(data) % 8 == 0:
        explain(data)
    else:
        from nanopace.sources.runs import open_runs

        open_runs(io.BytesIO(data))


def make_example(dice: Random) -> bytes:
    return spoiled(dice, example(dice.choice(example_names())))


def spoiled(dice: Random, data: bytes, *, most_lines: int = _MOST_LINES, most_bytes: int = 3_000_000) -> bytes:
    """A log with a random selection of these changes."""
    lines = data.splitlines(True)
    if len(lines) > 2 * most_lines and dice.random() < 0.9:
        _thin(dice, lines, most_lines)
    for _ in range(dice.choice((0, 1, 1, 2, 4))):
        _alter_lines(dice, lines)
    data = b"".join(lines)
    if dice.random() < 0.5:
        data = _other_numbers(dice, data)
    match dice.randrange(24):
        case 0:
            return packed(dice, data)
        case 1:
            return encoded(dice, data)
        case 2 | 3 | 4 | 5:
            return spoil(dice, data)
        case 6 | 7:
            return data[: dice.randrange(len(data) + 1)]
        case 8:
            return data + dice.choice((b"", b"\n")) + dice.choice(_all_examples())
        case 9 if dice.random() < 0.01:
            return data * max(1, min(3000, most_bytes // (len(data) + 1)))
        case _:
            return data


@cache
def example_names() -> tuple[str, ...]:
    """The names of the formats to try."""
    found, wanted = _read(), os.environ.get("FUZZ_FORMAT", "").split()
    if missing := [name for name in wanted if name not in found]:
        raise SystemExit(f"no example of {', '.join(missing)}; choose from {', '.join(found)}")
    return tuple(wanted or found)


def example(name: str) -> bytes:
    return _read()[name]


@cache
def _all_examples() -> tuple[bytes, ...]:
    return tuple(_read().values())


@cache
def _read() -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in sorted(Path(os.environ.get("FUZZ_EXAMPLES") or _EXAMPLES).glob("[!_]*.py")):
        for name, log in runpy.run_path(str(path)).get("EXAMPLES", {}).items():
            found[name] = log if isinstance(log, bytes) else log.encode()
    return found


def _thin(dice: Random, lines: list[bytes], most: int) -> None:
    """Keep some of its lines in order: a head, and rows from anywhere."""
    head = dice.choice((0, 3, most))
    kept = sorted(dice.sample(range(head, len(lines)), dice.randint(1, most)))
    lines[:] = lines[:head] + [lines[at] for at in kept]


def _other_numbers(dice: Random, data: bytes) -> bytes:
    """Replace some numbers with hostile ones, or with others from the same log."""
    share, there = dice.choice((0.02, 0.1, 0.5)), _NUMBER.findall(data)
    return _NUMBER.sub(lambda found: _number(dice, there) if dice.random() < share else found[0], data)


def _number(dice: Random, there: list[bytes]) -> bytes:
    return dice.choice(NUMBERS).encode() if dice.random() < 0.6 else dice.choice(there)


def _alter_lines(dice: Random, lines: list[bytes]) -> None:
    at, to = sorted((dice.randrange(len(lines) + 1), dice.randrange(len(lines) + 1)))
    match dice.randrange(12):
        case 0:
            del lines[at:to]
        case 1:
            lines[at:at] = lines[at:to]
        case 2:
            lines[at:to] = dice.sample(lines[at:to], to - at)
        case 3:
            lines.reverse()
        case 4:  # a restart, or another run
            lines += lines[: dice.randrange(len(lines) + 1)]
        case 5:  # two processes write to one file
            lines[at:to] = [line for line in lines[at:to] for _ in range(2)]
        case 6:
            prefix = dice.choice(_PREFIXES)
            lines[at:to] = [prefix + line for line in lines[at:to]]
        case 7:  # part of a line, then the next
            lines[at:to] = [line[: dice.randrange(len(line) + 1)] for line in lines[at:to]]
        case 8:
            other = dice.choice(_all_examples()).splitlines(True)
            begin = dice.randrange(len(other) + 1)
            lines[at:to] = other[begin : begin + 5]
        case 9:
            times = 5000 if dice.random() < 0.05 else dice.choice((1, 9))
            lines.insert(at, dice.choice((b"x", b" ", b"\n", b"{", b"[", b'"', *JUNK)) * times)
        case 10 if lines:  # the start of one line with the end of another
            one, two = dice.choice(lines), dice.choice(lines)
            lines.insert(at, one[: dice.randrange(len(one) + 1)] + two[dice.randrange(len(two) + 1) :])
        case _:
            lines[at:at] = [dice.choice(lines)] * dice.choice((1, 2, 40)) if lines else []
