"""All followed runs: finds them, and decides which to read next within a time budget."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

from nanopace.diagnosis.result import Diagnosis
from nanopace.live.web.followed import Followed
from nanopace.live.web.source import FileSource, Source
from nanopace.run import Run
from nanopace.sources.opening import find_logs
from nanopace.sources.processes.rank_files import RankFiles, group_rank_files

SHARE = 20.0  # rest this many times the cost of a reading and its consequences: a twentieth of a core, ...
BUSY_SHARE = 200.0  # ... or half a per cent of one if all cores are busy
MOST_REST_S = 300.0
FIND_S = 2.0  # minimum between two searches of the directories
AT_ONCE_S = 0.2  # for first readings, before anything else has a turn
MOST_HELD = 6  # logs whose diagnoses stay in memory; the list needs none


class Key(NamedTuple):
    """A run: the name of its log, and its number in that log."""

    log: str
    number: int = 0

    def __str__(self) -> str:
        return self.log if not self.number else f"{self.log}@{self.number + 1}"


class Library:
    """`look` keeps it up to date; use it from one thread only."""

    def __init__(
        self,
        paths: Sequence[str],
        read: Callable[[str | BinaryIO], list[Run]],
        *,
        silent_s: float | None = None,
        pipe: Source | None = None,
        now: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.process_time,
    ) -> None:
        """`spent`: CPU time of this process, including rendering and sending."""
        self._read, self._silent_s, self._now, self._spent = read, silent_s, now, spent
        self._paths = list(paths)  # some may not exist yet
        self._logs: dict[str, Followed] = {}
        self._followed: set[str] = set()  # paths
        self._held: list[str] = []  # the most recently requested one is last
        self._find_s = self._read_s = -math.inf
        self._spent_s: float | None = None  # CPU time before the last reading, until its cost is known
        self._cost_s = 0.0  # CPU time of the last reading and its consequences
        self.wanted: frozenset[str] = frozenset()  # names of logs that someone is looking at: they come first
        self.is_watched = True  # by anyone: else nothing is read a second time
        if pipe is not None:
            self._follow("stdin", pipe)

    def look(self) -> set[str]:
        """Read what is due, and return the names of logs that have changed."""
        now = self._now()
        if self._spent_s is not None:  # by now, what was read is rendered and sent
            self._cost_s, self._spent_s = self._spent() - self._spent_s, None
        changed = {name for name, log in self._logs.items() if log.look(now)}
        if now >= self._find_s:
            changed |= self._find(now)
        end = now + AT_ONCE_S
        for log in self._newest(log for log in self._logs.values() if not log.is_read and log.has_news):
            self._read_again(log)
            changed.add(log.name)
            if self._now() >= end:
                return changed
        if self.is_watched and now - self._read_s >= self._rest_s():
            due = [log for log in self._logs.values() if log.has_news]
            due.sort(key=lambda log: log.name not in self.wanted)
            for log in due[:1]:
                self._read_s, self._spent_s = now, self._spent()
                self._read_again(log)
                changed.add(log.name)
        return changed

    def _rest_s(self) -> float:
        """How long to wait before reading again. Only CPU time counts: a reading may take a minute on busy cores."""
        return min(MOST_REST_S, (BUSY_SHARE if cores_are_busy() else SHARE) * self._cost_s)

    @property
    def keys(self) -> list[Key]:
        """All runs, newest first."""
        return [
            Key(log.name, number)
            for log in self._newest(self._logs.values())
            for number in reversed(range(len(log.listed)))
        ]

    @property
    def is_one_log(self) -> bool:
        return len(self._logs) == 1 and not any(map(os.path.isdir, self._paths))

    @property
    def waiting(self) -> list[Followed]:
        """Logs without any row yet."""
        return [log for log in self._logs.values() if not log.listed]

    def find(self, text: str) -> Key | None:
        """Look up a name from a URL: names from outside are never opened, only looked up here."""
        name, _, number = text.rpartition("@")
        for key in (Key(text), Key(name, int(number) - 1) if number.isdecimal() and len(number) < 6 else Key(text)):
            if key.log in self._logs and 0 <= key.number < len(self._logs[key.log].listed):
                return key
        return None

    def log(self, key: Key) -> Followed:
        return self._logs[key.log]

    def run(self, key: Key) -> Diagnosis | None:
        """The run's diagnosis, which stays in memory for a while."""
        found = self._logs[key.log].run(key.number)
        self._hold(key.log)
        return found

    # --- reading -----------------------------------------------------------------------------------------------------

    def _follow_file(self, path: str, root: str, *, rotates: bool = False) -> None:
        """Follow a file. Its name is relative to its root, or the full path if that name is taken."""
        if path in self._followed:
            return
        self._followed.add(path)
        name = os.path.relpath(path, root or ".")
        if name in self._logs:
            name = path
        self._follow(name, FileSource(path, self._read, rotates=rotates))

    def _follow(self, name: str, source: Source) -> None:
        self._logs[name] = Followed(name, source, self._now(), self._silent_s)

    def _find(self, now: float) -> set[str]:
        """Find new logs. A log that disappears is kept: during a rotation, there is no file for a moment."""
        began_s = time.thread_time()
        before = set(self._logs)
        for path in self._paths:
            if os.path.isdir(path):
                for found in group_rank_files(find_logs(path)):
                    self._follow_file(str(found.source if isinstance(found, RankFiles) else found), path)
            elif os.path.exists(path):
                self._follow_file(path, os.path.dirname(path), rotates=True)
        self._find_s = now + max(FIND_S, SHARE * (time.thread_time() - began_s))
        return set(self._logs) - before

    def _read_again(self, log: Followed) -> None:
        log.read()
        self._hold(log.name)

    def _hold(self, name: str) -> None:
        """Keep only the last few diagnoses, and those that someone is looking at."""
        self._held = [*(each for each in self._held if each != name), name]
        spare = [each for each in self._held if each not in self.wanted]
        for each in spare[:-MOST_HELD]:
            self._logs[each].drop()
            self._held.remove(each)

    def _newest(self, logs: Iterable[Followed]) -> Iterator[Followed]:
        return iter(sorted(logs, key=lambda log: (-log.written_s, log.name)))


def cores_are_busy() -> bool:
    """Whether the page would take a core that a training could use."""
    try:
        return os.getloadavg()[0] > (os.cpu_count() or 1) - 1
    except (OSError, AttributeError):  # Windows
        return True
