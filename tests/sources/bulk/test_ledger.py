"""A long ledger is read as its plain reader would, and within bounds."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanopace.errors import InputError
from nanopace.run import Row, Rows, Run
from nanopace.sources.bulk.ledger import feed_bulk_ledger
from nanopace.sources.formats.table import LEDGER

from ..reading import Feed, plain, runs_of

RUN = '{"event":"run","ledger":"1.3","started":"","nanopace":"1","config":{},"tokens_per_iteration":8}'


def step(iteration: int, ms: float = 100.5, loss: float = 3.25) -> str:
    return (
        f'{{"event":"step","iteration":{iteration},"ms":{ms},"loss":{loss},"tokens":8,"lr":6e-05,"grad_norm":0.5,'
        f'"at_ms":{iteration * 101.25}}}'
    )


def answer(feed: Feed, text: str, chunk: int) -> object:
    """What is read about the runs, or why they are refused: a changed character may make it a later version."""
    try:
        return [said(run) for run in runs_of(LEDGER, feed, text, chunk)]
    except InputError as error:
        return str(error)


def said(run: Run) -> object:
    """What folding does not change: if a group is divided, only the total time of its rows is known."""
    every = [row for rows in (run.rows, *(each.lost for each in (*run.restarts, *run.rollbacks))) for row in rows]
    return (
        _amount(run.rows),
        pytest.approx(sum(row.sum_ms for row in every)),
        pytest.approx(sum((row.loss or 0.0) * row.count for row in every)),
        [(each.iteration, each.reached, _amount(each.lost), each.beside_ms) for each in run.restarts],
        [(each.iteration, each.failed_at, _amount(each.lost), each.beside_ms) for each in run.rollbacks],
        run.evaluations,
        run.checkpoints,
        run.spans,
        dict(run.facts),
        run.wall_ms,
        run.gpu_use,
        run.ending,
        run.skipped,
        run.spikes,
        run.notes,
    )


def _amount(rows: Rows) -> object:
    return rows.lines, (rows.iteration[0], rows.last_iteration[-1]) if len(rows) else None


OTHERS = (
    RUN,
    '{"event":"resume","iteration":40}',
    '{"event":"rollback","iteration":30,"failed_at":44}',
    '{"event":"eval","iteration":50,"train":3.0,"val":3.1,"ms":700.0,"at_ms":5000.0}',
    '{"event":"checkpoint","iteration":50,"stall_ms":12.0}',
    '{"event":"gpu","iteration":50,"watts":300.0,"throttle":"power_cap","at_ms":9.0}',
    '{"event":"note","text":"x","iteration":3}',
    '{"event":"step","iteration":55,"ms":1.0,"loss":"nan","skipped":true}',
    '{"event":"step","iteration":56,"ms":0.0,"loss":3.0,"at_ms":1.0}',
    '{"event":"step","iteration":57,"ms":1e308,"loss":3.0,"at_ms":1.0}',
    '{"event":"end","reason":"finished","wall_ms":9000.0}',
    '{"event":"later"}',
    "\0\0",
    step(60)[:40],
    step(60)[:40] + step(61),
    f" {step(62)}\r",
)
PIECE = (
    st.tuples(st.integers(0, 90), st.integers(1, 30), st.sampled_from((1.5, 100.5, 400.0))).map(
        lambda each: [step(each[0] + n, each[2] + n / 8, 3 + n / 64) for n in range(each[1])]
    )
    | st.sampled_from(OTHERS).map(lambda line: [line])
    | st.text(max_size=20).map(lambda text: [text])
)


@given(st.lists(PIECE, max_size=12), st.integers(50, 5000), st.booleans(), st.data())
@settings(max_examples=150, deadline=None)
def test_both_readers_say_the_same(pieces: list[list[str]], chunk: int, ended: bool, data: st.DataObject) -> None:
    text = "\n".join([RUN, *(line for piece in pieces for line in piece)]) + "\n" * ended
    if data.draw(st.booleans()):  # one character is changed
        at = data.draw(st.integers(0, len(text) - 1))
        text = text[:at] + data.draw(st.sampled_from(' "{},:.019e-\n')) + text[at + 1 :]
    assert answer(feed_bulk_ledger, text, chunk) == answer(plain, text, chunk)


@pytest.mark.parametrize("number", ["000.75", "007", "-0", "00", "1.", ".5", "+1", "1e-05"])
@pytest.mark.parametrize("key", ["iteration", "ms", "loss", "tokens", "lr", "grad_norm", "at_ms"])
def test_both_readers_agree_on_what_is_a_number(key: str, number: str) -> None:
    odd = re.sub(rf'(?<="{key}":)[^,}}]+', number, step(3))
    text = "\n".join([RUN, *map(step, range(3)), odd, *map(step, range(4, 20))]) + "\n"
    assert answer(feed_bulk_ledger, text, 1 << 20) == answer(plain, text, 1 << 20)


def test_alike_steps_become_one_row_and_a_slow_one_stays() -> None:
    text = "\n".join([RUN, *(step(n, 900.0 if n == 700 else 100.5) for n in range(1000))]) + "\n"
    (run,) = runs_of(LEDGER, feed_bulk_ledger, text)
    assert run.rows.lines == 1000
    assert len(run.rows) < 10
    assert Row(700, 900.0, 3.25) in list(run.rows)
    assert all(before.last_iteration < after.iteration for before, after in pairwise(run.rows))
    assert run.value("tokens_per_iteration") == 8


def test_the_line_that_our_trainer_writes_is_the_usual_one() -> None:
    from nanopace.ledger.codec import to_json
    from nanopace.ledger.events import StepEvent
    from nanopace.sources.bulk.ledger import _STEP

    event = StepEvent(7, 169.2513, loss=3.14159, tokens=491520, lr=0.0006, grad_norm=1.234e-05, at_ms=None)
    line = to_json(event, at_ms=1234.567)
    assert _STEP.fullmatch(line.encode())
    assert json.loads(line)["event"] == "step"
