"""Where a run comes from: a log that is read again when it changes, or a pipe that is read elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Protocol

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.live.document import document_format
from nanopace.live.web.rotation import Parts
from nanopace.run import Run

_MOST_FILES = 1000  # of a run with one file per rank


class Source(Protocol):
    @property
    def is_document(self) -> bool:
        """Whether it is written occasionally rather than line by line."""

    def mark(self) -> object:
        """A value that changes once there is more to read; None if nothing is there."""

    def age_s(self) -> float:
        """How long ago the file was written."""

    def diagnoses(self) -> list[Diagnosis]:
        """Diagnose all its runs. Raises an InputError if there is none."""


class FileSource:
    """A log file, or a directory with one file per rank. Reading all of it again is fast (864,000 rows take 0.3 s) and
    gives the same result as `explain`, through truncation and rewriting. If it `rotates`, the older parts belong to it;
    in a watched directory they are logs of their own."""

    def __init__(self, path: str, read: Callable[[str | BinaryIO], list[Run]], *, rotates: bool = False) -> None:
        self._path, self._read = path, read
        # Windows lets nobody rename a file that is open. A ledger is set aside by its trainer, for a new run.
        can_rotate = os.name != "nt" and not self.is_document and not path.endswith(".jsonl")
        self._parts = Parts(path) if rotates and can_rotate else None

    @property
    def is_document(self) -> bool:
        return document_format(self._path) is not None

    def mark(self) -> object:
        try:
            about = os.stat(self._path)
            if not os.path.isdir(self._path):
                return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns
            return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in map(os.stat, self._files()))
        except OSError:
            return None

    def age_s(self) -> float:
        written = [0.0]
        for path in self._files() if os.path.isdir(self._path) else [self._path]:
            with suppress(OSError):
                written.append(os.path.getmtime(path))
        return max(0.0, time.time() - max(written))

    def diagnoses(self) -> list[Diagnosis]:
        return [diagnose(run) for run in self._read(self._path if self._parts is None else self._parts.log())]

    def _files(self) -> list[str]:
        found = [os.path.join(folder, name) for folder, _, names in os.walk(self._path) for name in names]
        return sorted(found)[:_MOST_FILES]


class PipeSource:
    """Standard input, which is read and diagnosed by the code that passes it on."""

    is_document = False

    def __init__(self, last: Callable[[], Diagnosis | None]) -> None:
        self._last = last

    def mark(self) -> object:
        diagnosis = self._last()
        return None if diagnosis is None else id(diagnosis)

    def age_s(self) -> float:
        return 0.0

    def diagnoses(self) -> list[Diagnosis]:
        diagnosis = self._last()
        return [] if diagnosis is None else [diagnosis]
