"""The ledger on disk: append an event, read what is there, and survive whatever happened in between.

Every event is one `write()` of one whole line to a file opened for appending. The kernel has it from then on, so a
killed process loses nothing that it wrote and tears at most its last line; threads that write do not mix their lines.

Only a power cut can take away what the kernel has. `fsync` guards against that, and costs milliseconds: too much for
every step. After a power cut training goes on from the last checkpoint, so what must not be lost is what came before
it. Hence the ledger is synced with run, checkpoint, resume and end events, where training stands still anyway.

No disk ends a training. What cannot be written is kept, the newest lines of it, and written once the disk is back; a
ledger that somebody removed begins anew, with the events that introduced the run.
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
from nanopace.ledger.events import CheckpointEvent, EndEvent, Event, ResumeEvent, RunEvent

LEDGER_FILE = "ledger.jsonl"  # in the directory of a run
SET_ASIDE = re.compile(r"ledger-\d+\.jsonl")  # of a run that saved nothing, where another has begun since
KEPT = 10_000  # lines that wait for a disk at most: some MB, and hours of training
# How every event begins that we write. A quote inside a text is escaped, so this stands at the start of events only.
_START = '{"event":'
_SYNCED = (RunEvent, CheckpointEvent, ResumeEvent, EndEvent)
_OPENING = (RunEvent, ResumeEvent)  # without them nobody could tell what the lines after them are about


def _ignore(_: object) -> None:
    pass


class LedgerWriter:
    """Appends events to a ledger, which may exist already."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        clock: Callable[[], float] = time.monotonic,
        began: float | None = None,
        on_event: Callable[[Event], object] = _ignore,
        on_trouble: Callable[[str], object] = _ignore,
        home: Callable[[], Path] | None = None,
    ) -> None:
        """`path`: None writes nowhere: where several processes train, only the first one has a ledger.

        `began`: when the process did, by the same clock; its stamps count from there, and else from now.

        `on_event` hears of every event that is appended, after it is written.

        `on_trouble` hears, once, that the disk takes no more lines, and once that it does again.

        `home` says before each line which directory is the run's by now: where it is another one, the ledger begins
        anew there.
        """
        self._path, self._clock, self._home = Path(path or os.devnull), clock, home
        self._on_event, self._on_trouble = on_event, on_trouble
        self._directory = self._path.parent
        self._began = clock() if began is None else began
        self._turn = threading.RLock()  # a signal's handler may append in the middle of an append
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
        """Lines that are not on the disk yet."""
        return len(self._waiting)

    def append(self, event: Event) -> None:
        """Write one event, and tell whoever listens of it."""
        self.write(event)
        self._on_event(event)

    def write(self, event: Event) -> None:
        """One line, stamped with the time if it has no stamp of its own. A disk that refuses it is no error."""
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
            except OSError as error:  # the line is in the file, and may or may not be on the disk
                self._in_trouble(error)
                return
            if self._trouble is not None:
                self._recovered()

    def write_together(self, texts: Sequence[str]) -> None:
        """Lines of events with their stamps, in one write(): for a writer that gathers them. None is synced."""
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
                    done += 1  # only its end is missing, and the next line brings that
                self._keep_all(lines[done:], error)
                return
            self._torn = False
            if self._trouble is not None:
                self._recovered()

    def sync(self) -> None:
        """Wait until everything written is on the disk, and so is the file's name."""
        os.fsync(self._file)
        if not self._name_is_synced:
            sync_directory(self._path.parent)
            self._name_is_synced = True

    def close(self) -> None:
        if self._file < 0:
            return
        with contextlib.suppress(OSError):  # closing must work on a full disk too
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
        self._name_is_synced = False  # also where it was there before: who made it may have been killed

    def _write_line(self, line: bytes) -> None:
        if self._torn:  # somebody died in the middle of a line: what they wrote stays, and we begin on a fresh one
            line = b"\n" + line
        written = os.write(self._file, line)
        self._torn = written < len(line)
        while written < len(line) - 1:  # a full disk, mostly: the next round then says so
            written += os.write(self._file, line[written:])
        if written < len(line):  # its end alone is missing: where that fails, the next line brings it
            with contextlib.suppress(OSError):
                written += os.write(self._file, line[written:])
        self._torn = written < len(line)

    def _look_after_it(self) -> None:
        """Somebody may have removed the file, or its directory, or put another in its place."""
        own = os.fstat(self._file)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            there = os.stat(self._path)
            if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino):
                return
        make_directory(self._path.parent)
        if self._begins_anew():
            self._on_trouble(Message("{path} was removed; starting a new one", path=self._path))

    def _follow(self) -> None:
        """The run's directory may be another's by now: then nothing more is written into the file that was there."""
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
        """Open what is there by now. Where that is empty, the run introduces itself again."""
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
        os.lseek(self._file, size - 1, os.SEEK_SET)  # only reading looks at the position: O_APPEND writes at the end
        return os.read(self._file, 1) == b"\n"

    # --- a disk that takes no more -----------------------------------------------------------------------------------

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
    """Takes the lines of a ledger one by one, and counts what was not to be read."""

    damaged: int = 0  # torn lines, garbage, known events with wrong types
    unknown: int = 0  # events of a later version

    def read(self, line: str) -> list[Event]:
        """The events of a line: one, or none, or several where lines ran into each other."""
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
        """Whole events between fragments: something else wrote into the ledger, or a line was torn and not ended."""
        self.damaged += 1
        events = []
        for part in line.split(_START)[1:]:
            try:
                record, _ = _DECODER.raw_decode(_START + part)
                event = from_record(record)
            except (ValueError, RecursionError):  # DamagedError is one of them
                continue
            if event is not None:
                events.append(event)
        return events


@dataclass(frozen=True, slots=True)
class Ledger:
    """All that a ledger says, in its order."""

    events: tuple[Event, ...]
    damaged: int = 0
    unknown: int = 0


def read_ledger(lines: Iterable[str | bytes]) -> Ledger:
    """Every whole event of the lines: of an open file, text or binary, or of a list."""
    reader = EventReader()
    events: list[Event] = []
    for line in lines:
        events += reader.read(line.decode("utf-8", "replace") if isinstance(line, bytes) else line)
    return Ledger(tuple(events), reader.damaged, reader.unknown)


_DECODER = json.JSONDecoder()
