"""Lines that are collected and written together, on a disk that accepts arbitrary parts."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as st

from nanopace.ledger import LedgerWriter, StepEvent, read_ledger
from nanopace.ledger.codec import to_json


@example([2, 3], [-1, 30])  # a batch that fails right away, after a line torn by the previous one
@example([1], [1, 51, 0])  # all of a line but its end
@example([1, 1], [-1, 51, 0])  # the same for a line that waited
@given(st.lists(st.integers(0, 4), max_size=6), st.lists(st.integers(-1, 200), max_size=12))
def test_every_line_arrives_once_and_in_order(batches: list[int], takes: list[int]) -> None:
    """`takes`: how many bytes each write() accepts; -1 means a full disk. After that it has room again."""
    real_write, moods = os.write, list(takes)

    def write(file: int, data: bytes) -> int:
        most = moods.pop(0) if moods else len(data)
        if most <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real_write(file, data[:most])

    troubles: list[str] = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        path.write_bytes(b'{"event":"st')  # a writer died in the middle of a line
        with (
            LedgerWriter(path, on_trouble=troubles.append) as ledger,
            mock.patch("nanopace.ledger.file.os.write", write),
        ):
            number = 0
            for size in batches:
                ledger.write_together([to_json(StepEvent(number + i, 1.0, at_ms=2.0)) for i in range(size)])
                number += size
            moods.clear()
        read = read_ledger(path.read_bytes().splitlines(keepends=True))
    assert [event.iteration for event in read.events if isinstance(event, StepEvent)] == list(range(number))
    assert not any("that could not be written" in said for said in troubles)
