"""SHA256SUMS next to downloaded files: the hash of each when it arrived, in the format of `sha256sum -c`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from nanopace.errors import InputError, unreadable
from nanopace.files import read_bounded, write_durably

CHECKSUMS: Final = "SHA256SUMS"
_LARGEST_FILE: Final = 1 << 20  # bytes: about ten thousand files
_LINE: Final = re.compile(r"([0-9a-f]{64})  ([^/\0\n]+)")


def read_checksums(directory: Path) -> dict[str, str]:
    """The checksums by file name; empty if there is no file yet."""
    path = directory / CHECKSUMS
    if not os.path.lexists(path):
        return {}
    try:
        lines = (read_bounded(path, _LARGEST_FILE) or b"?").decode(errors="replace").splitlines()
    except OSError as error:
        raise unreadable(path, error) from None
    found = [_LINE.fullmatch(line) for line in lines]
    if None in found:
        raise InputError("{path}: is damaged; remove it, and the next download recreates it", path=path)
    return {match[2]: match[1] for match in found if match is not None}


def write_checksum(directory: Path, name: str, sha256: str) -> None:
    known = {**read_checksums(directory), name: sha256}
    lines = [f"{checksum}  {each}\n" for each, checksum in sorted(known.items())]
    write_durably(directory / CHECKSUMS, "".join(lines).encode())
