"""nanoGPT's training loss: a second pass in an evaluation, over training windows."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..runs import events, resume, run


def test_a_full_second_pass(corpus: Path, tmp_path: Path) -> None:
    _, told = run(corpus, tmp_path / "out", eval_train="full", max_iters=5)
    first, second = told.all("eval")
    assert first.train == pytest.approx(first.val, abs=0.1)
    assert first.train_steps is None
    assert second.train_error > 0


def test_a_second_pass_that_costs_nothing_is_made_and_stays(corpus: Path, tmp_path: Path) -> None:
    """Also if the run resumes with more evaluations, which would have made it too expensive."""
    out = tmp_path / "out"
    _, told = run(corpus, out, eval_iters=1, eval_interval=20)
    assert [each.train_steps for each in told.all("eval")] == [None, None]
    choice = "full: the second pass adds about 0.83% to the steps"
    assert told.all("started")[0].choices["eval_train"] == choice
    assert events(out, "run")[0]["config"]["eval_train"] == "full"
    assert events(out, "run")[0]["choices"]["eval_train"] == choice
    _, later = resume(out, eval_interval=2, max_iters=24)
    assert all(each.train is not None and each.train_steps is None for each in later.all("eval"))
    assert later.all("eval")


def test_a_second_pass_is_not_on_the_windows_that_the_steps_begin_with(corpus: Path, tmp_path: Path) -> None:
    """A model that has memorised a few windows has not learned the text."""
    knobs = {"eval_train": "full", "eval_iters": 1, "gradient_accumulation_steps": 1, "dropout": 0.0}
    _, told = run(corpus, tmp_path / "out", max_iters=1, eval_interval=1, **knobs)
    first_steps = told.losses[0]  # of the weights as they were drawn, which the first evaluation has seen, too
    assert abs(told.all("eval")[0].train - first_steps) > 1e-5
