"""Writing a page to a file: all of it or nothing, and never over something that is not a page."""

from __future__ import annotations

import os

from nanopace.errors import InputError


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
    """Beside the target first, then renamed: whoever looks sees the old page or the new one."""
    data = page.encode("utf-8", errors="replace")
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # /dev/stdout, or a pipe
            with open(path, "wb") as file:
                file.write(data)
            return
        target = os.path.realpath(path)
        beside = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{os.getpid()}")
        try:
            with open(beside, "xb") as file:
                file.write(data)
            os.replace(beside, target)
        except BaseException:
            if os.path.exists(beside):
                os.unlink(beside)
            raise
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _failed(path, error) from None


def _failed(path: str, error: OSError) -> InputError:
    return InputError("--html {path}: {reason}", path=path, reason=error.strerror or str(error))
