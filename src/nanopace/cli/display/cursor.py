"""Restores a hidden cursor, however the process ends or stops."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import IO, Any

_SHOW, _HIDE = b"\x1b[?25h", b"\x1b[?25l"


class Cursor:
    """The cursor of the terminal behind `file`. Other code hides and shows it as long as nothing goes wrong.

    SIGTERM ends a process and Ctrl-Z stops it without further notice. Code with its own handlers, such as the training
    loop, installs them later and replaces these; for Ctrl-Z, it passes the stop on.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._before: dict[signal.Signals, Any] = {}

    def guard(self) -> None:
        """Call before the cursor is hidden."""
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread may handle signals
        for number, handler in ((signal.SIGTERM, self._end), (getattr(signal, "SIGTSTP", None), self._stop)):
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                self._before[number] = signal.signal(number, handler)

    def release(self) -> None:
        """Call after it is shown again."""
        for number in list(self._before):
            signal.signal(number, self._before.pop(number))

    def _end(self, number: int, _frame: FrameType | None) -> None:
        self._write(_SHOW)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        """Stop this thread, and all others with it, so that it notices when it continues."""
        self._write(_SHOW)
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        self._write(_HIDE)

    def _write(self, what: bytes) -> None:
        """Bypass all buffers and locks: the signal may arrive in the middle of a print."""
        try:
            os.write(self._file.fileno(), what)
        except (OSError, ValueError):  # no terminal, or it is gone
            return
