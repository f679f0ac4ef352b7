"""Write a page to a file, completely or not at all, and never over anything that is not a page; and open it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nanopace.errors import InputError, reason_of

if TYPE_CHECKING:
    from nanopace.diagnosis.comparison import Comparison
    from nanopace.diagnosis.result import Diagnosis
    from nanopace.wording.catalog import Words


def report_page(results: Sequence[Diagnosis] | Sequence[Comparison], words: Words, command_line: Sequence[str]) -> str:
    """The page for the results of `explain` or `compare`, with its date and the command that made it."""
    import shlex
    from datetime import datetime

    from nanopace.diagnosis.result import Diagnosis
    from nanopace.views.page.page import Made, compare_page, explain_page

    now = datetime.now().astimezone()
    command = shlex.join(["nanopace", *command_line])
    made = Made(now.isoformat(timespec="seconds"), f"{now:%Y-%m-%d %H:%M}", command)
    diagnoses = [each for each in results if isinstance(each, Diagnosis)]
    if diagnoses:
        return explain_page(diagnoses, words, made)
    return compare_page([each for each in results if not isinstance(each, Diagnosis)], words, made)


def temporary_target() -> str:
    """For a page without a file name: a file that nobody else can have created. It stays until the system clears its
    temporary files."""
    import tempfile

    try:
        return os.path.join(tempfile.mkdtemp(prefix="nanopace-"), "report.html")
    except OSError as error:
        raise InputError("--open: {reason}", reason=reason_of(error)) from None


def open_in_browser(path: str) -> bool:
    """Open the page; return whether a browser could be asked to."""
    import webbrowser

    try:
        return webbrowser.open(Path(os.path.realpath(path)).as_uri())
    except (webbrowser.Error, OSError, ValueError):
        return False


def check_target(path: str) -> None:
    """Check that a page may be written there. `--html a.log b.log` is a slip and must not destroy a log."""
    if os.path.isdir(path):
        raise InputError("--html {path}: is a directory; name a file, such as report.html", path=path)
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise InputError("--html {path}: its directory does not exist; create it first", path=path)
    if not os.path.isfile(path):
        return
    try:
        with open(path, "rb") as file:
            opening = file.read(64)
    except OSError as error:
        raise _failed(path, error) from None
    if opening and not opening.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise InputError(
            "--html {path}: already exists and is not an HTML page, so it was not overwritten; choose another name",
            path=path,
        )


def write_page(path: str, page: str) -> None:
    """Replace the page atomically: readers see the old page or the new one."""
    from nanopace.files import atomic_file

    data = page.encode("utf-8", errors="replace")
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # /dev/stdout or a pipe
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
