"""Brings a hidden cursor back, however the process ends or stops."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import IO, Any

_SHOW, _HIDE = b"\x1b[?25h", b"\x1b[?25l"


class Cursor:
    """The cursor of the terminal behind `file`, which somebody else hides and shows as long as nothing goes wrong.

    SIGTERM ends a process, and Ctrl-Z stops it, without asking anybody. Who handles them itself, as the training loop
    does, comes after this and takes their place; of Ctrl-Z it passes on the stop.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._before: dict[signal.Signals, Any] = {}

    def guard(self) -> None:
        """The cursor is about to be hidden."""
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread may handle signals
        for number, handler in ((signal.SIGTERM, self._end), (getattr(signal, "SIGTSTP", None), self._stop)):
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                self._before[number] = signal.signal(number, handler)

    def release(self) -> None:
        """It is shown again."""
        for number in list(self._before):
            signal.signal(number, self._before.pop(number))

    def _end(self, number: int, _frame: FrameType | None) -> None:
        self._write(_SHOW)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        """This very thread stops itself, and all others with it, so that it knows when it went on."""
        self._write(_SHOW)
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        self._write(_HIDE)

    def _write(self, what: bytes) -> None:
        """Past all buffers and locks: a signal may come while somebody prints."""
        try:
            os.write(self._file.fileno(), what)
        except (OSError, ValueError):  # no terminal, or one that is gone
            return
