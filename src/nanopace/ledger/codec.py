"""Converts events to lines of JSON and back, and checks every field.

To keep old and new versions compatible, unknown events and fields are skipped. A known event with a wrong type counts
as damaged. Only a ledger with a newer major version is refused, since its known fields may have a different meaning.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from operator import attrgetter

from nanopace.errors import InputError
from nanopace.ledger.events import EVENTS, MAJOR, VERSION, Config, Event, RunEvent, Texts


class DamagedError(ValueError):
    """A line that is not an event, or a known event that does not follow the format."""


def to_json(event: Event, at_ms: float | None = None) -> str:
    """The event as one line of ASCII without a newline, "event" first. Fields with their default value are left out."""
    names, values_of, defaults = _WRITTEN[event.name]
    known = zip(names, values_of(event), defaults, strict=True)
    record: dict[str, object] = {"event": event.name}
    record |= {name: value for name, value, default in known if value is not None and value != default}
    if at_ms is not None and event.at_ms is None:
        record["at_ms"] = at_ms
    try:
        return _encode(record)
    except ValueError:  # JSON has neither nan nor infinity
        return _encode({name: _spelled(value) for name, value in record.items()})


def from_json(text: str) -> Event | None:
    """The event in a line, or None for an event that only a later version knows.

    Raises DamagedError for anything else, and InputError for a ledger with a newer major version.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedError("not a line of JSON") from error
    return from_record(record)


def from_record(record: object) -> Event | None:
    """Like from_json, for a decoded line."""
    if not isinstance(record, dict) or not isinstance(record.get("event"), str):
        raise DamagedError("not an event")
    kind = EVENTS.get(record["event"])
    if kind is None:
        return None
    if kind is RunEvent:
        _refuse_newer(record.get("ledger", VERSION))
    values: dict[str, object] = {}
    for name, check, required in _SCHEMA[kind.name]:
        value = record.get(name)
        if value is not None:
            values[name] = check(value)
        elif required:
            raise DamagedError(f"{kind.name} without {name}")
    return kind(**values)  # type: ignore[arg-type]


def _refuse_newer(version: object) -> None:
    major = version.partition(".")[0] if isinstance(version, str) else ""
    if not (major.isascii() and major.isdigit() and len(major) < 10):
        raise DamagedError("no version")
    if int(major) > MAJOR:
        raise InputError(
            "the ledger has format version {version}, but this nanopace reads only up to version {known}; update "
            "nanopace",
            version=version,
            known=VERSION,
        )


# --- one check per annotation ----------------------------------------------------------------------------------------

LONGEST_MS = 100 * 366 * 86_400_000.0  # a century: anything longer is damaged
_LARGEST = 1e30
_MOST = 2**53  # above this, a float no longer holds every integer
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _spelled(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _spelled(inner) for name, inner in value.items()}
    return value


def _count(value: object) -> int:
    if type(value) is int and 0 <= value < _MOST:
        return value
    raise DamagedError("not a count")


def _number(value: object) -> float:
    if type(value) is float or (type(value) is int and abs(value) < 2**1023):
        return _within_reach(value)
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    raise DamagedError("not a number")


def _within_reach(value: float) -> float:
    """Turn numbers beyond anything measurable into infinity or zero, so that sums and squares stay finite."""
    size = abs(value)
    if 1 / _LARGEST < size < _LARGEST or not size:
        return float(value)
    if size >= _LARGEST:
        return math.copysign(math.inf, value)
    return 0.0 if size == size else math.nan


def _milliseconds(value: object) -> float:
    number = _number(value)
    if 0 <= number < LONGEST_MS:
        return number
    raise DamagedError("not a duration")


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise DamagedError("not a text")


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise DamagedError("not true or false")


def _config(value: object) -> Config:
    """A knob that is a list or an object comes from a later version. It is skipped, like an unknown field."""
    if isinstance(value, dict):
        return {name: knob for name, knob in value.items() if isinstance(knob, (bool, int, float, str))}
    raise DamagedError("not a config")


def _texts(value: object) -> Texts:
    if isinstance(value, dict):
        return {name: text for name, text in value.items() if isinstance(text, str)}
    raise DamagedError("not texts by name")


_CHECKS: Mapping[str, Callable[[object], object]] = {
    "Count": _count,
    "Number": _number,
    "Milliseconds": _milliseconds,
    "str": _text,
    "bool": _flag,
    "Config": _config,
    "Texts": _texts,
}
# By event: (field, check, whether it is required).
_SCHEMA = {
    name: tuple(
        (
            entry.name,
            _CHECKS[str(entry.type).removesuffix(" | None")],
            entry.default is MISSING and entry.default_factory is MISSING,
        )
        for entry in fields(kind)
    )
    for name, kind in EVENTS.items()
}


def _written(kind: type[Event]) -> tuple[tuple[str, ...], Callable[[Event], tuple[object, ...]], tuple[object, ...]]:
    """The fields in the order they are written: version and trainer first, time stamp last."""
    entries = sorted(fields(kind), key=lambda entry: {"ledger": 0, "trainer": 1, "at_ms": 3}.get(entry.name, 2))
    names = tuple(entry.name for entry in entries)
    # The version is always written, although it has a default.
    defaults = tuple(MISSING if entry.name == "ledger" else _default(entry) for entry in entries)
    return names, attrgetter(*names), defaults


def _default(entry: Field[object]) -> object:
    return entry.default if entry.default_factory is MISSING else entry.default_factory()


# By event: the names of its fields, a getter for all their values (called at every step), and their defaults.
_WRITTEN = {name: _written(kind) for name, kind in EVENTS.items()}
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
