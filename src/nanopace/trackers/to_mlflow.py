"""MLflow, at the tracking URI from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from nanopace.trackers.tracker import Heading


class ToMlflow:
    def __init__(self) -> None:
        self._mlflow: Any = import_module("mlflow")

    def open(self, heading: Heading) -> str | None:
        self._mlflow.set_experiment(heading.project)
        self._mlflow.start_run(run_name=heading.name)
        self._mlflow.log_params(dict(heading.config))
        return None

    def log(self, step: int, figures: Mapping[str, float], at_s: float | None) -> None:
        self._mlflow.log_metrics(dict(figures), step=step, timestamp=None if at_s is None else int(1000 * at_s))

    def close(self) -> None:
        self._mlflow.end_run()
