"""Reads run-*.wandb, the file of a run that W&B writes in offline mode, and also online.

It is a log of records in LevelDB's format; W&B's classes decode a record. (W&B has had no Python reader since its core
became a separate program.) A history record is what one wandb.log() logged, with the seconds so far.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from nanopace.errors import InputError, NotALog
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.trackers.history import History
from nanopace.sources.scalars import to_count, to_number

_BLOCK = 32 * 1024
_FILE_HEADER, _HEADER = struct.Struct("<4sHB"), struct.Struct("<IHB")
_MAGIC = (b":W&B", 0xBEE1, 0)
_FULL, _FIRST, _MIDDLE, _LAST = range(1, 5)
_MOST_BYTES = 64 << 20  # of a record
_NANOGPT = ("batch_size", "gradient_accumulation_steps", "block_size")  # with these three, a config is like nanoGPT's


class WandbReader:
    """Reads the history and config of one run."""

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder

    def read(self, chunks: Iterable[bytes]) -> None:
        try:
            decode_error = import_module("google.protobuf.message").DecodeError
            record_class = import_module("wandb.proto.wandb_internal_pb2").Record
        except ImportError:
            raise InputError(
                "{path}: reading a W&B run needs the wandb library: pip install 'nanopace[wandb]'",
                path=self._builder.name,
            ) from None
        history, config = History(), dict[str, object]()
        for data in records(chunks):
            try:
                record = record_class.FromString(data)
            except decode_error:
                break
            if record.HasField("history"):
                values = {name: to_number(value) for name, value in _items(record.history.item)}
                history.add(values.get("_runtime"), values)
            for update in (record.run.config.update, record.config.update):
                config.update(_items(update))
        if not history.names:
            raise NotALog("{path}: a W&B run that logged nothing; there is nothing to explain", path=self._builder.name)
        self._facts(config)
        history.tell(self._builder, 0.0)

    def _facts(self, config: dict[str, object]) -> None:
        steps = to_count(config.get("max_iters", config.get("max_steps")))
        if steps:
            self._builder.fact("max_iters", steps)
        tokens = 1
        for name in _NANOGPT:
            tokens *= to_count(config.get(name)) or 0
        if tokens:
            for name in _NANOGPT:
                self._builder.fact(name, to_count(config[name]) or 0)
            self._builder.fact("tokens_per_iteration", tokens, "inferred", "batch_shape")


def records(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The records of LevelDB's log format, up to the first incomplete one: the file may still be growing."""
    read = _Bytes(chunks)
    header = read.take(_FILE_HEADER.size)
    if len(header) < _FILE_HEADER.size or _FILE_HEADER.unpack(header) != _MAGIC:
        return
    record = bytearray()
    while True:
        left = _BLOCK - read.position % _BLOCK
        if left < _HEADER.size:
            read.take(left)
        header = read.take(_HEADER.size)
        if len(header) < _HEADER.size:
            return
        checksum, length, kind = _HEADER.unpack(header)
        data = read.take(length)
        if len(data) < length or checksum != zlib.crc32(data, zlib.crc32(bytes([kind]))) or len(record) > _MOST_BYTES:
            return
        if kind in (_FULL, _FIRST):
            record.clear()
        record += data
        if kind in (_FULL, _LAST):
            yield bytes(record)


class _Bytes:
    """Reads chunks in other sizes."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._chunk = b""
        self._at = 0
        self.position = 0

    def take(self, count: int) -> bytes:
        """`count` bytes, or fewer at the end."""
        while len(self._chunk) - self._at < count:
            following = next(self._chunks, None)
            if following is None:
                break
            self._chunk, self._at = self._chunk[self._at :] + following, 0
        taken = self._chunk[self._at : self._at + count]
        self._at += len(taken)
        self.position += len(taken)
        return taken


def _items(items: Iterable[Any]) -> Iterator[tuple[str, object]]:
    """Names and values; a name may have several parts."""
    for item in items:
        name = item.key or "/".join(item.nested_key)
        try:
            yield name, json.loads(item.value_json)
        except (ValueError, RecursionError):
            continue
