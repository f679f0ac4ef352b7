"""A Diagnosis as JSON, for scripts: the same in every language, documented in docs/json-format.md.

The records of `diagnosis.result` define the format, so there is no second list of keys that could become outdated.
There are two additions: floats are rounded to ten significant digits, so that all machines print the same text, and
values that are not finite are null, because JSON has no NaN. And one omission: without prices, no key speaks of money.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from nanopace.diagnosis.comparison import Comparison
from nanopace.diagnosis.result import JSON_VERSION, Diagnosis
from nanopace.record import Record, field_names
from nanopace.run import Stage

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

SIGNIFICANT_DIGITS = 10
LINE_WIDTH = 160


def explain_json(diagnoses: Sequence[Diagnosis]) -> str:
    """One run as a single object; several as `{"version": 1, "runs": [...]}`."""
    runs = [_explained(diagnosis) for diagnosis in diagnoses]
    if len(runs) == 1:
        return _dump(runs[0])
    return _dump({"version": JSON_VERSION, "runs": list(runs)})


def compare_json(comparisons: Sequence[Comparison]) -> str:
    """The first pair's keys, then every run; with more than two runs, also every pair and the ranking."""
    return _dump({"version": JSON_VERSION, **_comparison(comparisons)})


def stages_json(staged: Sequence[tuple[Stage | None, Sequence[Comparison]]]) -> str:
    """For runs with several stages: `{"version": 1, "stages": [...]}`, each like a comparison of its own."""
    stages: list[Json] = [{"stage": stage, **_comparison(comparisons)} for stage, comparisons in staged]
    return _dump({"version": JSON_VERSION, "stages": stages})


def _comparison(comparisons: Sequence[Comparison]) -> dict[str, Json]:
    from nanopace.diagnosis.compare.ranking import rank  # explain does not need it

    everyone = [comparisons[0].a, *(comparison.b for comparison in comparisons)]
    pairs = [_compared(comparison, other) for other, comparison in enumerate(comparisons, start=1)]
    document = dict(pairs[0])
    document["runs"] = [_explained(diagnosis, curves=False) for diagnosis in everyone]
    if len(pairs) > 1:
        document["pairs"] = list(pairs)
        document["ranking"] = _plain(rank(everyone))
    return document


def object_json(found: object) -> str:
    """A record as a single object."""
    return _dump(_plain(found))


def recommend_json(documents: Sequence[Mapping[str, object]]) -> str:
    """One card as a single object; several as `{"version": 1, "cards": [...]}`."""
    if len(documents) == 1:
        return _dump(_ordered(documents[0]))
    return _dump({"version": JSON_VERSION, "cards": [_ordered(document) for document in documents]})


def _ordered(document: Mapping[str, object]) -> Json:
    """A mapping in its own order."""
    return {key: _plain(value) for key, value in document.items()}


def _explained(diagnosis: Diagnosis, *, curves: bool = True) -> dict[str, Json]:
    left_out = {"version", *(() if curves else ("curves",)), *(("bill",) if diagnosis.bill is None else ())}
    keys = [name for name in field_names(diagnosis) if name not in left_out]
    return {"version": diagnosis.version, **{key: _plain(getattr(diagnosis, key)) for key in keys}}


def _compared(comparison: Comparison, other: int) -> dict[str, Json]:
    """A pair without its two runs: it only names their positions under "runs"."""
    pair: dict[str, Json] = {
        "a": {"run": 0, "name": comparison.a.source.name},
        "b": {"run": other, "name": comparison.b.source.name},
    }
    left_out = ("a", "b", "version", *(("arrival_money",) if comparison.arrival_money is None else ()))
    keys = [name for name in field_names(comparison) if name not in left_out]
    return pair | {key: _plain(getattr(comparison, key)) for key in keys}


def _plain(value: object) -> Json:
    """Records and dataclasses in field order, mappings sorted by key, so that the text is stable."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return _rounded(value)
    names = field_names(value) if isinstance(value, Record) else getattr(value, "__dataclass_fields__", None)
    if names is not None:
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in sorted(value)}
    assert isinstance(value, (list, tuple)), f"{type(value).__name__} has no place in the JSON"
    return [_plain(item) for item in value]


def _rounded(value: float) -> float | None:
    rounded = float(f"{value:.{SIGNIFICANT_DIGITS}g}") + 0.0  # + 0.0 turns -0.0 into 0.0
    return rounded if math.isfinite(rounded) else None  # the largest floats round to infinity


def _dump(document: Json) -> str:
    return "".join(_lines(document, "")) + "\n"


def _lines(value: Json, indent: str) -> list[str]:
    """Indent, but keep on one line what fits, and curves: thousands of lines with one number each help nobody."""
    one_line = json.dumps(value, allow_nan=False)
    scalars_only = isinstance(value, list) and not any(isinstance(item, (list, dict)) for item in value)
    if not isinstance(value, (list, dict)) or not value or scalars_only:
        return [one_line]
    if indent and len(indent) + len(one_line) <= LINE_WIDTH:
        return [one_line]
    deeper = indent + "  "
    if isinstance(value, dict):
        parts = [[deeper, json.dumps(key), ": ", *_lines(item, deeper)] for key, item in value.items()]
    else:
        parts = [[deeper, *_lines(item, deeper)] for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return [opening, "\n", ",\n".join("".join(part) for part in parts), "\n", indent, closing]
