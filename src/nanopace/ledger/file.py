"""The ledger on disk: append events, read them, and survive whatever happens in between.

Each event is a single `write()` of a complete line to a file opened for appending. From then on, the kernel has it: a
killed process loses nothing it has written and tears at most its last line, and threads do not mix their lines.

Only a power cut can lose what the kernel has. `fsync` prevents that but takes milliseconds, too long for every step.
After a power cut, training resumes from the last checkpoint, so only what came before it must be safe. Therefore the
ledger is synced at run, checkpoint, resume and end events, where training pauses anyway.

A failing disk never stops training. Lines that cannot be written are kept in memory (the newest ones) and written when
the disk works again. If someone removes the ledger, a new one starts with the events that describe the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nanopace.errors import Message, reason_of
from nanopace.files import make_directory, open_own, sync_directory
from nanopace.ledger.codec import DamagedError, from_json, from_record, to_json
from nanopace.ledger.events import CheckpointEvent, EndEvent, Event, NoteEvent, ResumeEvent, RunEvent

LEDGER_FILE = "ledger.jsonl"  # in the run directory
SET_ASIDE = re.compile(r"ledger-\d+\.jsonl")  # of an earlier run that saved nothing
KEPT = 10_000  # lines that may wait for the disk: a few MB, or hours of training
# How each event that we write begins. Quotes inside strings are escaped, so this occurs only at the start of an event.
_START = '{"event":'
_SYNCED = (RunEvent, CheckpointEvent, ResumeEvent, EndEvent)
_OPENING = (RunEvent, ResumeEvent)  # the lines after them make no sense without these


def _ignore(_: object) -> None:
    pass


class LedgerWriter:
    """Appends events to a new or existing ledger."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        clock: Callable[[], float] = time.monotonic,
        began: float | None = None,
        on_event: Callable[[Event], object] = _ignore,
        on_trouble: Callable[[str], object] = _ignore,
        home: Callable[[], Path] | None = None,
    ) -> None:
        """`path`: None writes nothing: with several processes, only the first one has a ledger.

        `began`: when the process started, on the same clock. Time stamps count from there (default: from now).

        `on_event` is called with every appended event, after it is written.

        `on_trouble` is called once when the disk stops accepting lines, and once when it accepts them again.

        `home` is called before each line and returns the run's current directory. If that has changed, a new ledger
        starts there.
        """
        self._path, self._clock, self._home = Path(path or os.devnull), clock, home
        self._on_event, self._on_trouble = on_event, on_trouble
        self._directory = self._path.parent
        self._began = clock() if began is None else began
        self._turn = threading.RLock()  # a signal handler may append in the middle of an append
        self._waiting: deque[bytes] = deque(maxlen=KEPT)
        self._lost = 0
        self._trouble: str | None = None
        self._opening: list[bytes] = []
        self._name_is_synced = self._torn = False
        self._file = -1
        if path is not None:
            self._open()

    @property
    def path(self) -> Path:
        return self._path

    @property
    def waiting(self) -> int:
        """The number of lines not yet written."""
        return len(self._waiting)

    def append(self, event: Event) -> None:
        """Write one event, and pass it to the listener."""
        self.write(event)
        self._on_event(event)

    def note(self, text: str, iteration: int) -> None:
        """Append a message to the user."""
        self.append(NoteEvent(text, iteration))

    def write(self, event: Event) -> None:
        """Write one line, with the current time unless it has a time stamp. A disk that refuses it is not an error."""
        if self._file < 0:
            return
        line = to_json(event, at_ms=round((self._clock() - self._began) * 1000, 3)).encode("ascii") + b"\n"
        synced = isinstance(event, _SYNCED)
        with self._turn:
            try:
                self._follow()
                if synced:
                    self._look_after_it()
                self._catch_up()
                self._write_line(line)
            except OSError as error:
                self._keep(line, error)
                return
            finally:
                if isinstance(event, _OPENING):
                    self._opening.append(line)
            try:
                if synced:
                    self.sync()
            except OSError as error:  # the line is in the file, but may not be on disk
                self._in_trouble(error)
                return
            if self._trouble is not None:
                self._recovered()

    def write_together(self, texts: Sequence[str]) -> None:
        """Write several lines that have time stamps with one write(), for a writer that collects them. Never syncs."""
        lines = [text.encode("ascii") + b"\n" for text in texts]
        if self._file < 0 or not lines:
            return
        with self._turn:
            try:
                self._follow()
                self._catch_up()
            except OSError as error:
                self._keep_all(lines, error)
                return
            whole, sent = b"\n" * self._torn + b"".join(lines), 0
            try:
                while sent < len(whole):
                    sent += os.write(self._file, whole[sent:])
            except OSError as error:
                done = max(0, whole[:sent].count(b"\n") - self._torn)
                self._torn = not whole[:sent].endswith(b"\n") if sent else self._torn
                if self._torn and sent and whole[sent - 1 : sent + 1] == b"}\n":
                    done += 1  # only its newline is missing, and the next line supplies that
                self._keep_all(lines[done:], error)
                return
            self._torn = False
            if self._trouble is not None:
                self._recovered()

    def sync(self) -> None:
        """Wait until everything written, and the file's name, is on disk."""
        os.fsync(self._file)
        if not self._name_is_synced:
            sync_directory(self._path.parent)
            self._name_is_synced = True

    def close(self) -> None:
        if self._file < 0:
            return
        with contextlib.suppress(OSError):  # closing must work on a full disk, too
            self._follow()
            self._catch_up()
            self.sync()
        if self._waiting:
            count = self._lost + len(self._waiting)
            self._on_trouble(
                Message("{path}: lines that could not be written: {count:,}", path=self._path, count=count)
            )
        os.close(self._file)
        self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the file ----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._file = open_own(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self._torn = not self._ends_with_newline()
        self._name_is_synced = False  # even if the file existed: whoever created it may have been killed

    def _write_line(self, line: bytes) -> None:
        if self._torn:  # a process died in the middle of a line: keep what it wrote, and start a new line
            line = b"\n" + line
        written = os.write(self._file, line)
        self._torn = written < len(line)
        while written < len(line) - 1:  # usually a full disk: the next write then raises the error
            written += os.write(self._file, line[written:])
        if written < len(line):  # only the newline is missing: if this fails, the next line supplies it
            with contextlib.suppress(OSError):
                written += os.write(self._file, line[written:])
        self._torn = written < len(line)

    def _look_after_it(self) -> None:
        """Start anew if someone removed or replaced the file or its directory."""
        own = os.fstat(self._file)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            there = os.stat(self._path)
            if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino):
                return
        make_directory(self._path.parent)
        if self._begins_anew():
            self._on_trouble(Message("{path} was removed; starting a new one", path=self._path))

    def _follow(self) -> None:
        """Move to the run's new directory, if it has changed. Nothing more is written to the old file."""
        if self._home is None or (directory := self._home()) == self._directory:
            return
        before, self._path = self._path, directory / self._path.name
        try:
            self._begins_anew()
        except OSError:
            self._path = before
            raise
        self._directory = directory

    def _begins_anew(self) -> bool:
        """Open the file at the path. Return whether it is empty; if so, write the events that describe the run."""
        before = self._file
        self._open()
        os.close(before)
        empty = os.fstat(self._file).st_size == 0
        for line in self._opening if empty else ():
            if line not in self._waiting:
                self._write_line(line)
        return empty

    def _ends_with_newline(self) -> bool:
        size = os.fstat(self._file).st_size
        if size == 0:
            return True
        os.lseek(self._file, size - 1, os.SEEK_SET)  # only reading uses the position: O_APPEND writes at the end
        return os.read(self._file, 1) == b"\n"

    # --- a disk that refuses lines -----------------------------------------------------------------------------------

    def _keep_all(self, lines: Iterable[bytes], error: OSError) -> None:
        for line in lines:
            self._keep(line, error)

    def _keep(self, line: bytes, error: OSError) -> None:
        self._lost += len(self._waiting) == self._waiting.maxlen
        self._waiting.append(line)
        self._in_trouble(error)

    def _catch_up(self) -> None:
        while self._waiting:
            self._write_line(self._waiting[0])
            self._waiting.popleft()

    def _in_trouble(self, error: OSError) -> None:
        if self._trouble is None:
            self._trouble = reason_of(error)
            self._on_trouble(
                Message(
                    "cannot write {path}: {reason}; training continues, and nanopace keeps trying",
                    path=self._path,
                    reason=self._trouble,
                )
            )

    def _recovered(self) -> None:
        self._trouble = None
        text = Message("{path} can be written again; nothing is missing", path=self._path)
        if self._lost:
            text = Message("{path} can be written again; lines lost: {count:,}", path=self._path, count=self._lost)
        self._on_trouble(text)
        self._lost = 0


@dataclass(slots=True)
class EventReader:
    """Reads a ledger line by line, and counts the lines it could not use."""

    damaged: int = 0  # torn lines, garbage, known events with wrong types
    unknown: int = 0  # events of a later version

    def read(self, line: str) -> list[Event]:
        """The events in a line: usually one, or none, or several if lines ran together."""
        line = line.strip("\0\r\n\t ")  # a file system may pad with NULs after a power cut
        if not line:
            return []
        try:
            event = from_json(line)
        except DamagedError:
            return self._salvage(line)
        if event is None:
            self.unknown += 1
            return []
        return [event]

    def _salvage(self, line: str) -> list[Event]:
        """Complete events between fragments: another program wrote to the ledger, or a line was torn."""
        self.damaged += 1
        events = []
        for part in line.split(_START)[1:]:
            try:
                record, _ = _DECODER.raw_decode(_START + part)
                event = from_record(record)
            except (ValueError, RecursionError):  # includes DamagedError
                continue
            if event is not None:
                events.append(event)
        return events


@dataclass(frozen=True, slots=True)
class Ledger:
    """The contents of a ledger, in order."""

    events: tuple[Event, ...]
    damaged: int = 0
    unknown: int = 0


def read_ledger(lines: Iterable[str | bytes]) -> Ledger:
    """Read all complete events from an open file (text or binary) or a list of lines."""
    reader = EventReader()
    events: list[Event] = []
    for line in lines:
        events += reader.read(line.decode("utf-8", "replace") if isinstance(line, bytes) else line)
    return Ledger(tuple(events), reader.damaged, reader.unknown)


_DECODER = json.JSONDecoder()
