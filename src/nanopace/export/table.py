"""A run as a CSV or parquet table: one line per row and per evaluation. Unknown cells are empty."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from nanopace.errors import UsageError
from nanopace.export.points import Point


def to_csv(points: Sequence[Point]) -> bytes:
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(Point._fields)
    table.writerows(["" if value is None else value for value in point] for point in points)
    return written.getvalue().encode()


def to_parquet(points: Sequence[Point]) -> bytes:
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError("--to parquet: needs pyarrow: pip install pyarrow") from None
    kinds = {"kind": arrow.string(), "iteration": arrow.int64(), "slow": arrow.string(), "metric": arrow.string()}
    schema = arrow.schema([(name, kinds.get(name, arrow.float64())) for name in Point._fields])
    written = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist([point._asdict() for point in points], schema), written)
    return written.getvalue()
