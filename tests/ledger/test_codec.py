"""Events become lines and come back unchanged; errors are named, newer fields are skipped."""

from __future__ import annotations

import json
import math
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.errors import InputError
from nanopace.ledger.codec import DamagedError, from_json, to_json
from nanopace.ledger.events import EVENTS, EndEvent, Event, RollbackEvent, RunEvent, StepEvent

KNOBS = st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = {
    "Count": st.integers(0, 2**53 - 1),
    "Number": st.floats(1e-29, 1e29) | st.floats(-1e29, -1e-29) | st.sampled_from((0.0, math.nan, math.inf, -math.inf)),
    "Milliseconds": st.floats(1e-29, 3e12) | st.just(0.0),
    "str": st.text(),
    "bool": st.booleans(),
    "Config": st.dictionaries(st.text(), KNOBS, max_size=5),
    "Texts": st.dictionaries(st.text(), st.text(), max_size=5),
}


def event_of(kind: type[Event]) -> st.SearchStrategy[Event]:
    """Any event of a kind, from its annotations."""
    values = {}
    for entry in fields(kind):
        plain, optional, _ = str(entry.type).partition(" | None")
        values[entry.name] = st.none() | VALUES[plain] if optional else VALUES[plain]
    values.pop("ledger", None)  # a made-up version would be refused
    return st.builds(kind, **values)


EVENT = st.one_of([event_of(kind) for kind in EVENTS.values()])


@given(EVENT)
@settings(max_examples=300, deadline=None)
def test_every_event_comes_back_as_it_was(event: Event) -> None:
    line = to_json(event)
    assert repr(from_json(line)) == repr(event)  # repr, because nan is not equal to itself
    assert line.isascii()
    assert "\n" not in line
    json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def test_the_line_is_readable_and_leaves_out_what_is_unknown() -> None:
    assert to_json(StepEvent(7, 169.25, loss=3.5)) == '{"event":"step","iteration":7,"ms":169.25,"loss":3.5}'
    assert to_json(EndEvent("finished"), at_ms=12.5) == '{"event":"end","reason":"finished","at_ms":12.5}'


def test_what_is_as_usual_takes_no_room() -> None:
    assert "skipped" not in to_json(StepEvent(7, 1.0))
    assert to_json(StepEvent(7, 1.0, skipped=True, lag=0.1)).endswith('"ms":1.0,"skipped":true,"lag":0.1}')
    assert to_json(RollbackEvent(3, 5)) == '{"event":"rollback","iteration":3,"failed_at":5}'
    back = from_json('{"event":"rollback","iteration":3,"failed_at":5,"data_offset":0}')
    assert back == RollbackEvent(3, 5, data_offset=0)


def test_an_event_keeps_its_own_stamp() -> None:
    assert from_json(to_json(EndEvent("error", at_ms=3.0), at_ms=9.0)) == EndEvent("error", at_ms=3.0)


def test_the_version_is_always_written_and_comes_first() -> None:
    assert to_json(RunEvent("2026-01-01T00:00:00+00:00", "0.1.0")).startswith('{"event":"run","ledger":"1.4",')


@pytest.mark.parametrize(("figure", "read"), [("1e308", math.inf), ("-1e30", -math.inf), ("5e-324", 0.0)])
def test_a_number_beyond_what_anything_measures_is_infinite_or_zero(figure: str, read: float) -> None:
    event = from_json(f'{{"event":"step","iteration":1,"ms":5,"loss":{figure}}}')
    assert isinstance(event, StepEvent)
    assert event.loss == read


@pytest.mark.parametrize("ms", ["1e308", "4e12", "-1", '"inf"', f"{10**400}"])
def test_a_step_longer_than_a_century_is_damaged(ms: str) -> None:
    with pytest.raises(DamagedError):
        from_json(f'{{"event":"step","iteration":1,"ms":{ms}}}')


def test_a_diverged_loss_survives_as_valid_json() -> None:
    line = to_json(StepEvent(1, 5.0, loss=math.nan, grad_norm=math.inf))
    assert '"loss":"nan"' in line
    event = from_json(line)
    assert isinstance(event, StepEvent)
    assert math.isnan(event.loss or 0.0)
    assert event.grad_norm == math.inf


def test_what_a_later_version_adds_is_skipped() -> None:
    assert from_json('{"event":"teleport","to":"mars"}') is None
    assert from_json('{"event":"step","iteration":1,"ms":2,"mood":"good"}') == StepEvent(1, 2.0)
    run = from_json('{"event":"run","ledger":"1.9","started":"s","nanopace":"2","config":{"a":1,"b":[1],"c":null}}')
    assert isinstance(run, RunEvent)
    assert run.config == {"a": 1}


def test_of_choices_only_the_texts_are_kept() -> None:
    run = from_json('{"event":"run","started":"s","nanopace":"1","choices":{"dtype":"it is fast","later":[1],"n":2}}')
    assert isinstance(run, RunEvent)
    assert run.choices == {"dtype": "it is fast"}
    assert '"choices":{"dtype":"it is fast"}' in to_json(run)


def test_empty_mappings_are_left_out_like_any_default() -> None:
    assert to_json(RunEvent("s", "1")) == '{"event":"run","ledger":"1.4","started":"s","nanopace":"1"}'


def test_null_is_the_same_as_absent() -> None:
    assert from_json('{"event":"step","iteration":1,"ms":2,"loss":null}') == StepEvent(1, 2.0)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "null",
        "[]",
        "17",
        "iter 0: loss 10.9, time 12.00ms",
        '{"event":7}',
        '{"iteration":1,"ms":2}',
        '{"event":"step","iteration":1}',
        '{"event":"step","iteration":1,"ms":null}',
        '{"event":"step","iteration":1.5,"ms":2}',
        '{"event":"step","iteration":true,"ms":2}',
        '{"event":"step","iteration":-1,"ms":2}',
        '{"event":"step","iteration":9007199254740992,"ms":2}',
        '{"event":"step","iteration":1,"ms":"fast"}',
        '{"event":"step","iteration":1,"ms":-2}',
        '{"event":"step","iteration":1,"ms":NaN}',
        '{"event":"step","iteration":1,"ms":Infinity}',
        '{"event":"step","iteration":1,"ms":2,"loss":[]}',
        '{"event":"span","phase":"data","iteration":1,"ms":2,"background":1}',
        '{"event":"end","reason":3}',
        '{"event":"step","iteration":1,"ms":2,"skipped":1}',
        '{"event":"step","iteration":1,"ms":2,"slowest_rank":-1}',
        '{"event":"step","iteration":1,"ms":2,"lag":"long"}',
        '{"event":"micro_batch","iteration":1,"batch_size":4}',
        '{"event":"micro_batch","iteration":1,"batch_size":4.5,"accumulation":2}',
        '{"event":"rollback","iteration":1}',
        '{"event":"run","started":"s","nanopace":"1","config":[]}',
        '{"event":"run","started":"s","nanopace":"1","choices":"many"}',
        '{"event":"gpu","iteration":1,"watts":"many"}',
        '{"event":"gpu","watts":1}',
        '{"event":"note","iteration":1}',
        '{"event":"run","started":"s","nanopace":"1","ledger":1}',
        '{"event":"run","started":"s","nanopace":"1","ledger":"new"}',
        '{"event":"run","started":"s","nanopace":"1","ledger":"1234567890.0"}',
        '{"event":"step","iteration":1,"ms":1' + "0" * 400 + "}",
        '{"event":"step","iteration":1' + "0" * 5000 + ',"ms":1}',
        "[" * 100_000,
    ],
)
def test_what_is_not_as_the_format_says_is_damaged(line: str) -> None:
    with pytest.raises(DamagedError):
        from_json(line)


def test_a_newer_major_version_is_refused_in_words() -> None:
    with pytest.raises(InputError, match=r"format version 2\.0.*up to version 1\.6.*update nanopace"):
        from_json('{"event":"run","ledger":"2.0","whatever":1}')
    with pytest.raises(InputError, match="format version 123456789,"):
        from_json('{"event":"run","ledger":"123456789"}')


def test_a_count_is_exact_as_a_float() -> None:
    assert from_json('{"event":"step","iteration":9007199254740991,"ms":2}') == StepEvent(2**53 - 1, 2.0)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner)))
@settings(max_examples=100, deadline=None)
def test_no_value_in_any_field_does_more_than_damage(value: object) -> None:
    for name, kind in EVENTS.items():
        for entry in fields(kind):
            line = json.dumps(
                {"event": name, "iteration": 1, "ms": 1, "started": "s", "nanopace": "1", entry.name: value}
            )
            try:
                from_json(line)
            except (DamagedError, InputError):
                continue
