"""Whether a file of tokens is still the one that was opened, and the one that the manifest lists.

Asking the file system costs a microsecond, so every read is followed by it. Only where it says that a file is not as it
was, the contents are looked at: a file that was merely touched, or restored from a copy, is still the same. Of a file
whose hash nobody wrote down, and which nobody has read through yet, beginning, middle and end have to do. Once it has
been read through, a run keeps its hash, and whoever resumes the run expects it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nanopace.errors import InputError

_SAMPLE = 1 << 12  # bytes, of a file whose hash nobody wrote down
_PIECE = 1 << 22


@dataclass(frozen=True, slots=True)
class _Look:
    """What the file system says of a file. Its inode's own time of change is nothing that a copy could set back."""

    bytes: int
    modified_ns: int
    changed_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, found: os.stat_result) -> _Look:
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)


class FileFingerprint:
    """The fingerprint of one file. Several threads may use it."""

    def __init__(self, path: Path, sha256: str | None) -> None:
        self._path, self._listed = path, sha256
        self._known = sha256  # what the file's hash must be, once somebody knows
        self._look: _Look | None = None
        self._sample: bytes | None = None
        self._verified = False
        self._turn = threading.Lock()

    def take(self) -> None:
        """Remember the file as it is: from now on it must not change."""
        with self._turn:
            self._begin()

    @property
    def sample(self) -> bytes:
        """A hash of beginning, middle and end, as they were when its fingerprint was taken."""
        with self._turn:
            self._begin()
            assert self._sample is not None
            return self._sample

    @property
    def known(self) -> str | None:
        """The hash that the file must have, as far as anybody knows. Nobody waits for it, whoever is reading."""
        return self._known

    def expect(self, sha256: str) -> None:
        """What it was when an earlier process trained on it. The manifest's word counts more."""
        with self._turn:
            self._known = self._listed or sha256

    def check(self, found: os.stat_result) -> None:
        """Complain if the file is not as it was, by the state in which somebody has just read it."""
        look = _Look.of(found)
        if look == self._look:
            return
        with self._turn:
            self._begin()
            if look != self._look and not self._same():
                raise self._changed()

    def verify(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Read all of it, once: it must be what the manifest lists; where none does, what it was and will be."""
        with self._turn:
            self._begin()
            if self._verified:
                return
            digest = self._digest(stop)
            if digest is None:
                return
            if self._listed is not None and digest != self._listed:
                raise InputError(
                    "{path}: is damaged: it is not the file the manifest lists; restore it, or recreate the corpus "
                    "with nanopace prepare --restart",
                    path=self._path,
                )
            if self._known is not None and digest != self._known:
                raise self._changed()
            if _Look.of(self._path.stat()) == self._look:  # else whoever reads next compares it with what it was
                self._known, self._verified = digest, True

    def _changed(self) -> InputError:
        return InputError(
            "{path}: has changed since training started; restore the original file, then continue with "
            "--init_from=resume",
            path=self._path,
        )

    def _begin(self) -> None:
        if self._look is None:
            found = self._path.stat()
            if self._listed is None:
                self._sample = sample_of(self._path)
            self._look = _Look.of(found)

    def _same(self) -> bool:
        """Whether the contents are what they were, whatever the file system says."""
        assert self._look is not None
        look = _Look.of(self._path.stat())
        if look.bytes != self._look.bytes:
            return False
        if self._known is not None:
            same = self._digest(lambda: False) == self._known
        else:
            same = sample_of(self._path) == self._sample
        if same:
            self._look = look
        return same

    def _digest(self, stop: Callable[[], bool]) -> str | None:
        digest = hashlib.sha256()
        with open(self._path, "rb", buffering=0) as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                if stop():
                    return None
        return digest.hexdigest()


def sample_of(path: Path) -> bytes:
    """Beginning, middle and end of a file: reading all of it would take a minute, this takes none."""
    size = path.stat().st_size
    with path.open("rb") as file:
        samples = []
        for place in (0, size // 2, max(0, size - _SAMPLE)):
            file.seek(place)
            samples.append(file.read(_SAMPLE))
    return hashlib.sha256(b"".join(samples)).digest()
