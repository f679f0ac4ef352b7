"""One class for each tool, which deals only with its library, and imports it when a run asks for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from nanopace.errors import Message, UsageError
from nanopace.spelling import nearest
from nanopace.trackers.tracker import Heading, Tracker

_FLUSH_S = 10  # what a kill may cost TensorBoard; its library's default is two minutes


class ToWandb:
    """Weights & Biases, with nanoGPT's names. Without an account or a network, the run is stored on this machine."""

    def __init__(self) -> None:
        self._wandb: Any = import_module("wandb")

    def open(self, heading: Heading) -> str | None:
        known: dict[str, Any] = {"project": heading.project, "name": heading.name, "config": dict(heading.config)}
        if "WANDB_MODE" in os.environ:
            self._wandb.init(**known)
            return None
        try:
            online = self._has_key()  # without a key, it would ask and wait for an answer
            self._wandb.init(**known, mode="online" if online else "offline")
        except Exception:  # anything: the network may be down, or the key wrong
            self._wandb.init(**known, mode="offline")
        return None  # it prints where the run is, and how to send it later

    def log(self, step: int, figures: Mapping[str, float], at_s: float | None) -> None:
        stamp = {} if at_s is None else {"_timestamp": at_s}
        self._wandb.log({"iter": step, **figures, **stamp})

    def close(self) -> None:
        self._wandb.finish()

    def _has_key(self) -> bool:
        try:
            return bool(self._wandb.login(prompt=False, verify=False))
        except TypeError:  # before 2026
            return bool(self._wandb.api.api_key)


class ToTensorBoard:
    """TensorBoard's event files, written by TensorBoard's library, without torch."""

    def __init__(self) -> None:
        self._writer: Any = None
        self._event: Any = import_module("tensorboard.compat.proto.event_pb2").Event
        self._summary: Any = import_module("tensorboard.compat.proto.summary_pb2").Summary

    def open(self, heading: Heading) -> str | None:
        files = import_module("tensorboard.summary.writer.event_file_writer")
        self._writer = files.EventFileWriter(str(heading.directory), flush_secs=_FLUSH_S)
        return Message("to see the figures: tensorboard --logdir {directory}", directory=heading.directory)

    def log(self, step: int, figures: Mapping[str, float], at_s: float | None) -> None:
        values = [self._summary.Value(tag=tag, simple_value=value) for tag, value in figures.items()]
        at_s = time.time() if at_s is None else at_s
        self._writer.add_event(self._event(wall_time=at_s, step=step, summary=self._summary(value=values)))

    def close(self) -> None:
        self._writer.close()


class ToTrackio:
    """Trackio, which stores its runs on this machine."""

    def __init__(self) -> None:
        self._trackio: Any = import_module("trackio")

    def open(self, heading: Heading) -> str | None:
        sensors = {"auto_log_gpu": False, "auto_log_cpu": False}  # the ledger has the card's sensors
        self._trackio.init(project=heading.project, name=heading.name, config=dict(heading.config), **sensors)
        return None  # it prints where to look

    def log(self, step: int, figures: Mapping[str, float], at_s: float | None) -> None:  # noqa: ARG002, it has no clock
        self._trackio.log(dict(figures), step=step)

    def close(self) -> None:
        self._trackio.finish()


class ToMlflow:
    """MLflow, at the tracking URI from the environment."""

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


TRACKERS: Mapping[str, Callable[[], Tracker]] = {
    "wandb": ToWandb,
    "tensorboard": ToTensorBoard,
    "trackio": ToTrackio,
    "mlflow": ToMlflow,
}


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
    return TRACKERS[name]()
