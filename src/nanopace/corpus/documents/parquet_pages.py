"""Reads the page headers of a parquet column: how large each page becomes, before anything is unpacked.

The parquet library trusts these headers and allocates what they ask for: 2 GB for a page of a few bytes. The format is
described at https://parquet.apache.org/docs/file-format/data-pages/; headers are in Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

_LONGEST_HEADER = 1 << 16  # bytes; its statistics may hold a value
_DEEPEST = 8  # nested structs

# Thrift's types, as numbered in the compact protocol
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 7, 8, 12
_INTEGERS = frozenset((4, 5, 6))
_UNCOMPRESSED, _COMPRESSED = 2, 3  # fields of a page header


class BadPageError(Exception):
    """A nonsensical header."""


def page_sizes(file: BinaryIO, begin: int, size: int) -> Iterator[tuple[int, int]]:
    """The size of each page in the column chunk at `begin`: unpacked, and in the file."""
    end = begin + size
    while begin < end:
        file.seek(begin)
        header = _Header(file.read(min(_LONGEST_HEADER, end - begin)))
        unpacked, packed = header.sizes()
        if unpacked < 0 or packed < 0 or begin + header.at + packed > end:
            raise BadPageError
        yield unpacked, packed
        begin += header.at + packed


class _Header:
    """Reads one struct of the compact protocol."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def sizes(self) -> tuple[int, int]:
        found: dict[int, int] = {}
        try:
            for number, kind in self._fields():
                if kind in _INTEGERS:
                    found[number] = self._integer()
                else:
                    self._skip(kind, 0)
            return found[_UNCOMPRESSED], found[_COMPRESSED]
        except (IndexError, KeyError):
            raise BadPageError from None

    def _fields(self) -> Iterator[tuple[int, int]]:
        number = 0
        while head := self._byte():
            step, kind = divmod(head, 16)
            number = number + step if step else self._integer()
            yield number, kind

    def _skip(self, kind: int, depth: int) -> None:
        if kind in (_TRUE, _FALSE):
            return
        if kind == _BYTE:
            self._byte()
        elif kind in _INTEGERS:
            self._integer()
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self._unsigned()
            self.at += length
        elif kind == _STRUCT and depth < _DEEPEST:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        else:  # page headers contain no lists, sets or maps
            raise BadPageError

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _unsigned(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise BadPageError

    def _integer(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
