"""The parser of each format by itself: corrupted examples go straight to it, without format detection before it and
reports after it. So it can try many more, including those that no longer look like their format.

JSON and the two binary formats are altered structurally: otherwise nearly all would be refused at the first byte.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from fuzzing.formats import example, example_names, spoiled
from fuzzing.hostile import WORDS, altered_json, spoil

_FEW_LINES = (2, 3, 6)
_INTEGERS = (0, 1, -1, 2, 9, 10, 10**6, 2**31, 2**53, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, -1.0, 0.1, 1.7e9, 1.7e9 + 0.13, 1e18, 1e308, -1e308, 5e-324, *map(float, ("nan", "inf", "-inf")))
_WANDB_HEADER, _WANDB_RECORD = 7, struct.Struct("<IHB")


def make_for_parser(dice: Random) -> bytes:
    """A format's name in the first line, then a file for its parser."""
    name = dice.choice(example_names())
    return name.encode() + b"\n" + _altered(name)(dice, example(name))


def read_by_parser(data: bytes) -> None:
    from nanopace.sources.build import RunBuilder
    from nanopace.sources.text import lines, width_of

    name, _, log = data.partition(b"\n")
    format, builder = _format_of(name.decode()), RunBuilder("a.log")
    if format.opening:
        format.read_document(builder, [log])
    else:
        printed = list(lines([log]))
        reader = format.open_reader(builder, width_of([line for line, _ in printed[:100]]))
        for line, ended in printed:
            (reader.feed if ended else reader.feed_cut)(line)
        reader.finish()
    builder.finish()


@cache
def _format_of(name: str) -> Any:
    """The format, detected from the complete example."""
    from nanopace.sources.detect import Detector

    detector = Detector()
    detector.look_at(example(name))
    assert detector.format is not None, name
    return detector.format


@cache
def _altered(name: str) -> Callable[[Random, bytes], bytes]:
    """The function that alters files of this format."""
    data = example(name)
    if name in ("tensorboard", "wandb"):
        return _other_events if name == "tensorboard" else _other_records
    if data.startswith(b"{") and data.rstrip().endswith(b"}"):
        try:
            json.loads(data)
        except ValueError:
            return _other_objects
        return _other_document
    return _spoiled


def _spoiled(dice: Random, data: bytes) -> bytes:
    return spoiled(dice, data, most_lines=dice.choice(_FEW_LINES), most_bytes=300_000)


def _other_document(dice: Random, data: bytes) -> bytes:
    document = json.loads(data)
    for entries in (held for held in document.values() if isinstance(held, list)):
        entries[:] = [
            entries[at] for at in sorted(dice.sample(range(len(entries)), min(len(entries), dice.choice(_FEW_LINES))))
        ]
    return altered_json(dice, document) if dice.random() < 0.9 else _spoiled(dice, data)


def _other_objects(dice: Random, data: bytes) -> bytes:
    """Some of the lines, each with one JSON object."""
    if dice.random() < 0.3:
        return _spoiled(dice, data)
    lines = data.splitlines()
    lines = [
        lines[at]
        for at in sorted(dice.sample(range(len(lines)), dice.randint(1, min(len(lines), dice.choice(_FEW_LINES)))))
    ]
    for at in range(len(lines)):
        if dice.random() < 0.4:
            lines[at] = altered_json(dice, json.loads(lines[at]))
    return b"\n".join(lines) + b"\n"


# --- binary formats ---------------------------------------------------------------------------------------------------


def _other_events(dice: Random, _: bytes) -> bytes:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    file, events = io.BytesIO(), _some(dice, _events())
    writer = RecordWriter(file)
    for data in events:
        event = Event.FromString(data)
        if dice.random() < 0.4:
            _alter_event(dice, event)
        data = event.SerializeToString()
        writer.write(spoil(dice, data, 1) if dice.random() < 0.05 else data)
    return _perhaps_spoiled(dice, file.getvalue())


def _alter_event(dice: Random, event: Any) -> None:
    values = event.summary.value
    match dice.randrange(7):
        case 0:
            event.wall_time = dice.choice(_FLOATS)
        case 1:
            event.step = dice.choice(_INTEGERS)
        case 2 if values:
            values[0].tag = _text(dice)
        case 3 if values:
            values[0].ClearField("tensor") if dice.random() < 0.3 else values[0].tensor.ClearField("float_val")
            values[0].simple_value = dice.choice((0.0, -1.0, 3e38, float("nan"), float("inf"), 0.5))
        case 4 if values:
            values[0].tensor.dtype = dice.randrange(24)
            values[0].tensor.tensor_content = dice.randbytes(dice.choice((0, 1, 4, 8, 64)))
        case 5 if values:
            for _ in range(dice.randrange(4)):
                values[0].tensor.tensor_shape.dim.add().size = dice.choice(_INTEGERS)
        case _ if values:
            values.add().CopyFrom(values[0])


@cache
def _events() -> tuple[bytes, ...]:
    data, at, found = example("tensorboard"), 0, []
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        found.append(data[at + 12 : at + 12 + size])
        at += 16 + size
    return tuple(found)


def _other_records(dice: Random, data: bytes) -> bytes:
    from wandb.proto.wandb_internal_pb2 import Record

    made = bytearray(data[:_WANDB_HEADER])
    for kept in _some(dice, _records()):
        record = Record.FromString(kept)
        for items in (record.history.item, record.config.update, record.run.config.update):
            if items and dice.random() < 0.4:
                item = dice.choice(items)
                if dice.random() < 0.3:
                    item.key = _text(dice)
                else:
                    item.value_json = altered_json(dice, {"": 0})[5:-1].decode("utf-8", "replace")
        written = record.SerializeToString()
        written = spoil(dice, written, 1) if dice.random() < 0.05 else written
        kind = 1 if dice.random() < 0.95 else dice.randrange(6)
        checksum = zlib.crc32(written, zlib.crc32(bytes([kind])))
        made += _WANDB_RECORD.pack(checksum, len(written) & 0xFFFF, kind) + written
    return _perhaps_spoiled(dice, bytes(made))


@cache
def _records() -> tuple[bytes, ...]:
    from nanopace.sources.formats.trackers.wandb_run import records

    return tuple(records([example("wandb")]))


def _some(dice: Random, records: tuple[bytes, ...]) -> list[bytes]:
    """A few records, usually in order and with the first one."""
    chosen = dice.sample(range(len(records)), min(len(records), dice.choice(_FEW_LINES)))
    if dice.random() < 0.8:
        chosen = sorted({0, *chosen})
    return [records[at] for at in chosen]


def _text(dice: Random) -> str:
    known = ("loss", "train/loss", "val/loss", "_step", "_runtime", "_timestamp", "iter", "mfu", "train/iter_time")
    return dice.choice(known) if dice.random() < 0.5 else dice.choice(WORDS).encode("utf-8", "replace").decode()


def _perhaps_spoiled(dice: Random, data: bytes) -> bytes:
    if dice.random() < 0.1:
        return spoil(dice, data)
    return data[: dice.randrange(len(data) + 1)] if dice.random() < 0.05 else data
