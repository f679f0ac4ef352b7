"""Page headers, byte by byte: what gives the size of a page, and what is skipped."""

from __future__ import annotations

import io

import pytest

from nanopace.corpus.documents.parquet_pages import BadPageError, page_sizes

SIZES = b"\x15\x90\x03" + b"\x15\x06"  # fields 2 and 3 after field 1: 200 bytes unpacked, 3 as stored
OF_NO_INTEREST = {
    "true": b"\x11",
    "false": b"\x12",
    "a byte": b"\x13\x15",
    "a number": b"\x15\x90\x03",
    "a double": b"\x17" + b"\x15" * 8,
    "text": b"\x18\x03\x15\x15\x15",
    "a struct": b"\x1c" + b"\x15\x06" + b"\x17" + b"\x15" * 8 + b"\x00",
}


def sizes(data: bytes, begin: int = 0) -> list[tuple[int, int]]:
    return list(page_sizes(io.BytesIO(bytes(begin) + data), begin, len(data)))


@pytest.mark.parametrize("before", OF_NO_INTEREST)
def test_the_sizes_of_every_page(before: str) -> None:
    page = OF_NO_INTEREST[before] + SIZES + b"\x00" + b"abc"
    assert sizes(page + page, begin=7) == [(200, 3), (200, 3)]


def test_a_field_may_say_its_number() -> None:
    assert sizes(b"\x05\x04\x90\x03" + b"\x05\x06\x06" + b"\x00abc") == [(200, 3)]


@pytest.mark.parametrize(
    "header",
    [
        b"",  # the end is missing
        b"\x15\x02\x00",  # no sizes
        b"\x15\x02\x15\x01\x15\x06\x00",  # a negative size
        b"\x15\x02\x15\x06\x15\x01\x00",
        b"\x15\x02\x15\x06\x15\x0a\x00",  # more than there is
        b"\x19\x15" + SIZES + b"\x00",  # a list
        b"\x1c" * 10 + b"\x00" * 10 + SIZES + b"\x00",  # structs in structs
        b"\x15" + b"\xff" * 10 + b"\x00" + SIZES + b"\x00",  # an endless number
    ],
)
def test_what_makes_no_sense(header: bytes) -> None:
    with pytest.raises(BadPageError):
        sizes(header + b"abc")
