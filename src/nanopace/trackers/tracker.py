"""What every tracker can do, and which there are."""

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
    """What a tracker shows above the figures of a run."""

    project: str
    name: str
    config: Mapping[str, Value]
    directory: Path  # for those that write files of their own


class Tracker(Protocol):
    """One run in one tool. Any method may fail in any way: these are other people's libraries."""

    def open(self, heading: Heading) -> str | None:
        """Begin a run; a sentence for whoever watches, if there is something to say."""

    def log(self, step: int, figures: Mapping[str, float], at_s: float | None) -> None:
        """Figures of one step; `at_s` is when, as time.time() counts, None for now."""

    def close(self) -> None:
        """All figures are kept."""


def make_tracker(name: str, flag: str) -> Tracker:
    """The tracker of that name, which `flag` asked for. Its library is looked for now, not when training has begun."""
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
