"""A progress bar whose own estimate contradicts its clock: most of the time between rows is no training."""

from __future__ import annotations

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.sources.formats.hugging_face.console_lines import bars

from ...reading import read_one
from ..examples.hugging_face import bar


def training(*, hidden_s: float, epochs: int = 6, every: int = 100, evaluation_s: float = 30.0) -> str:
    """The bar is painted before and after an evaluation at the end of each epoch. What follows is not timed."""
    text, at_s = "", 0.0
    for step in range(1, 120 * epochs + 1):
        at_s += 0.5
        if step % every == 0:
            text += f"{{'loss': 2.5, 'learning_rate': {5e-05 / step}, 'epoch': {round(step / 120, 2)}}}\n"
        if step % 120 == 0:
            text += bar(step, 120 * epochs, at_s, " 2.00it/s") + "\n"
            at_s += evaluation_s
            text += f"{{'eval_loss': 2.6, 'eval_runtime': {evaluation_s}, 'epoch': {step / 120}}}\n"
            text += bar(step, 120 * epochs, at_s, " 2.00it/s") + "\n"
            at_s += hidden_s
    return text + f"{{'train_runtime': {at_s}, 'train_steps_per_second': 0.6, 'epoch': {float(epochs)}}}\n"


def test_the_time_between_rows_is_not_that_of_steps() -> None:
    run = read_one(training(hidden_s=240.0))
    assert len(run.rows) == 0
    assert list(run.untimed_rows.iteration) == [100, 200, 300, 400, 500, 600, 700]
    assert set(run.untimed_rows.ms) == {0.0}
    assert run.wall_ms == 6 * (60 + 30 + 240) * 1000
    (caveat,) = (each for each in run.caveats if each.code == "bar_hides_time")
    assert caveat.numbers["bar_s"] == 0.5
    assert caveat.numbers["gap_s"] == pytest.approx(0.5 + 240 / 120)
    codes = [each.code for each in diagnose(run).findings]
    assert "untimed_log" in codes
    assert "bar_hides_time" in codes
    assert "whole_seconds" not in codes


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_s": 0.0},
        {"hidden_s": 50.0},  # less than half of the time
        {"hidden_s": 0.0, "evaluation_s": 300.0},
        {"hidden_s": 240.0, "epochs": 2, "every": 40},  # once, as a stall may be
    ],
)
def test_otherwise_it_is(changes: dict[str, float]) -> None:
    run = read_one(training(**changes))  # type: ignore[arg-type]
    assert len(run.rows)
    codes = [each.code for each in run.caveats]
    assert "whole_seconds" in codes
    assert "bar_hides_time" not in codes


def test_an_estimate_just_after_a_pause_is_none() -> None:
    """It still contains the pause, as any mean of the last steps does."""
    text, at_s = "", 0.0
    for step in range(1, 201):
        at_s += 20.0 if step % 10 == 0 else 0.5
        text += "\r" + bar(step, 200, at_s, " 2.00it/s")
        if step % 50 == 0:
            text += f"\r{' ' * 50}\r{{'loss': 2.5, 'epoch': {step / 200}}}\n\r" + bar(step, 200, at_s)
    assert len(read_one(text).rows)


def test_what_a_bar_estimates() -> None:
    line = "10%|█         | 5/50 [00:05<00:45, {}]"
    for rate, step_s in {"2.00it/s": 0.5, " 1.67s/it": 1.67, "?it/s": None, "0.00it/s": None}.items():
        assert [each.step_s for each in bars(line.format(rate))] == [step_s]
