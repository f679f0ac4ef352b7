"""GPT-2 by the name that it has on the hub."""

from __future__ import annotations

from pathlib import Path

from nanopace.errors import UsageError


def find_model(name: str, download: bool = False) -> Path:  # noqa: ARG001, until it asks the hub
    """The directory of a model that is here already."""
    if Path(name).exists():
        return Path(name)
    raise UsageError("--init_from={name}: is not here; download it into ./{name}", name=name)
