from __future__ import annotations

import os
import threading

from hypothesis import given
from hypothesis import strategies as st

from nanopace.live.passthrough import Copies, Pipe, Pump
from nanopace.live.printer import Printer
from nanopace.sources.text import lines


def taken(copies: Copies) -> list[bytes]:
    found = []
    while (piece := copies.get(0.0)) is not None and piece.data:
        found.append(piece.data)
    return found


@given(st.lists(st.sampled_from([b"iter 1", b"0\n", b"\r\n", b"\r", b"\n", b" x"]), max_size=30))
def test_copies_are_whole_lines_and_the_same_lines(chunks: list[bytes]) -> None:
    copies = Copies()
    for chunk in chunks:
        copies.put(chunk)
    whole = taken(copies)
    assert all(piece.endswith((b"\n", b"\r")) for piece in whole)
    copies.close()
    whole += taken(copies)
    assert b"".join(whole) == b"".join(chunks)
    one_by_one = [line for piece in whole for line in lines([piece])]
    assert [line for line, _ in one_by_one if line] == [line for line, _ in lines(chunks) if line]


def test_too_many_copies_leave_the_oldest_out_in_whole_lines() -> None:
    copies = Copies(most=100)
    for number in range(1000):
        copies.put(f"iter {number:04}\n".encode())
    kept = b"".join(taken(copies)).decode().splitlines()
    assert kept == [f"iter {number:04}" for number in range(1000 - len(kept), 1000)]
    assert copies.left_out == 1000 - len(kept)
    assert len(kept) * 10 <= 120


def test_who_may_wait_loses_nothing() -> None:
    copies, got = Copies(most=50), []

    def read() -> None:
        while (piece := copies.get(1.0)) is not None:
            got.append(piece.data)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(500):
        copies.put(f"{number}\n".encode(), wait=True)
    copies.close()
    reader.join(10)
    assert b"".join(got).split() == [str(number).encode() for number in range(500)]
    assert copies.left_out == 0


def test_a_line_without_end_is_not_kept_for_ever() -> None:
    copies = Copies()
    for _ in range(64):
        copies.put(b"x" * 4096)
    assert sum(map(len, taken(copies))) >= 192 << 10


def test_nobody_reads_and_everything_passes() -> None:
    """The reader of the copies is stuck: the pipe is drained anyway."""
    reading, writing = os.pipe()
    null = os.open(os.devnull, os.O_WRONLY)
    copies = Copies(most=1000)
    pump = Pump(Pipe(reading), Printer(null, terminal=False, color=False, encoding="utf-8"), copies)
    pump.start()
    for _ in range(2000):
        os.write(writing, b"iter 1: loss 3\n" * 100)
    os.close(writing)
    pump.join(10)
    assert not pump.is_alive()
    kept = 0
    while (piece := copies.get(0)) is not None:
        kept += piece.data.count(b"\n")
    assert copies.left_out + kept == 200_000
    assert kept <= (256 << 10) / 15 + 1000  # the newest piece stays, and may be all that is read at a time
    os.close(reading)
    os.close(null)
