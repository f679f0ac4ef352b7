"""Removes terminal debris: turns the bytes of a log into the lines that a trainer printed.

Logs are piped, teed, and copied out of terminals. This removes colours and cursor movements, echoed cursor keys,
carriage returns, control characters, and bytes that are not UTF-8 (and the zero bytes of UTF-16). Nothing that a
trainer printed is lost: text that a carriage return overwrote becomes a separate line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import AnyStr

LONGEST_LINE = 64 * 1024  # of a longer one, the beginning and the end are kept
CHUNK = 1 << 20
_HOLE = 512  # bytes of zeros: a disk's smallest block

_DEBRIS = re.compile(
    r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # window titles and links
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|\x1b[ -/]*[0-Z\\-~]"
    r"|\^\[(?:\[[0-9;]*|O)[A-Za-z~]"  # echoed keys, as a terminal shows them
    r"|[\x00-\x08\x0b-\x1f\x7f\ufeff]"
)
_SUSPECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufeff]|\^\[")


def clean(text: str) -> str:
    """The text without debris. Line ends stay."""
    return _DEBRIS.sub("", text) if _SUSPECT.search(text) else text


def unify_line_ends(data: bytes) -> bytes:
    """Turn CRLF and lone carriage returns into newlines."""
    if b"\r" not in data:
        return data
    while b"\r\r" in data:
        data = data.replace(b"\r\r", b"\r")  # Windows consoles combined with tee write several
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def whole_lines(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """The same bytes in blocks of complete lines, with unified line ends. The last block may lack its line end.

    Yields (block, whether it ends with a line end). However long a line is, only LONGEST_LINE bytes of it are kept.
    """
    rest = b""
    for chunk in chunks:
        data = rest + chunk
        # A carriage return at the very end may be half of a CRLF, so it waits for what follows.
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
        if cut:
            yield unify_line_ends(data[:cut]), True
        rest = _shortened(data[cut:])
    if rest.endswith(b"\r"):
        yield unify_line_ends(rest), True
    elif rest:
        yield rest, False


def lines(chunks: Iterable[bytes]) -> Iterator[tuple[str, bool]]:
    """The clean lines of a log, each with True; False for a last line without a line end, which may be incomplete."""
    for block, ended in whole_lines(chunks):
        found = clean(block.decode("utf-8", "replace")).split("\n")
        if ended:
            found.pop()
        for line in found:
            yield (line if len(line) <= LONGEST_LINE else _shortened(line)), ended


def width_of(printed: Iterable[str]) -> int:
    """The width of the terminal that wrapped these lines, if one did: that of the longest line."""
    return max(map(len, printed), default=0)


def looks_binary(data: bytes) -> bool:
    """Whether it is not text in any encoding of logs. A log that was emptied while it grew begins with zeros."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return False
    written = data.lstrip(b"\0")
    if written and len(data) - len(written) >= _HOLE:
        data = written
    odd = len(data) - len(data.translate(None, bytes([*range(9), *range(14, 27), *range(28, 32), 127])))
    undecodable = data.decode("utf-8", "replace").count("\ufffd")
    return odd + undecodable > 0.1 * len(data)


def _shortened(line: AnyStr) -> AnyStr:
    """The beginning and end of a line that is too long: what a trainer prints is short, and at one of them."""
    if len(line) <= LONGEST_LINE:
        return line
    return line[: LONGEST_LINE // 2] + line[-LONGEST_LINE // 2 :]
