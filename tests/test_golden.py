"""The Diagnosis of every example log, number by number: a refactoring must not change it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nanopace import compare, diagnose, open_run, render

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = ROOT / "examples"

EXPLAIN: dict[str, dict[str, Any]] = {
    "slow-rows": {},
    "debris": {"gpu": "4070"},
    "narrow": {"config": EXAMPLES / "narrow.py", "gpu": "4070"},
    "wide": {},
    "wide-header": {"gpu": "RTX 4070"},
}


def explained(name: str) -> Any:
    document = json.loads(render(diagnose(open_run(EXAMPLES / f"{name}.log", **EXPLAIN[name])), format="json"))
    del document["curves"]
    return document


def compared() -> Any:
    a = open_run(EXAMPLES / "narrow.log", config=EXAMPLES / "narrow.py", gpu="4070")
    b = open_run(EXAMPLES / "wide.log", config=EXAMPLES / "wide.py", gpu="4070")
    document = json.loads(render(compare(a, b), format="json"))
    del document["runs"]
    return document


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


def same(found: Any, expected: Any, where: str = "") -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key in expected:
            same(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for index, each in enumerate(expected):
            same(found[index], each, f"{where}[{index}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-9), where
    else:
        assert found == expected, where


@pytest.mark.parametrize("name", EXPLAIN)
def test_explain(name: str) -> None:
    same(explained(name), golden(name))


def test_compare() -> None:
    same(compared(), golden("compare"))


if __name__ == "__main__":
    for example in EXPLAIN:
        (GOLDEN / f"{example}.json").write_text(json.dumps(explained(example), indent=1) + "\n")
    (GOLDEN / "compare.json").write_text(json.dumps(compared(), indent=1) + "\n")
