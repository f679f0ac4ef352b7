"""One file from the network, whole or not at all.

What has arrived stays in a `.part` file. A connection that breaks, and a program that is killed, cost nothing: the next
attempt asks for the rest. Only a file with the right checksum gets its name. Hugging Face's datasets come this way too:
one way to download is enough, and this one can be tried out against any server.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import re
import shutil
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPMessage
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from nanopace.errors import InputError
from nanopace.files import sync_directory
from nanopace.version import __version__

TIMEOUT: Final = 30.0  # seconds of silence
_ATTEMPTS: Final = 5  # in a row that bring nothing
_CHUNK: Final = 1 << 18
_BUSY: Final = frozenset((408, 425, 429, 500, 502, 503, 504))  # what a server says that may be asked again

Told = Callable[[int, int | None], object]  # bytes so far, bytes in all where known
ToldOfAll = Callable[[int, int | None, str], object]  # and which of the files it is: 3/80


@dataclass(frozen=True, slots=True)
class Remote:
    """A file that never changes: its address, and what must arrive from there."""

    url: str
    name: str
    size: int | None = None
    sha256: str | None = None  # None: Hugging Face names it, as it answers


def download(remote: Remote, directory: Path, told: Told | None = None, pause: float = 1.0) -> Path:
    """The file in `directory`, downloaded as far as it is not there yet."""
    target = directory / remote.name
    if target.is_file() and remote.size in (None, target.stat().st_size):
        return target  # we give it its name only after its checksum; a person who put it there knows what it is
    directory.mkdir(parents=True, exist_ok=True)
    transfer = _Transfer(remote, target, told)
    fruitless = 0
    while True:
        before = transfer.here()
        try:
            transfer.fetch()
            break
        except _TryAgain as broken:
            fruitless = 0 if transfer.here() > before else fruitless + 1
            if fruitless == _ATTEMPTS:
                raise transfer.complaint(broken.reason) from None
            time.sleep(pause * 2**fruitless)
    return transfer.checked()


def download_all(remotes: Sequence[Remote], directory: Path, told: ToldOfAll) -> list[Path]:
    """Several files, one after the other. How much they are together is known where the size of each is."""
    sizes = [remote.size for remote in remotes if remote.size is not None]
    total = sum(sizes) if len(sizes) == len(remotes) else None
    paths: list[Path] = []
    before = 0
    for number, remote in enumerate(remotes, 1):

        def tell(done: int, _: int | None, before: int = before, which: str = f"{number}/{len(remotes)}") -> None:
            told(before + done, total, which)

        paths.append(download(remote, directory, tell))
        before += paths[-1].stat().st_size
    return paths


class _TryAgain(Exception):
    """The connection broke, or the server is busy."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


@dataclass(slots=True)
class _Transfer:
    """One file on its way."""

    remote: Remote
    target: Path
    told: Told | None
    size: int | None = None
    sha256: str | None = None
    part: Path = field(init=False)

    def __post_init__(self) -> None:
        self.size, self.sha256 = self.remote.size, self.remote.sha256
        self.part = self.target.with_name(self.target.name + ".part")

    def here(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def fetch(self) -> None:
        """Ask for what is missing, and take what comes."""
        here = self.here()
        if self.size is not None and here >= self.size:
            return
        headers = {"User-Agent": f"nanopace/{__version__}", "Accept-Encoding": "identity"}
        if here:
            headers["Range"] = f"bytes={here}-"
        request = urllib.request.Request(self.remote.url, headers=headers)
        follow = _Redirects()
        try:
            with urllib.request.build_opener(follow).open(request, timeout=TIMEOUT) as answer:
                self.sha256 = self.sha256 or follow.sha256
                self._take(answer, here)
        except urllib.error.HTTPError as error:
            self.sha256 = self.sha256 or follow.sha256
            self._refused(error, here)
        except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", None) or error
            if _is_hopeless(reason):
                raise self.complaint(_said(reason)) from None
            raise _TryAgain(_said(reason)) from None

    def _refused(self, error: urllib.error.HTTPError, here: int) -> None:
        said = f"{error.code} {error.reason}"
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and here:
            if error.headers.get("Content-Range") == f"bytes */{here}":
                return  # there is no more: all of it is here already
            self.part.unlink()
            raise _TryAgain(said)
        if error.code in _BUSY:
            raise _TryAgain(said)
        raise self.complaint(said) from None

    def _take(self, answer: http.client.HTTPResponse, here: int) -> None:
        if answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            here = 0  # a server that cannot send a part sends everything
        if self.size is None and answer.length is not None:
            self.size = here + answer.length
        self._check_room(here)
        with self.part.open("r+b" if here else "wb") as file:
            file.seek(here)
            while chunk := answer.read(_CHUNK):
                file.write(chunk)
                here += len(chunk)
                if self.told is not None:
                    self.told(here, self.size)
            file.flush()
            os.fsync(file.fileno())
        if self.size is not None and here < self.size:
            raise _TryAgain(f"{here} of {self.size} bytes")

    def _check_room(self, here: int) -> None:
        free = shutil.disk_usage(self.target.parent).free
        if self.size is not None and self.size - here > free:
            raise InputError(
                "{path}: {size} MB are still to come, and the disk has room for {free} MB",
                path=self.target,
                size=(self.size - here) // 1_000_000,
                free=free // 1_000_000,
            )

    def checked(self) -> Path:
        """The whole file under its own name; what is not the file that was asked for is removed."""
        with self.part.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if self.here() != (self.size or self.here()) or found != (self.sha256 or found):
            self.part.unlink()
            raise InputError(
                "{url}: what came is not the file that was asked for (sha256 {found}); it is removed, try again",
                url=self.remote.url,
                found=found,
            )
        os.replace(self.part, self.target)
        sync_directory(self.target.parent)
        return self.target

    def complaint(self, reason: str) -> InputError:
        return InputError(
            "{host} does not give {url}: {reason}; try again later, or put the file here yourself: {path}",
            host=urlsplit(self.remote.url).hostname,
            url=self.remote.url,
            reason=reason,
            path=self.target,
        )


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows them as usual, and keeps the checksum that Hugging Face names beside the way to a large file."""

    sha256: str | None = None

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        named = headers.get("X-Linked-Etag", "").strip('"')
        if re.fullmatch("[0-9a-f]{64}", named):
            self.sha256 = named
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _is_hopeless(reason: object) -> bool:
    """Nobody has that name, or nobody answers there: no network, mostly. Asking again only makes a person wait."""
    unreachable = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ECONNREFUSED)
    return isinstance(reason, socket.gaierror) or getattr(reason, "errno", None) in unreachable


def _said(reason: object) -> str:
    return getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
