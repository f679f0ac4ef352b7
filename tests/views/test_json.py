"""Scripts rely on the JSON: it is complete, documented, stable, and valid for any Diagnosis."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from nanopace import prices, run
from nanopace.diagnosis import bill, comparison, result
from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import Curves, Diagnosis
from nanopace.record import Record, field_names
from nanopace.views.json import compare_json, explain_json

from .cases import case_1, case_2

DOCUMENT = (Path(__file__).parents[2] / "docs" / "json-format.md").read_text("utf-8")
OPEN_MAPPINGS = ("facts", "numbers", "parts_ms", "throttled")  # their keys are external names, not part of the format
PAIRS_OF = (
    "parameters",
    "flops_per_token",
    "median_ms",
    "micro_batch_ms",
    "tokens_per_s",
    "mfu_card",
    "overhead_share",
    "arrival_money",
)


def any_record(kind: type[Record], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A record with any values of the fields' types."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{name: st.from_type(hints[name]) for name in field_names(kind)} | fixed)


for module in (prices, run, bill, result, comparison):
    for kind in vars(module).values():
        if isinstance(kind, type) and issubclass(kind, Record) and kind is not Record:
            st.register_type_strategy(kind, any_record)

diagnoses = st.from_type(Diagnosis)
# Curves have equal lengths, which the strategy does not know, and three or more runs are ranked by them.
without_curves = any_record(Diagnosis, curves=st.just(Curves()))
comparisons = any_record(Comparison, a=without_curves, b=without_curves)
# A complete Diagnosis is large to draw, and shrinking one would take minutes.
quick = settings(max_examples=12, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


def refuse(constant: str) -> None:
    pytest.fail(f"{constant} is not JSON")


def load(text: str) -> Any:
    return json.loads(text, parse_constant=refuse)


@cache
def documented(part: str) -> frozenset[str]:
    explain, compare = DOCUMENT.split("## compare\n")
    return frozenset(re.findall(r"^\| `([^`]+)` \|", explain if part == "explain" else compare, re.MULTILINE))


def paths(value: Any, before: str = "") -> Iterator[str]:
    """Every key of a document as the documentation writes it."""
    if isinstance(value, list):
        for item in value:
            yield from paths(item, before + "[]")
    elif isinstance(value, dict):
        open_mapping = before.rpartition(".")[2] in OPEN_MAPPINGS
        for key, item in value.items():
            path = f"{before}.*" if open_mapping else f"{before}.{key}".lstrip(".")
            if not open_mapping:
                yield path
            yield from paths(item, path)


@quick
@given(st.lists(diagnoses, min_size=1, max_size=2))
def test_explain_is_valid_and_documented(runs: list[Diagnosis]) -> None:
    document = load(explain_json(runs))
    each = [document] if len(runs) == 1 else document["runs"]
    assert len(each) == len(runs)
    for found in each:
        assert set(paths(found)) <= documented("explain")


@quick
@given(st.lists(comparisons, min_size=1, max_size=2))
def test_compare_is_valid_and_documented(pairs: list[Comparison]) -> None:
    document = load(compare_json(pairs))
    assert ("pairs" in document) == ("ranking" in document) == (len(pairs) > 1)
    assert len(document["runs"]) == len(pairs) + 1
    for explained in document.pop("runs"):
        assert "curves" not in explained
        assert set(paths(explained)) <= documented("explain")
    documented_pair = documented("compare") | {f"{name}.{side}" for name in PAIRS_OF for side in ("a", "b", "ratio")}
    documented_pair |= {path for path in documented("explain") if path.startswith("findings")}
    for number, pair in enumerate(document.pop("pairs", []), start=1):
        assert pair["b"]["run"] == number
        assert set(paths(pair)) <= documented_pair
    assert set(paths(document)) <= documented_pair


def fields_of(kind: type, before: str = "") -> Iterator[str]:
    """Every field of a dataclass and of those inside it, as the documentation writes it."""
    for field in dataclasses.fields(kind):
        path = f"{before}.{field.name}".lstrip(".")
        yield path
        words = set(re.findall(r"\w+", str(field.type)))
        for name, inner in {**vars(bill), **vars(result)}.items():
            if name in words and dataclasses.is_dataclass(inner):
                inside = {"tuple": "[]", "Mapping": ".*"}.get(str(field.type).partition("[")[0], "")
                yield from fields_of(inner, path + inside)


def test_every_field_is_documented() -> None:
    assert set(fields_of(Diagnosis)) <= documented("explain")
    assert {field.name for field in dataclasses.fields(Comparison)} <= documented("compare")


def test_nothing_is_documented_that_is_not_there() -> None:
    assert documented("explain") == set(fields_of(Diagnosis)) | {"runs"}


def explained(**changes: Any) -> Any:
    return load(explain_json([dataclasses.replace(case_1(), **changes)]))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.7976931348623157e308])
def test_what_is_no_number_is_null(value: float) -> None:
    assert explained(step=dataclasses.replace(case_1().step, median_ms=value))["step"]["median_ms"] is None


def test_floats_have_ten_digits_and_integers_all() -> None:
    step = dataclasses.replace(case_1().step, median_ms=1 / 3, spread=-0.0, normal_rows=12345678901234567)
    found = explained(step=step)["step"]
    assert found["median_ms"] == 0.3333333333
    assert math.copysign(1, found["spread"]) == 1
    assert found["normal_rows"] == 12345678901234567


def test_mappings_are_sorted_and_fields_in_their_order() -> None:
    numbers = {"b": 1, "a": None, "c": "x"}
    found = explained(findings=(result.Finding("startup", numbers),))
    assert list(found["findings"][0]["numbers"]) == ["a", "b", "c"]
    names = [field.name for field in dataclasses.fields(Diagnosis)]
    assert list(found) == ["version", *(name for name in names if name not in ("version", "bill"))]


def test_without_prices_no_key_speaks_of_money() -> None:
    for text in (explain_json([case_1()]), compare_json([case_2()])):
        assert "bill" not in text
        assert "money" not in text


def test_a_curve_stands_on_one_line_and_the_text_is_ascii() -> None:
    source = dataclasses.replace(case_1().source, name="größe\u2028\udcff.log")
    curves = Curves(row_iteration=tuple(range(1000)), row_ms=(1.5,) * 1000)
    text = explain_json([dataclasses.replace(case_1(), source=source, curves=curves)])
    assert text.isascii()
    assert text.endswith("}\n")
    assert text.count("\n") < 1000  # not a line for each row
    assert load(text)["source"]["name"] == "größe\u2028\udcff.log"


def test_the_keys_that_scripts_rely_on() -> None:
    promised = {
        "source": "format rows", "step": "median_ms", "evaluations": "count visible hidden each_ms interval",
        "checkpoints": "count each_ms basis", "throughput": "tokens_per_s tokens_per_iteration micro_batch_ms",
        "wall": "total_s training_s evaluation_s checkpoint_s startup_s stall_s unknown_s overhead_share",
        "mfu": "printed_last steady_printed card achieved_tflops", "model": "parameters flops_per_token",
        "loss": "best_val last_val best_val_perplexity", "startup": "total_ms",
    }  # fmt: skip
    found = explained()
    for section, keys in promised.items():
        assert set(keys.split()) <= set(found[section]), section
    assert {"iteration", "ms", "excess_ms", "causes"} <= set(found["slow_rows"][0])
    assert {"code", "saves_s", "saves_share", "numbers"} <= set(found["findings"][0])
