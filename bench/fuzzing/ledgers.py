"""Makes ledgers, event by event, and pairs of logs, and passes them to nanopace."""

from __future__ import annotations

import io
import json
import zlib
from dataclasses import fields
from random import Random
from typing import Any

from fuzzing.hostile import packed, spoil, value
from fuzzing.logs import hostile_numbers, make_log
from nanopace.wording.numbers import LANGUAGES

SPLIT = b"\n=== the other log ===\n"


def make_ledger(dice: Random) -> bytes:
    events = _events(dice, dice.choice((1, 2, 3, 4, 6, 20)))
    match dice.randrange(8):
        case 0:
            dice.shuffle(events)
        case 1:
            storm = dice.choice(("resume", "rollback", "run"))
            events += [_event(dice, storm, dice.randrange(30)) for _ in range(dice.choice((1, 2, 3, 5, 40)))]
            if dice.random() < 0.001:
                events += events * 400
        case 2:
            events += events
        case 3 if events:
            del events[0]
    for _ in range(dice.choice((0, 1, 2, 5))):
        event = dice.choice(events)
        key = dice.choice((*event, "unknown"))
        event[key] = value(dice)
    if dice.random() < 0.1:
        events[0]["ledger"] = dice.choice(("0.1", "1.99", "2.0", "99.0", "", "x", 1, None))
    data = b"\n".join(json.dumps(each).encode() for each in events) + b"\n"
    match dice.randrange(12):
        case 0:
            return spoil(dice, data)
        case 1:
            return data[: dice.randrange(len(data))]
        case 2:
            return hostile_numbers(dice, data)
        case 3:
            return packed(dice, data)
        case _:
            return data


def _events(dice: Random, count: int) -> list[dict[str, object]]:
    from nanopace.ledger.events import EVENTS

    events = [_event(dice, "run", 0)]
    for number in range(count):
        events.append(_event(dice, "step", number))
        if dice.random() < 0.5:
            events.append(_event(dice, dice.choice(list(EVENTS)), number))
    return events


def _event(dice: Random, name: str, number: int) -> dict[str, object]:
    """An event as a trainer would write it, with all of its fields or some of them."""
    from nanopace.ledger.events import EVENTS

    usual: dict[str, object] = {"Count": 3, "Number": 2.5, "Milliseconds": 12.5, "str": "finished", "bool": True}
    usual |= {"Config": {"batch_size": 8, "n_layer": 2}, "Texts": {"device": "cpu"}}
    event: dict[str, object] = {"event": name}
    for field in fields(EVENTS[name]):
        kind, _, optional = str(field.type).partition(" | ")
        if not optional or dice.random() < 0.5:
            event[field.name] = usual[kind]
    special = {
        "iteration": number,
        "ledger": "1.3",
        "at_ms": 1000.0 * number,
        "failed_at": number + 2,
        "ms": 100 + dice.random(),
    }
    return event | {key: given for key, given in special.items() if key in event}


# --- what is done with them ------------------------------------------------------------------------------------------


def explain(data: bytes) -> None:
    """Do what `nanopace explain` does. A report takes longer than everything before it, a page ten times as long."""
    from nanopace.diagnosis.diagnose import diagnose
    from nanopace.sources.runs import open_runs

    found = [diagnose(run) for run in open_runs(io.BytesIO(data))]
    _render(found[:50], zlib.crc32(data))


def _render(found: list[Any], choice: int) -> None:
    from nanopace.api import render

    form = "html" if choice % 200 == 0 else "text" if choice % 20 == 1 else "json" if choice % 20 < 5 else None
    if found and form is not None:
        render(found, format=form, lang=LANGUAGES[choice % len(LANGUAGES)])


def read_events(data: bytes) -> None:
    from nanopace.ledger.file import read_ledger

    read_ledger(data.split(b"\n"))
    explain(data)


def make_pair(dice: Random) -> bytes:
    """Mostly two logs of the same kind, since others cannot be compared."""
    if dice.random() < 0.2:
        return (make_log if dice.random() < 0.5 else make_ledger)(dice) + SPLIT + make_log(dice)
    make = make_log if dice.random() < 0.7 else make_ledger
    return make(dice) + SPLIT + make(dice)


def compare_both(data: bytes) -> None:
    from nanopace.diagnosis.compare.compare import compare
    from nanopace.diagnosis.diagnose import diagnose
    from nanopace.sources.runs import open_runs

    runs = [diagnose(run) for part in data.split(SPLIT) for run in open_runs(io.BytesIO(part))[:2]]
    found = [compare(runs[0], other) for other in runs[1:3]]
    _render(found, zlib.crc32(data))
