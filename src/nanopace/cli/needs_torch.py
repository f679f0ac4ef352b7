"""For commands that need torch: report a missing package or a file error in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nanopace.errors import InputError, UsageError, reason_of


@contextmanager
def needs_torch(command: str) -> Iterator[None]:
    """Turn a missing package or an OSError into a one-line error. Import nanopace.train inside."""
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
            "{path}: cannot be used: {reason}", path=error.filename or command, reason=reason_of(error)
        ) from None
