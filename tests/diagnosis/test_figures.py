"""All figures and findings of some runs with a known truth, and of some pairs of them: the arithmetic must not change.

`tests/evidence` makes the runs and checks that no sentence about them is false. Here every number is compared, so that
a mistake in a formula shows, even if no sentence becomes false. After an intended change:

    python -m tests.diagnosis.test_figures     # rewrites figures.jsonl; look at the diff
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nanopace import compare, diagnose
from nanopace.diagnosis.compare.ranking import rank
from nanopace.record import Record
from nanopace.run import Run

from ..evidence.judging import read
from ..evidence.plan import drawn, drawn_pair
from ..evidence.truth import trained
from .odd_runs import folded_run, ledger_run, odd_pair

FILE = Path(__file__).with_name("figures.jsonl")
DIGESTS = Path(__file__).with_name("figures.digests.json")
# Out of several hundred, those that together run every branch of the diagnosis that any of them runs.
RUNS = (
    0, 3, 11, 12, 17, 29, 41, 53, 61, 86, 93, 111, 120, 123, 136, 138, 144, 159, 161, 181, 206, 212, 225, 240, 248,
)  # fmt: skip
PAIRS = (0, 6, 10, 11, 16, 22, 25, 33, 34, 45, 46, 52, 59, 72, 81, 82, 83, 95, 96)
LEFT_OUT = {"facts", "curves", "slow_rows", "a", "b", "version", "saves_share", "gpu_use", "source", "model"}


def of_run(run: Run) -> Any:
    diagnosis = diagnose(run)
    rows, curves = diagnosis.slow_rows, diagnosis.curves
    return {
        **plain(diagnosis),
        "slow_rows": [[" ".join(row.causes), total(row.parts_ms.values())] for row in rows[:20]],
        "curves": {name: total(getattr(curves, name)) for name in curves._fields if any(getattr(curves, name))},
    }


def of_pair(seed: int) -> Any:
    (a,), (b,) = (read(trained(plan), name) for plan, name in zip(drawn_pair(seed), ("a.log", "b.log"), strict=True))
    return plain(compare(a, b))


def of_three(seed: int) -> Any:
    plans = (*drawn_pair(seed), drawn_pair(seed + 1)[0])
    return plain(
        rank([diagnose(read(trained(plan), f"{name}.log")[0]) for name, plan in zip("abc", plans, strict=True)])
    )


MADE: Mapping[str, tuple[Callable[[int], Any], Iterable[int]]] = {
    "run": (lambda seed: of_run(read(trained(drawn(seed)))[0]), RUNS),
    "pair": (of_pair, PAIRS),
    "odd pair": (lambda seed: plain(compare(*odd_pair(seed))), range(30)),
    "three": (of_three, (0, 7, 25, 33)),
    "ledger": (lambda seed: of_run(ledger_run(seed)), range(10)),
    "folded": (lambda seed: of_run(folded_run(seed)), (0, 1, 2, 5)),
}


def plain(value: Any) -> Any:
    """As JSON, without unknown values; numbers with seven digits."""
    if isinstance(value, Record):
        value = {name: getattr(value, name) for name in value._fields if name not in LEFT_OUT}
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items() if each not in (None, ())}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def total(points: Iterable[float | str | None]) -> Any:
    """One number that depends on every point and its position; for a text, on its length."""
    numbers = [len(each) if isinstance(each, str) else each or 0.0 for each in points]
    weighted = [(place % 7 + 1) * each for place, each in enumerate(numbers)]
    return plain(math.fsum(weighted) if any(isinstance(each, float) for each in weighted) else sum(weighted))


def digests(figures: Mapping[str, Any]) -> dict[str, str]:
    """Eight letters for each part of the figures, which change with it."""
    return {name: hashlib.sha256(json.dumps(part).encode()).hexdigest()[:8] for name, part in figures.items()}


def frozen() -> list[Any]:
    return [json.loads(line) for line in FILE.read_text().splitlines()]


def same(found: Any, expected: Any, where: str) -> None:
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key, each in expected.items():
            same(found[key], each, f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for index, each in enumerate(expected):
            same(found[index], each, f"{where}[{index}]")
    else:
        assert found == (pytest.approx(expected, rel=1e-6, abs=1e-9) if isinstance(expected, float) else expected), (
            where
        )


@pytest.mark.parametrize("part", range(12))
def test_every_figure_is_as_it_was(part: int) -> None:
    for expected in frozen()[part::12]:
        kind, seed = expected.pop("made")
        same(MADE[kind][0](seed), expected, f"{kind} {seed}")


@pytest.mark.parametrize("part", range(10))
def test_nor_do_those_of_many_other_runs_change(part: int) -> None:
    """For these, only which part of the figures changed is stored."""
    for name, expected in list(json.loads(DIGESTS.read_text()).items())[part::10]:
        kind, seed = name.split()
        assert digests(MADE[kind][0](int(seed))) == expected, name


if __name__ == "__main__":
    others = [("run", seed) for seed in range(300, 380)] + [("pair", seed) for seed in range(100, 140)]
    found = {f"{kind} {seed}": digests(MADE[kind][0](seed)) for kind, seed in others}
    DIGESTS.write_text("{\n" + ",\n".join(f'"{name}": {json.dumps(each)}' for name, each in found.items()) + "\n}\n")
    every = [{"made": [kind, seed], **make(seed)} for kind, (make, seeds) in MADE.items() for seed in seeds]
    FILE.write_text("".join(json.dumps(each, separators=(",", ":")) + "\n" for each in every))
