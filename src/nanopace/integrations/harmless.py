"""A failing hook of a callback must not stop training."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec

P = ParamSpec("P")


def harmless(hook: Callable[P, None]) -> Callable[P, None]:
    """Wrap a hook: if it fails, it warns, and its callback does nothing more."""

    @wraps(hook)
    def safe(*args: P.args, **kwargs: P.kwargs) -> None:
        callback: Any = args[0]
        if getattr(callback, "failed", False):
            return
        try:
            hook(*args, **kwargs)
        except Exception as error:  # another version of the library, for example
            callback.failed = True
            with suppress(Exception):
                text = f"nanopace: the clock is off, and training continues: {type(error).__name__}: {error}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)

    return safe
