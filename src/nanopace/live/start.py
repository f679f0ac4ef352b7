"""A command that is started to be watched: it prints into a file and continues whatever happens to us."""

from __future__ import annotations

import os
import shutil
import subprocess

from nanopace.errors import InputError, UsageError, reason_of


def started(command: list[str], log: str) -> subprocess.Popen[bytes]:
    """Start the command, which appends each line to the log at once."""
    if shutil.which(command[0]) is None:  # before the log is created
        raise _not_started(command, log, "no such program")
    try:
        with open(log, "ab") as out:
            environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
            environ.pop("PYTHONSAFEPATH", None)  # ours: a trainer imports from its own directory
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environ,
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        if getattr(error, "filename", None) == log:
            raise InputError("--log {path}: cannot be written: {reason}", path=log, reason=reason_of(error)) from None
        raise _not_started(command, log, reason_of(error)) from None


def _not_started(command: list[str], log: str, reason: str) -> UsageError:
    return UsageError(
        "--log {path}: {command}: cannot be started: {reason}", path=log, command=command[0], reason=reason
    )
