"""A clock for a training that another trainer starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from nanopace.clock import Clock


def started_clock(
    path: str | os.PathLike[str], model: object, facts: Mapping[str, Any], given: Mapping[str, Any]
) -> Clock:
    """Create a clock and count the time so far as start-up. `given` (by the user) overrides `facts`, knob by knob."""
    config = {**facts["config"], **given.get("config", {})}
    clock = Clock(path, **{"parameters": _parameters(model), **facts, **given, "config": config})
    clock.passed(clock.phase("startup"))
    return clock


def _parameters(model: Any) -> int | None:
    """The number of weights in a torch module. Tied weights count once."""
    with suppress(Exception):
        return sum(int(each.numel()) for each in model.parameters()) or None
    return None
