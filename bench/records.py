"""Time to define a class and to make an instance: dataclass, named tuple, our Record (docs/decisions/0008).

python bench/records.py
"""

from __future__ import annotations

import timeit
from dataclasses import dataclass
from typing import NamedTuple

from nanopace.record import Record

FIELDS = "abcdefghi"
BODY = "".join(f"    {name}: float{' = 0' if name in 'hi' else ''}\n" for name in FIELDS)
KINDS = {
    "dataclass": "@dataclass(frozen=True, slots=True)\nclass Nine:\n",
    "named tuple": "class Nine(NamedTuple):\n",
    "Record": "class Nine(Record):\n",
}
NAMES = {"dataclass": dataclass, "NamedTuple": NamedTuple, "Record": Record, "__name__": __name__}


def main() -> None:
    print(f"{len(FIELDS)} fields{'define':>16}{'make':>12}")
    for name, head in KINDS.items():
        defining = _seconds(head + BODY, 100)
        making = _seconds("Nine(*values)", 20_000, setup=f"values = tuple(map(float, range(9)))\n{head}{BODY}")
        print(f"{name:12}{defining * 1e3:9.3f} ms{making * 1e6:9.2f} us")


def _seconds(code: str, count: int, setup: str = "pass") -> float:
    return min(timeit.repeat(code, setup, number=count, repeat=5, globals=NAMES)) / count


if __name__ == "__main__":
    main()
