"""trainer_log.jsonl: whole seconds since the start, from all versions, from several processes, and cut anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanopace.errors import InputError, NotALog

from ...reading import read
from ..examples.hugging_face import EXAMPLES


def entry(step: int, elapsed: str, **more: Any) -> str:
    line = {"current_steps": step, "total_steps": 100, **more}
    return json.dumps({**line, "percentage": float(step), "elapsed_time": elapsed, "remaining_time": "0:00:00"}) + "\n"


def test_the_example() -> None:
    (run,) = read(EXAMPLES["llama_factory"])
    assert list(run.rows.iteration) == list(range(10, 250, 10))
    assert run.rows.ms[0] == 1800  # with the start
    assert sum(run.rows.ms[1:]) == pytest.approx(23 * 1300)
    assert [(each.iteration, each.ms) for each in run.evaluations] == [(80, 25_000), (160, 25_000), (240, 25_000)]
    assert (run.value("max_iters"), run.ending, run.rows_cover) == (240, "finished", 10)
    assert [each.code for each in run.caveats] == ["whole_seconds"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"loss": 2.0, "reward": None, "learning_rate": 1e-4}, {"loss": 1.9, "reward": None, "learning_rate": 1e-4}),
        ({"loss": 2.0, "eval_loss": None, "predict_loss": None}, {"loss": 1.9, "eval_loss": None}),
        ({"loss": 2.0, "lr": 1e-4, "throughput": 900.1, "total_tokens": 99}, {"loss": 1.9, "lr": 1e-4}),
        ({"epoch": 0.1}, {"epoch": 0.2}),
    ],
)
def test_every_version(first: dict[str, Any], second: dict[str, Any]) -> None:
    (run,) = read(entry(10, "1 day, 0:00:10", **first) + entry(20, "1 day, 0:01:50", **second))
    assert (list(run.rows.iteration), run.rows.ms[1]) == ([10, 20], 10_000)
    assert (run.rows[1].loss == 1.9) == ("loss" in second)


@pytest.mark.parametrize(
    ("first", "last", "ending"),
    [
        ((90, {"loss": 2.0}), (90, {}), "finished"),  # stopped early
        ((90, {"loss": 2.0}), (98, {"loss": None, "eval_loss": None}), "finished"),
        ((90, {"loss": 2.0}), (100, {}), "finished"),
        ((90, {"loss": 2.0}), (90, {"eval_loss": 2.1}), None),
        ((90, {}), (98, {}), None),  # some versions have lines without a loss
    ],
)
def test_the_last_line_has_no_loss(
    first: tuple[int, dict[str, Any]], last: tuple[int, dict[str, Any]], ending: str | None
) -> None:
    lines = [entry(step, f"0:0{at}:00", epoch=1.0, **more) for at, (step, more) in enumerate((first, last), 1)]
    (run,) = read("".join(lines))
    assert (run.ending, run.ended_at) == (ending, last[0] if ending else None)


def test_two_processes_that_write_into_one_file() -> None:
    lines = [entry(step, f"0:0{step // 10}:0{rank}", loss=2.0 + rank) for step in range(10, 100, 10) for rank in (0, 1)]
    (run,) = read("".join(lines))
    assert list(run.rows.iteration) == list(range(10, 100, 10))
    assert run.rows_of_others == 9
    assert not run.restarts
    assert sum(run.rows.ms) == pytest.approx(9 * 6000, abs=100)


def test_two_processes_in_step_that_restart() -> None:
    """Some lines are the same; others differ by a second, either way."""

    def pair(step: int, minute: int) -> list[str]:
        return [entry(step, f"0:{minute:02d}:{30 + late}", loss=2.0) for late in (0, step // 10 % 3 - 1)]

    begun = [line for step in range(10, 400, 10) for line in pair(step, step // 10)]
    again = [line for step in range(310, 600, 10) for line in pair(step, step // 10 - 30)]
    (run,) = read("".join([*begun[::2], *again]))
    assert list(run.rows.iteration) == list(range(10, 600, 10))
    assert [(each.iteration, each.reached) for each in run.restarts] == [(310, 390)]
    (run,) = read("".join([*begun, *again]))
    assert list(run.rows.iteration) == list(range(10, 600, 10))
    assert [(each.iteration, each.reached) for each in run.restarts] == [(310, 390)]


def test_a_line_of_another_process_at_the_end() -> None:
    """It started a moment later."""
    lines = (entry(10, "0:01:00", loss=2.0), entry(20, "0:02:00", loss=1.9), entry(20, "0:01:59", loss=1.9))
    (run,) = read("".join([*lines, entry(25, "0:02:30", epoch=0.5)]))
    assert (list(run.rows.iteration), run.restarts) == ([10, 20, 25], ())


def test_predictions_are_no_training() -> None:
    predicted = "".join(entry(step, f"0:00:{step}") for step in range(5, 55, 5))
    with pytest.raises(NotALog, match="a prediction by LLaMA-Factory, not a training"):
        read(predicted)
    trained = "".join(entry(step, f"0:0{step // 10}:00", loss=2.0) for step in range(10, 60, 10))
    (run,) = read(trained + predicted)
    assert (list(run.rows.iteration), run.restarts) == ([10, 20, 30, 40, 50], ())


def test_a_process_that_resumes() -> None:
    before = "".join(entry(step, f"0:0{step // 10}:00", loss=2.0) for step in range(10, 60, 10))
    after = "".join(entry(step, f"0:0{step // 10 - 3}:00", loss=1.9) for step in range(40, 80, 10))
    (run,) = read(before + after)
    assert [(each.iteration, each.reached, len(each.lost)) for each in run.restarts] == [(40, 50, 2)]
    assert list(run.rows.iteration) == list(range(10, 80, 10))


@given(st.integers(0, len(EXAMPLES["llama_factory"])))
def test_a_log_that_ends_anywhere(end: int) -> None:
    """Every complete line counts, and no other."""
    text = EXAMPLES["llama_factory"][:end]
    assert isinstance(text, str)
    (whole,) = read(EXAMPLES["llama_factory"])
    try:
        (run,) = read(text)
    except InputError:
        assert text.count("\n") == 0
        return
    lines = [json.loads(line) for line in text.splitlines() if line.endswith("}")]
    rows = [line for line in lines if "loss" in line]
    assert list(run.rows.iteration) == [line["current_steps"] for line in rows]
    if len(rows) > 1:  # of one alone it is not known how many steps it covers
        assert sum(run.rows.ms) == pytest.approx(sum(whole.rows.ms[: len(rows)]), rel=0.05)
