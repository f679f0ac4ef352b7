"""What a class costs to define and an instance to make: a dataclass, a named tuple, our Record (docs/decisions/0008).

python bench/records.py
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from nanopace.record import Record

FIELDS = 9


def define_dataclass() -> type:
    @dataclass(frozen=True, slots=True)
    class Nine:
        """Nine fields."""

        a: float
        b: float
        c: float
        d: float
        e: float
        f: float
        g: float
        h: float = 0
        i: float = 0

    return Nine


def define_named_tuple() -> type:
    class Nine(NamedTuple):
        """Nine fields."""

        a: float
        b: float
        c: float
        d: float
        e: float
        f: float
        g: float
        h: float = 0
        i: float = 0

    return Nine


def define_record() -> type:
    class Nine(Record):
        """Nine fields."""

        a: float
        b: float
        c: float
        d: float
        e: float
        f: float
        g: float
        h: float = 0
        i: float = 0

    return Nine


def main() -> None:
    print(f"{FIELDS} fields{'define':>16}{'make':>12}")
    kinds: dict[str, Callable[[], type]] = {
        "dataclass": define_dataclass,
        "named tuple": define_named_tuple,
        "Record": define_record,
    }
    for name, define in kinds.items():
        made, values = define(), tuple(map(float, range(FIELDS)))
        defining = min(timeit.repeat(define, number=100, repeat=5)) / 100
        making = min(timeit.repeat(lambda made=made, values=values: made(*values), number=20_000, repeat=5)) / 20_000
        print(f"{name:12}{defining * 1e3:9.3f} ms{making * 1e6:9.2f} us")


if __name__ == "__main__":
    main()
