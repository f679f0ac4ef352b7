"""The interface of a tracker, and the list of all trackers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from nanopace.errors import UsageError
from nanopace.literals import Value
from nanopace.spelling import nearest

TRACKERS: Mapping[str, str] = {
    "wandb": "nanopace.trackers.to_wandb:ToWandb",
    "tensorboard": "nanopace.trackers.to_tensorboard:ToTensorBoard",
    "trackio": "nanopace.trackers.to_trackio:ToTrackio",
    "mlflow": "nanopace.trackers.to_mlflow:ToMlflow",
}


class Heading(NamedTuple):
    """What a tracker shows at the top of a run."""

    project: str
    name: str
    config: Mapping[str, Value]
    directory: Path  # for trackers that write files


class Tracker(Protocol):
    """One run in one tool. Any method may raise anything: these are other people's libraries."""

    def open(self, heading: Heading) -> str | None:
        """Start a run. Return a message for the user, if there is one."""

    def log(self, step: int, figures: Mapping[str, float], at_s: float | None) -> None:
        """Record the figures of one step. `at_s` is the time as in time.time(); None: now."""

    def close(self) -> None:
        """Make sure that all figures are stored."""


def make_tracker(name: str, flag: str) -> Tracker:
    """The tracker called `name`, which `flag` asked for. A missing library is an error now, not during training."""
    if name not in TRACKERS:
        near = nearest(name, TRACKERS)
        if near is not None:
            raise UsageError("{flag}: unknown tracker; did you mean {near}?", flag=flag, near=near)
        raise UsageError("{flag}: unknown tracker; choose from {known}", flag=flag, known=", ".join(TRACKERS))
    try:
        import_module(name)
    except ImportError:
        raise UsageError("{flag}: needs {name}: pip install {name}", flag=flag, name=name) from None
    module, _, made = TRACKERS[name].partition(":")
    return cast(Tracker, getattr(import_module(module), made)())
