"""Downloads one file, completely or not at all.

What has arrived stays in a `.part` file. After a broken connection, a full disk or a kill, the next attempt asks for
the rest. A file gets its name only if its checksum is right: the one known here, the one from an earlier download, or
the one that Hugging Face sends with its answer. Without any of these, nothing is downloaded. Hugging Face datasets use
this code, too: one way to download is enough, and this one can be tested against any server.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import io
import os
import shutil
import time
import urllib.error
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from nanopace.corpus.documents.inputs import PARQUET
from nanopace.corpus.documents.parquet import check_parquet, pyarrow
from nanopace.corpus.download.checksums import read_checksums, write_checksum
from nanopace.corpus.download.web import Question, is_hopeless, is_web_page, said
from nanopace.errors import InputError, reason_of
from nanopace.files import make_directory, open_own

TIMEOUT: Final = 30.0  # seconds of silence
_ATTEMPTS: Final = 5  # failed attempts in a row
_CHUNK: Final = 1 << 18
_LARGEST: Final = 8 << 30  # bytes to accept of an answer without a length,
_MARGIN: Final = 64 << 20  # and to leave free on the disk
_TEXT_FIELD: Final = "text"  # of the named corpora
_BUSY: Final = frozenset((408, 425, 429, 500, 502, 503, 504))  # status codes after which to try again

OnProgress = Callable[[int, int | None], object]  # bytes so far, total bytes if known
OnProgressOfAll = Callable[[int, int | None, str], object]  # and which file it is: 3/80


@dataclass(frozen=True, slots=True)
class Remote:
    """A file that never changes: its URL, and what must arrive."""

    url: str
    name: str
    size: int | None = None
    sha256: str | None = None  # None: Hugging Face must send it with its answer


def download(remote: Remote, directory: Path, on_progress: OnProgress | None = None, pause: float = 1.0) -> Path:
    """Return the file in `directory`, after downloading what is missing of it."""
    target = directory / remote.name
    if remote.name.endswith(PARQUET):
        pyarrow()  # before downloading gigabytes that could not be read
    if target.is_file() and remote.size in (None, target.stat().st_size):
        _check_content(target, remote)  # an earlier version accepted any answer
        return target  # we name a file only after checking it, and a user who put it there knows what it is
    with _writing(target):
        make_directory(directory)
    transfer = _Transfer(remote, target, on_progress)
    fruitless, furthest = 0, transfer.here()
    while True:
        try:
            transfer.fetch()
            break
        except _TryAgain as broken:
            fruitless = 0 if transfer.here() > furthest else fruitless + 1
            furthest = max(furthest, transfer.here())
            if fruitless == _ATTEMPTS:
                raise transfer.complaint(broken.reason) from None
            time.sleep(pause * 2**fruitless)
    return transfer.checked()


def download_all(remotes: Sequence[Remote], directory: Path, on_progress: OnProgressOfAll) -> list[Path]:
    """Download several files, one after the other. The total size is known if the size of each is."""
    sizes = [remote.size for remote in remotes if remote.size is not None]
    total = sum(sizes) if len(sizes) == len(remotes) else None
    paths: list[Path] = []
    before = 0
    for number, remote in enumerate(remotes, 1):

        def tell(done: int, _: int | None, before: int = before, which: str = f"{number}/{len(remotes)}") -> None:
            on_progress(before + done, total, which)

        paths.append(download(remote, directory, tell))
        before += paths[-1].stat().st_size
    return paths


class _TryAgain(Exception):
    """The connection broke, or the server is busy."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


@dataclass(slots=True)
class _Transfer:
    """The download of one file."""

    remote: Remote
    target: Path
    on_progress: OnProgress | None
    size: int | None = None
    sha256: str | None = None
    part: Path = field(init=False)

    def __post_init__(self) -> None:
        self.part = self.target.with_name(self.target.name + ".part")
        self.size = self.remote.size
        self.sha256 = self.remote.sha256 or read_checksums(self.target.parent).get(self.remote.name)

    def here(self) -> int:
        if not os.path.lexists(self.part):
            return 0
        with _writing(self.part), open(open_own(self.part, os.O_RDONLY), "rb") as file:
            return os.fstat(file.fileno()).st_size

    def fetch(self) -> None:
        """Request the missing part and save it."""
        here = self.here()
        if self.size is not None and here >= self.size and self.sha256 is not None:
            return
        try:
            question = Question(self.remote.url, here)
            try:
                answer = question.ask(TIMEOUT)
            finally:
                self.sha256 = self.sha256 or question.redirects.sha256
            with answer:
                self._take(answer, here)
        except urllib.error.HTTPError as error:
            self._refused(error, here)
        except (OSError, http.client.HTTPException, ValueError) as error:  # network: disk errors are handled above
            reason = getattr(error, "reason", None) or error
            if is_hopeless(reason):
                raise self.complaint(said(reason)) from None
            raise _TryAgain(said(reason)) from None

    def _refused(self, error: urllib.error.HTTPError, here: int) -> None:
        reason = f"{error.code} {said(error.reason)}"
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and here:
            if error.headers.get("Content-Range") == f"bytes */{here}" and self.sha256 is not None:
                return  # no more to come: the file is complete
            self.part.unlink()
            raise _TryAgain(reason)
        if error.code in _BUSY:
            raise _TryAgain(reason)
        raise self.complaint(reason) from None

    def _take(self, answer: http.client.HTTPResponse, here: int) -> None:
        if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            here = 0  # a server that cannot send a part sends everything
        chunk = answer.read(_CHUNK)
        self._check_answer(answer, chunk if here == 0 else b"")
        if self.size is None and answer.length is not None:
            self.size = here + len(chunk) + answer.length
        self._check_room(here)
        with self._opened(here) as file:
            while chunk:
                with _writing(self.part):
                    rest = memoryview(chunk)
                    while rest:  # a nearly full disk may write only a part
                        rest = rest[file.write(rest) :]
                here += len(chunk)
                if self.size is None:
                    self._check_bounds(here)
                elif here > self.size:
                    break  # this is not the file
                if self.on_progress is not None:
                    self.on_progress(here, self.size)
                chunk = answer.read(_CHUNK)
        if self.size is not None and here < self.size:
            raise _TryAgain(f"{here} of {self.size} bytes")

    @contextlib.contextmanager
    def _opened(self, here: int) -> Iterator[io.FileIO]:
        """The .part file, positioned after the bytes already downloaded; synced when it is closed."""
        with _writing(self.part):
            handle = open_own(self.part, os.O_RDWR | os.O_CREAT)
        with open(handle, "r+b", buffering=0) as file:  # unbuffered: nothing is left to write at close
            with _writing(self.part):
                file.truncate(here)
                file.seek(here)
            yield file
            with _writing(self.part):
                os.fsync(file.fileno())

    def _check_answer(self, answer: http.client.HTTPResponse, begin: bytes) -> None:
        """Raise an error for anything that cannot be the file, before changing what was already downloaded."""
        if is_web_page(answer, begin):
            raise InputError(
                "{host} returned a web page instead of {url}; log in to the network, fix the proxy or HF_ENDPOINT, "
                "or put the file here yourself: {path}",
                **self._names(),
            )
        if self.sha256 is None:
            raise InputError(
                "{host} gives no sha256 for {url}, so the file could not be verified; use another mirror, or put the "
                "file here yourself: {path}",
                **self._names(),
            )

    def _check_room(self, here: int) -> None:
        free = shutil.disk_usage(self.target.parent).free
        if self.size is not None and self.size - here > free:
            raise InputError(
                "{path}: {size:,} MB still to download, but the disk has only {free:,} MB free",
                path=self.target,
                size=(self.size - here) // 1_000_000,
                free=free // 1_000_000,
            )

    def _check_bounds(self, here: int) -> None:
        """Limit an answer without a length, which may never end."""
        if here <= _LARGEST and shutil.disk_usage(self.target.parent).free >= _MARGIN:
            return
        self.part.unlink()
        raise InputError(
            "{url}: reports no length, and {size:,} MB arrived without end; they were removed",
            url=self.remote.url,
            size=here // 1_000_000,
        )

    def checked(self) -> Path:
        """Verify the file and give it its name. A file that is not the expected one is removed."""
        with _writing(self.part), open(open_own(self.part, os.O_RDONLY), "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if self.here() != (self.size or self.here()) or found != self.sha256:
            self.part.unlink()
            raise InputError(
                "{url}: the download is not the expected file (sha256 {found}) and was removed; try again",
                url=self.remote.url,
                found=found,
            )
        try:
            _check_content(self.part, self.remote)
        except InputError:
            self.part.unlink()
            raise
        with _writing(self.target):
            os.replace(self.part, self.target)
            write_checksum(self.target.parent, self.remote.name, found)  # syncs both names
        return self.target

    def complaint(self, reason: str) -> InputError:
        return InputError(
            "{host} does not serve {url}: {reason}; try again later, or put the file here yourself: {path}",
            reason=reason,
            **self._names(),
        )

    def _names(self) -> dict[str, object]:
        return {"host": urlsplit(self.remote.url).hostname, "url": self.remote.url, "path": self.target}


def _check_content(path: Path, remote: Remote) -> None:
    if remote.name.endswith(PARQUET):
        check_parquet(path, _TEXT_FIELD)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn a disk error into an error that names the file. Network errors are retried instead."""
    try:
        yield
    except OSError as error:
        raise InputError(
            "{path}: cannot be written: {reason}; fix that and run the same command again to continue",
            path=path,
            reason=reason_of(error),
        ) from None
