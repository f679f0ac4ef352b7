"""Reads CSV files of trackers: Lightning's metrics.csv, and W&B's exports.

epoch,step,train_loss,val_loss                          Lightning: no time; validation has separate lines
"Step","brisk-1 - train/loss","brisk-1 - train/loss__MIN",...    a W&B chart: no time; several runs in columns
,_step,_runtime,_timestamp,train/loss                   the history of a run, from W&B's API
"""

from __future__ import annotations

import csv

from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.trackers.history import History
from nanopace.sources.formats.trackers.names import LAST_STEPS, find_train
from nanopace.sources.scalars import to_number

_OF_RUN = " - "  # between the names of a run and a series, in a W&B chart
_RANGE = ("__MIN", "__MAX")
_MOST_COLUMNS = 2000
_MOST_RUNS = 64


class TableReader:
    """Reads any of the three: the first line shows which it is."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._columns: list[tuple[str, str]] = []  # run and series of each column
        self._runs: dict[str, History] = {}

    def feed(self, line: str) -> bool:
        cells = _cells(line)
        if not self._columns or find_train(dict.fromkeys(cells, 1)) is not None:
            return self._header(cells)
        if len(cells) != len(self._columns):
            return False
        values: dict[str, dict[str, float | None]] = {}
        for (run, name), cell in zip(self._columns, cells, strict=True):
            if name and cell:
                values.setdefault(run, {})[name] = to_number(cell)
        shared = values.pop("", {})
        for run, history in self._runs.items():
            own = {**shared, **values.get(run, {})}
            if own.keys() > shared.keys() or not run:
                history.add(own.get("_runtime", own.get("_timestamp")), own)
        return True

    def feed_cut(self, _line: str) -> bool:
        """Its last number may be incomplete."""
        return False

    def finish(self) -> None:
        for number, history in enumerate(self._runs.values()):
            if number:
                self._builder.begin_process(fresh=True)
            history.tell(self._builder, self._starts_s())

    def _starts_s(self) -> float | None:
        """Runtimes count from the start of the run; time stamps do not."""
        return 0.0 if ("", "_runtime") in self._columns else None

    def _header(self, cells: list[str]) -> bool:
        columns = []
        for cell in cells[:_MOST_COLUMNS]:
            run, _, name = cell.rpartition(_OF_RUN)
            columns.append((run, "" if cell.endswith(_RANGE) else name))
        names = {name for _, name in columns}
        if names.isdisjoint(LAST_STEPS) or not any("loss" in name.lower() for name in names):
            return False
        self._columns = columns
        runs = dict.fromkeys(run for run, name in columns if run and "loss" in name.lower())
        self._runs = {run: History() for run in [*runs][:_MOST_RUNS] or [""]}
        return True


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []
