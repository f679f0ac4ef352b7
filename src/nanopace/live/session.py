"""Watching one log, from its first line to the final comment."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from nanopace.live.comments import Comment, Say
from nanopace.live.last_words import Close
from nanopace.live.passthrough import Bytes, Copies, Pump
from nanopace.live.printer import Printer
from nanopace.live.watcher import Watcher
from nanopace.wording.catalog import Words

TICK_S = 0.25
_TURNS_S = 0.0005  # how long one thread may block the other: the lines must not wait for the diagnosis
_NO_ALERT = (None, "finished", "ended")


class Session:
    """Lines, comments and footer of one log. `tell` also receives each comment."""

    def __init__(
        self,
        source: Bytes,
        printer: Printer,
        make_watcher: Callable[[Say], Watcher],
        words: Words,
        *,
        footer: bool,
        quiet: bool = False,
        path: str | None = None,
        tell: Say | None = None,
    ) -> None:
        self._source, self._printer, self._words = source, printer, words
        self._watcher = make_watcher(self._say)
        self._footer, self._path = footer, path
        self._tell = tell
        self._copies = Copies()
        self._pump = Pump(source, printer, self._copies, silent=quiet)
        self._shown_s = 0.0
        self._complained = self._told_skipped = False

    def run(self, stop: threading.Event, exit_code: Callable[[], int | None] | None = None) -> None:
        """Watch until the log ends or `stop`; a file also until its run is finished. A command that writes it, and
        whose `exit_code` will be known, may still have work to do then, so wait for it.

        Whatever fails here, a pipe is read to its end first: a trainer that cannot print any more dies.
        """
        sys.setswitchinterval(_TURNS_S)
        self._pump.start()
        try:
            self._listen(stop, until_finished=self._source.may_wait and exit_code is None)
            self._watcher.finish(
                Close(
                    closed=not stop.is_set() or self._watcher.over,
                    left_out=self._copies.left_out,
                    partial=self._source.skipped > 0,
                    exit_code=None if exit_code is None else exit_code(),
                    path=self._path,
                )
            )
        except Exception as error:
            self._printer.comment(
                self._words.text("Reading failed: {error}. The lines still pass through.", error=error)
            )
            if not self._source.may_wait:
                self._pump.join()
            raise
        finally:
            self._printer.close()
            self._complain()

    def _listen(self, stop: threading.Event, *, until_finished: bool) -> None:
        while (piece := self._copies.get(TICK_S)) is not None:
            self._watcher.feed(piece)
            if piece.live and self._source.skipped and not self._told_skipped:
                self._told_skipped = True
                text = self._words.text(
                    "The log is long: {mb} MB in the middle are skipped. nanopace explain reads all of it.",
                    mb=self._words.count(self._source.skipped / 1e6),
                )
                self._printer.comment(text)
            if until_finished and self._watcher.over:
                stop.set()
            if time.monotonic() - self._shown_s >= TICK_S:
                self._shown_s = time.monotonic()
                self._printer.show(self._watcher.footer(self._width()) if self._footer else ())
                self._complain()

    def _width(self) -> int:
        try:
            return os.get_terminal_size(sys.stdout.fileno()).columns - 1  # some terminals wrap a completely full line
        except (OSError, ValueError):
            return 79

    def _say(self, comment: Comment) -> None:
        self._printer.comment(comment.text, "" if comment.event in _NO_ALERT else "alert")
        if self._tell is not None:
            self._tell(comment)

    def _complain(self) -> None:
        """Report once on stderr that the output accepts nothing any more."""
        if self._printer.failure is not None and not self._complained:
            self._complained = True
            said = self._words.text(
                "standard output: {reason}; output that cannot be printed is dropped, and training continues",
                reason=self._printer.failure,
            )
            print(f"nanopace: {said}", file=sys.stderr)
