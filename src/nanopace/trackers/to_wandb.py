"""Weights & Biases, with nanoGPT's names. Without an account or a network, the run is stored on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from nanopace.trackers.tracker import Heading


class ToWandb:
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
