"""Tokens that are counted: by the Trainer, by TRL and by LLaMA-Factory."""

from __future__ import annotations

import json

import pytest

from nanopace.run import Fact

from ...reading import read_one
from ..examples.hugging_face import bar

MEAN = Fact(512, "inferred", "counted_tokens")


def console(counts: dict[int, str]) -> str:
    """TRL's, with numbers of four digits."""
    text = ""
    for step in range(1, 41):
        text += "\r" + bar(step, 40, 2.0 * step)
        if step in counts:
            entry = {"loss": "2.5", "num_tokens": counts[step], "epoch": f"{step / 40:.4g}"}
            text += f"\r{' ' * 50}\r{entry}\n\r" + bar(step, 40, 2.0 * step)
    return text + "\n"


def state(counts: dict[int, float | None], name: str = "num_tokens") -> str:
    history = [{"epoch": 1.0, "loss": 2.5, "step": step, name: count} for step, count in counts.items()]
    return json.dumps({"log_history": history, "max_steps": 40, "num_input_tokens_seen": 0})


def factory(counts: dict[int, int | None]) -> str:
    entry = {"total_steps": 40, "loss": 2.5, "lr": 1e-5, "epoch": 0.1}
    return "".join(
        json.dumps({"current_steps": step, **entry, "elapsed_time": f"0:00:{step:02d}", "total_tokens": count}) + "\n"
        for step, count in counts.items()
    )


def test_steps_that_differ_have_a_mean() -> None:
    counts = {10: 5000, 20: 10_240, 30: 15_240}  # the first row may have been resumed from another count
    assert read_one(state({**counts})).facts["tokens_per_iteration"] == MEAN
    assert read_one(factory({**counts})).facts["tokens_per_iteration"] == MEAN
    printed = {step: f"{count:.4g}" for step, count in counts.items()}
    assert read_one(console(printed)).facts["tokens_per_iteration"] == MEAN
    counts = {10: 5000, 20: 10_240, 30: 5120, 40: 10_240}  # counted from 0 in between
    assert read_one(state({**counts})).facts["tokens_per_iteration"].value == 518


def test_steps_that_do_not_have_their_number() -> None:
    counts = {step: 512 * step for step in (10, 20, 30)}
    for text in (state({**counts}), state({**counts}, "num_input_tokens_seen"), factory({**counts})):
        assert read_one(text).facts["tokens_per_iteration"] == Fact(512, "log")
    assert read_one(console({step: str(count) for step, count in counts.items()})).value("tokens_per_iteration") == 512


@pytest.mark.parametrize(
    "counts", [{10: None, 20: None}, {10: 5001}, {10: 5001, 20: None, 30: 15_001}, {10: 5001, 20: 5001}, {10: 0, 20: 0}]
)
def test_otherwise_nothing_is_known(counts: dict[int, int | None]) -> None:
    assert "tokens_per_iteration" not in read_one(state({**counts})).facts
    assert "tokens_per_iteration" not in read_one(factory({**counts})).facts
