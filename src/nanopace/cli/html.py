"""Writing a page to a file: all of it or nothing, and never over something that is not a page."""

from __future__ import annotations

import os
from pathlib import Path

from nanopace.errors import InputError, reason_of


def check_target(path: str) -> None:
    """Whether a page may be written there. `--html a.log b.log` is a slip, and must not cost a log."""
    if os.path.isdir(path):
        raise InputError("--html {path}: is a directory", path=path)
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise InputError("--html {path}: there is no such directory", path=path)
    if not os.path.isfile(path):
        return
    try:
        with open(path, "rb") as file:
            opening = file.read(64)
    except OSError as error:
        raise _failed(path, error) from None
    if opening and not opening.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise InputError("--html {path}: is there already, is no HTML page, and is not overwritten", path=path)


def write_page(path: str, page: str) -> None:
    """Whoever looks meanwhile sees the old page or the new one."""
    from nanopace.files import atomic_file

    data = page.encode("utf-8", errors="replace")
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # /dev/stdout, or a pipe
            with open(path, "wb") as file:
                file.write(data)
            return
        with atomic_file(Path(os.path.realpath(path)), durable=False) as target:
            target.write(data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _failed(path, error) from None


def _failed(path: str, error: OSError) -> InputError:
    return InputError("--html {path}: {reason}", path=path, reason=reason_of(error))
