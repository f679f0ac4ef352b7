"""Checks the arguments of `Clock(...)` before training starts: the only place where a clock raises an error."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from nanopace.errors import UsageError
from nanopace.ledger.file import LEDGER_FILE

N = TypeVar("N", int, float)
_MOST = 2**53  # the ledger's largest count


def ledger_path(path: str | os.PathLike[str]) -> Path:
    """The ledger's path: `path` itself if it ends in .jsonl, else a file in the directory `path`."""
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError("path must be a file or a directory, not {value!r}", value=path)
    found = Path(path)
    return found if found.suffix == ".jsonl" else found / LEDGER_FILE


def scalars(config: Mapping[str, object] | None) -> dict[str, bool | int | float | str]:
    """The part of the config that a ledger can hold."""
    if config is not None and not isinstance(config, Mapping):
        raise UsageError("config must be a mapping of names to values, not {value!r}", value=config)
    return {str(name): value for name, value in (config or {}).items() if isinstance(value, (bool, int, float, str))}


def whole(name: str, value: int | None, least: int = 1) -> int | None:
    if value is not None and (type(value) is not int or not least <= value < _MOST):
        raise UsageError(
            "{name} must be a whole number of {least} or more, not {value!r}", name=name, least=least, value=value
        )
    return value


def positive(name: str, value: float | None) -> float | None:
    if value is not None and (type(value) not in (int, float) or not 0 < value < 1e30):
        raise UsageError("{name} must be a positive number, not {value!r}", name=name, value=value)
    return value
