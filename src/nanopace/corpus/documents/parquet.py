"""Reads the texts of a parquet file a few rows at a time, in no more memory than a few of its pages take.

In five kilobytes, a file can hold one long text in a dictionary and a hundred thousand references to it. So pages are
checked before they are unpacked, only as many rows are read at once as surely fit, and the output is compared with the
file's size.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from nanopace.compressed import DENSEST, TooDenseError, check_density
from nanopace.corpus.documents.parquet_pages import BadPageError, page_sizes
from nanopace.corpus.documents.pieces import Document
from nanopace.errors import InputError, Message
from nanopace.files import open_regular

MAGIC = b"PAR1"
_LARGEST_FOOTER = 16 << 20  # bytes: enough row groups for terabytes
_LARGEST_PAGE = 128 << 20  # bytes, unpacked
_ROWS = 64  # decoded at a time,
_ROWS_BYTES = 64 << 20  # and their maximum size, unless a single row is larger
_HARMLESS_ROWS = 1 << 20  # allowed in any file; beyond this, each row must take at least a byte
_BUFFER = 1 << 20  # bytes of a column to read ahead; otherwise all of it is


def pyarrow(module: str = "pyarrow") -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError("parquet needs pyarrow: pip install nanopace[train]") from None


def texts_of_parquet(path: Path, text_field: str) -> Iterator[Document]:
    """The texts of one column."""
    arrow = pyarrow()
    size = path.stat().st_size
    rows = out = 0
    try:
        with _table(path, text_field) as table:
            columns = [table.schema.column(number).path for number in range(len(table.schema))]
            for group in range(table.num_row_groups):
                at_once = _rows_at_once(path, table.metadata.row_group(group).column(columns.index(text_field)))
                for batch in table.iter_batches(at_once, row_groups=[group], columns=[text_field]):
                    rows += len(batch)
                    out += batch.nbytes
                    _check_amount(rows, out, size)
                    at = partial(int, size * min(rows, table.metadata.num_rows) // max(1, table.metadata.num_rows))
                    for text in batch.column(0).drop_null().cast(arrow.large_binary()):  # it may not be UTF-8
                        yield Document(text.as_py(), str(path), at)
    except (TooDenseError, MemoryError):
        raise InputError(
            "{path}: unpacks to more than {times} times its size, which no text does", path=path, times=DENSEST
        ) from None
    except (arrow.ArrowException, OSError, ValueError, ArithmeticError, LookupError) as error:
        raise _unreadable(path, str(error)) from None  # the last three come from nonsensical names and numbers


def check_parquet(path: Path, text_field: str) -> None:
    """Raise an error if the file is not complete parquet, or has no text column of this name."""
    try:
        with _table(path, text_field):
            pass
    except (pyarrow().ArrowException, OSError, ValueError, ArithmeticError, LookupError) as error:
        raise _unreadable(path, str(error)) from None


def _table(path: Path, text_field: str) -> Any:
    """Open the file and check its footer and its column."""
    with open_regular(path) as file:
        begin = file.read(len(MAGIC))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        footer, end = int.from_bytes(file.read(4), "little"), file.read(4)
    if begin != MAGIC or end != MAGIC or not 0 < footer <= min(size - 12, _LARGEST_FOOTER):
        raise _unreadable(path, Message("it does not begin and end like a parquet file"))
    table = pyarrow("pyarrow.parquet").ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
    try:
        _check_column(path, table.schema_arrow, text_field)
    except BaseException:
        table.close()
        raise
    return table


def _check_column(path: Path, schema: Any, text_field: str) -> None:
    if text_field not in schema.names:
        raise InputError(
            "{path}: has no column {field}; use --text_field to name the column with the text: {known}",
            path=path,
            field=repr(text_field),
            known=listed(schema.names),
        )
    if str(schema.field(text_field).type) not in ("string", "large_string"):
        raise InputError("{path}: column {field} is not text", path=path, field=repr(text_field))


def listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")


def _rows_at_once(path: Path, chunk: Any) -> int:
    """How many rows surely fit in memory: no text is larger than its page."""
    begins = [place for place in (chunk.dictionary_page_offset, chunk.data_page_offset) if place]
    largest = 1
    with open_regular(path) as file:
        try:
            for unpacked, packed in page_sizes(file, min(begins, default=0), chunk.total_compressed_size):
                check_density(unpacked, packed)
                largest = max(largest, unpacked)
        except BadPageError:
            raise _unreadable(path, Message("the header of a page is damaged")) from None
    if largest > _LARGEST_PAGE:
        raise InputError(
            "{path}: has a {size} MB page, but at most {most} MB are read at once; rewrite it with fewer rows per "
            "row group",
            path=path,
            size=largest >> 20,
            most=_LARGEST_PAGE >> 20,
        )
    return max(1, min(_ROWS, _ROWS_BYTES // largest))


def _check_amount(rows: int, out: int, size: int) -> None:
    check_density(out, size)
    if rows > max(_HARMLESS_ROWS, size):
        raise TooDenseError


def _unreadable(path: Path, reason: str) -> InputError:
    return InputError("{path}: cannot be read: {reason}", path=path, reason=reason.partition("\n")[0])
