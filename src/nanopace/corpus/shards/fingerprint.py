"""Detects whether a token file is still the one that was opened, and the one that the manifest lists.

Asking the file system takes a microsecond, so every read is followed by a check. The contents are compared only if the
file system reports a change: a file that was touched, or restored from a copy, is still the same. If a file's hash is
unknown and it has not been read completely, its beginning, middle and end must do. After it has been read completely,
the run stores its hash, and a resumed run requires it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nanopace.errors import InputError

_SAMPLE = 1 << 12  # bytes, for a file of unknown hash
_PIECE = 1 << 22


@dataclass(frozen=True, slots=True)
class _Look:
    """What the file system reports about a file. Copying a file cannot restore the inode's change time."""

    bytes: int
    modified_ns: int
    changed_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, found: os.stat_result) -> _Look:
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev)


class FileFingerprint:
    """The fingerprint of one file. Can be used by several threads."""

    def __init__(self, path: Path, sha256: str | None) -> None:
        self._path, self._listed = path, sha256
        self.known = sha256  # the hash that the file must have, once known: to be read without waiting for a verify
        self._look: _Look | None = None
        self._sample: bytes | None = None
        self._verified = False
        self._turn = threading.Lock()

    def take(self) -> None:
        """Remember the file's state: it must not change from now on."""
        with self._turn:
            self._begin()

    @property
    def sample(self) -> bytes:
        """A hash of its beginning, middle and end when the fingerprint was taken."""
        with self._turn:
            self._begin()
            assert self._sample is not None
            return self._sample

    def expect(self, sha256: str) -> None:
        """Set the hash it had when an earlier process trained on it. A hash in the manifest takes precedence."""
        with self._turn:
            self.known = self._listed or sha256

    def check(self, found: os.stat_result) -> None:
        """Raise an error if the file has changed. `found` is its state just before or after a read."""
        look = _Look.of(found)
        if look == self._look:
            return
        with self._turn:
            self._begin()
            if look != self._look and not self._same():
                raise self._changed()

    def verify(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Read the file once and check its hash against the manifest's or the known one. If unknown, remember it."""
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
            if self.known is not None and digest != self.known:
                raise self._changed()
            if _Look.of(self._path.stat()) == self._look:  # otherwise, the next read compares it with its old state
                self.known, self._verified = digest, True

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
        """Whether the contents are unchanged, whatever the file system reports."""
        assert self._look is not None
        look = _Look.of(self._path.stat())
        if look.bytes != self._look.bytes:
            return False
        if self.known is not None:
            same = self._digest(lambda: False) == self.known
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
    """Hash the beginning, middle and end of a file: reading all of it could take a minute."""
    size = path.stat().st_size
    with path.open("rb") as file:
        samples = []
        for place in (0, size // 2, max(0, size - _SAMPLE)):
            file.seek(place)
            samples.append(file.read(_SAMPLE))
    return hashlib.sha256(b"".join(samples)).digest()
