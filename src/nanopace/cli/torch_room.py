"""The door to the torch room, for the commands that go through it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nanopace.errors import InputError, UsageError


@contextmanager
def torch_room(command: str) -> Iterator[None]:
    """What is not installed, and what the disk refuses, becomes one line. Import the room inside."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "torch").partition(".")[0]
        if package == "nanopace":
            raise
        raise UsageError(
            "nanopace {command} needs {package}: pip install 'nanopace[train]'", command=command, package=package
        ) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(
            "{path}: cannot be used: {reason}", path=error.filename or command, reason=error.strerror or str(error)
        ) from None
