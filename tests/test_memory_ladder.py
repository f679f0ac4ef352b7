"""The table of memory steps, and that there is no second one."""

from __future__ import annotations

import re
from pathlib import Path

import nanopace
from nanopace.knob_values import INGREDIENTS
from nanopace.memory_ladder import (
    ALL_KEPT,
    LADDER,
    MEMORY_STEPS,
    averages_bytes,
    keeps_gradients,
    kept_numbers,
    recomputed,
    useful_steps,
)

SOURCE = Path(nanopace.__file__).parent


def test_every_step_saves_something_and_costs_no_less_than_the_one_before() -> None:
    assert len(set(MEMORY_STEPS)) == len(LADDER)
    speeds = [step.speed for step in LADDER]
    assert speeds == sorted(speeds, reverse=True)
    kept = [step.kept for step in LADDER if step.kept is not None]
    assert [ALL_KEPT, *kept] == sorted({ALL_KEPT, *kept}, reverse=True)
    assert all(step.kept or step.averages_bytes < 4 or not step.keeps_gradients for step in LADDER)
    for number, step in enumerate(LADDER):
        assert set(step.recipes) <= INGREDIENTS.keys()
        assert set(step.needs) <= set(MEMORY_STEPS[:number])


def test_a_step_comes_with_all_that_are_recomputed_before_it() -> None:
    assert (recomputed([]), recomputed(["averages"])) == ((), ())
    assert recomputed(["hidden", "averages"]) == ("activation", "hidden")
    assert [kept_numbers(recomputed([step])) for step in MEMORY_STEPS] == [10, 6, 2, 14, 14]
    assert (kept_numbers([], "fast"), kept_numbers(["hidden"], "fast")) == (10, 6)


def test_what_the_optimizer_keeps() -> None:
    assert [averages_bytes(MEMORY_STEPS[:count]) for count in range(6)] == [4, 4, 4, 4, 2, 2]
    assert [keeps_gradients(MEMORY_STEPS[:count]) for count in range(6)] == [True] * 5 + [False]
    assert useful_steps("fast", single=True) == ("hidden", "attention")
    assert useful_steps("gpt2") == MEMORY_STEPS[:-1]


def test_steps_have_their_names_from_the_table() -> None:
    """Only the code that performs a step names it: a new step need not be added to lists elsewhere."""
    asking = re.compile(r"\"(hidden|averages|gradients)\" (not )?in ")
    found = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if asking.search(path.read_text())}
    assert found == {"train/fused/model.py"}
