"""Which file to watch: one that may not exist yet, or the newest log in a directory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from nanopace.compressed import decompressed
from nanopace.errors import InputError, reason_of
from nanopace.sources.opening import find_logs
from nanopace.wording.catalog import Words

_LOOK_S = 0.1  # for a file that does not exist yet
_SEARCH_S = 1.0  # for a log in a directory that has none yet


def chosen(path: str, words: Words, tell: Callable[[str], None]) -> str:
    """The file to watch; for a directory, the log that was written last, as soon as there is one."""
    if not os.path.exists(path):
        announce(path, words, tell)
        while not os.path.exists(path):
            time.sleep(_LOOK_S)
    if os.path.isdir(path):
        told = False
        while not (log := newest(path)):
            if not told:
                tell(words.text("{path}: contains no log yet; waiting for one", path=path))
            told = True
            time.sleep(_SEARCH_S)
        tell(log)
        return log
    try:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                if decompressed(file) is not file:
                    raise InputError("{path}: is compressed and cannot grow; try nanopace explain {path}", path=path)
    except OSError as error:
        raise InputError("{path}: cannot be read: {reason}", path=path, reason=reason_of(error)) from None
    return path


def announce(path: str, words: Words, tell: Callable[[str], None]) -> None:
    """Tell that a path does not exist yet; one that never can is an error."""
    if not os.path.isdir(os.path.dirname(path.rstrip("/")) or "."):
        raise InputError("{path}: no such file", path=path)
    tell(words.text("{path}: does not exist yet; waiting for it", path=path))


def newest(directory: str, fits: Callable[[str], bool] = lambda _: True) -> str | None:
    """The log that was written last, among those that fit."""
    written = {}
    for log in map(str, find_logs(directory)):
        if fits(log):
            with suppress(OSError):  # it may just have been removed
                written[log] = os.path.getmtime(log)
    return max(written, key=lambda log: written[log], default=None)
