"""Faults inside a step, provoked in real runs: a loss that is not finite, missing data."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.shards.order import Order
from nanopace.errors import InputError, UsageError
from nanopace.literals import Value
from nanopace.train import setup
from nanopace.train.checkpoint.layout import newest_intact
from nanopace.train.loop.batches import Batches
from nanopace.train.loop.loop import Loop
from nanopace.train.loop.loss_watch import SPIKE_Z, STREAK
from nanopace.train.models.gpt2 import GPT
from nanopace.train.optim.optimizer import optimizer_tensors
from nanopace.train.plan import settings

from .conftest import TINY
from .runs import Stopping, events, files, resume, run

Fault = Callable[[torch.Tensor], torch.Tensor]


def nan_loss(loss: torch.Tensor) -> torch.Tensor:
    return loss * torch.nan


def infinite_loss(loss: torch.Tensor) -> torch.Tensor:
    return loss + torch.inf


def infinite_gradient(loss: torch.Tensor) -> torch.Tensor:
    loss.register_hook(lambda gradient: gradient * torch.inf)
    return loss


class Faulty:
    """Spoils the loss of the given steps, each `times` times, and checks the weights before and after every step."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fault: Fault, steps: Collection[int], times: int = 1) -> None:
        self._left = dict.fromkeys(steps, times)
        self._fault, self._step = fault, -1
        self.changed: dict[int, bool] = {}  # whether the weights, averages or counts did, by step
        real_step, real_forward = Loop.step, GPT.forward

        def step(loop: Loop) -> None:
            self._step = loop.iteration
            before = _everything(loop)
            try:
                real_step(loop)
            finally:
                self._left[self._step] = self._left.get(self._step, 0) - 1
                after = _everything(loop)
                self.changed[self._step] = not all(torch.equal(before[name], after[name]) for name in before)
                self._step = -1

        def forward(model: GPT, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            loss = real_forward(model, tokens, targets)
            return self._fault(loss) if self._left.get(self._step, 0) > 0 else loss

        monkeypatch.setattr(Loop, "step", step)
        monkeypatch.setattr(GPT, "forward", forward)


def _everything(loop: Loop) -> dict[str, torch.Tensor]:
    parts = loop._parts
    found = {**dict(parts.model.named_parameters()), **optimizer_tensors(parts.model, parts.optimizer)}
    return {name: each.detach().clone() for name, each in found.items()}


def unfused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a Mac, where the host has to check."""
    real = setup.make_optimizer

    def make(*given: Any, **how: Any) -> torch.optim.Optimizer:
        optimizer = real(*given, **how)
        for group in (*optimizer.param_groups, optimizer.defaults):
            group["fused"] = False
        return optimizer

    monkeypatch.setattr(setup, "make_optimizer", make)


# --- not finite ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "knobs"),
    [
        (nan_loss, {}),
        (infinite_loss, {}),
        (infinite_gradient, {}),
        (infinite_gradient, {"grad_clip": 0.0}),
        (nan_loss, {"dtype": "bfloat16"}),
        (infinite_loss, {"unfused": True}),
    ],
)
def test_a_step_that_is_not_finite_leaves_no_trace(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, knobs: dict[str, Value]
) -> None:
    """Weights, averages and AdamW's step count are bit-identical."""
    if "unfused" in knobs:
        unfused(monkeypatch)
    faulty = Faulty(monkeypatch, fault, [4])
    chosen = {name: value for name, value in knobs.items() if name != "unfused"}
    outcome, told = run(corpus, tmp_path / "out", max_iters=8, **chosen)
    assert outcome.reason == "finished"
    assert [step for step, changed in faulty.changed.items() if not changed] == [4]
    assert [event.iteration for event in told.all("step") if event.skipped] == [4]
    assert [each["iteration"] for each in events(tmp_path / "out", "step") if each.get("skipped")] == [4]
    notes = [each for each in told.all("note") if "skipped so far" in each]
    assert len(notes) == 1
    assert notes[0].startswith("step 4: ")
    assert np.isfinite([each.train for each in told.all("eval")[1:]]).all()


def test_a_scale_that_is_too_high_is_no_fault(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faulty = Faulty(monkeypatch, infinite_gradient, [3, 4, 5, 6])
    monkeypatch.setattr(settings, "pick_dtype", lambda *_, **__: ("float16", "as on a card"))
    outcome, told = run(corpus, tmp_path / "out", max_iters=9)
    assert outcome.reason == "finished"
    assert not any(faulty.changed[step] for step in (3, 4, 5, 6))  # GradScaler left them out
    assert not any(event.skipped for event in told.all("step"))
    assert not told.all("note")


def test_a_loss_that_is_not_finite_is_a_fault_in_float16_too(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the gradients do not show it."""
    faulty = Faulty(monkeypatch, infinite_loss, [4])
    monkeypatch.setattr(settings, "pick_dtype", lambda *_, **__: ("float16", "as on a card"))
    _, told = run(corpus, tmp_path / "out", max_iters=8)
    assert not faulty.changed[4]
    assert [event.iteration for event in told.all("step") if event.skipped] == [4]


def test_after_a_few_in_a_row_training_goes_back_and_meets_other_data(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole = run(corpus, tmp_path / "whole")
    with monkeypatch.context() as context:
        Faulty(context, nan_loss, [7, 8, 9])
        outcome, told = run(corpus, tmp_path / "out")
    assert (outcome.reason, outcome.iteration) == ("finished", 21)
    out = tmp_path / "out"
    (back,) = events(out, "rollback")
    assert (back["iteration"], back["failed_at"]) == (5, 9)
    assert back["checkpoint"].endswith("step-00000005")
    steps = told.all("step")
    again = next(number for number, each in enumerate(steps) if number and each.iteration == 5 < number)
    assert [each.iteration for each in steps[again:]] == list(range(5, 21))
    before = {each.iteration: each.loss for each in steps[:again]}
    assert {step: before[step] for step in range(7)} == {step: whole.losses[step] for step in range(7)}
    assert steps[again].loss != before[5]  # the same weights, and other data
    assert any("going back to " in each and "step-00000005" in each for each in told.all("note"))
    assert sum(each.skipped for each in steps) == STREAK
    saved, _ = newest_intact(out)
    assert saved.state["data_offset"] == 1
    assert events(out, "end")[-1]["reason"] == "finished"
    assert outcome.wall_ms == pytest.approx(events(out, "end")[-1]["at_ms"], rel=0.05)


def test_a_resume_keeps_the_order_that_training_went_on_with(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as context:
        Faulty(context, nan_loss, [7, 8, 9])
        run(corpus, tmp_path / "whole")
    with monkeypatch.context() as context:
        Faulty(context, nan_loss, [7, 8, 9])
        stopped, _ = run(corpus, tmp_path / "cut", Stopping(15))
    assert (stopped.reason, stopped.iteration) == ("interrupted", 16)
    resume(tmp_path / "cut")
    a, b = (files(tmp_path / name / "checkpoints" / "step-00000021") for name in ("whole", "cut"))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_without_a_checkpoint_it_begins_anew(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Faulty(monkeypatch, infinite_gradient, [1, 2, 3])
    outcome, told = run(corpus, tmp_path / "out")
    assert outcome.reason == "finished"
    (back,) = events(tmp_path / "out", "rollback")
    assert (back["iteration"], back.get("checkpoint")) == (0, None)
    first = [event.loss for event in told.all("step") if event.iteration == 0]
    assert len(first) == 2
    assert first[0] != first[1]


def test_no_checkpoint_is_made_of_a_moment_that_may_be_bad(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is due at 5, in the middle of the faults, and is saved as soon as they are over."""
    Faulty(monkeypatch, nan_loss, [3, 4, 6])
    _, told = run(corpus, tmp_path / "out", max_iters=12)
    assert [each.iteration for each in told.all("checkpoint")] == [6, 10, 13]


def test_a_second_time_it_stops_and_keeps_the_evidence(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    Faulty(monkeypatch, nan_loss, range(7, 100), times=9)
    with pytest.raises(UsageError, match=r"evidence-step-9.*--learning_rate.*--warmup_iters.*--grad_clip") as raised:
        run(corpus, out)
    assert "\n" not in str(raised.value)
    assert len(events(out, "rollback")) == 1
    assert events(out, "end")[-1]["reason"] == "diverged"
    saved, refused = newest_intact(out)
    assert (saved.step, refused) == (5, [])
    evidence = json.loads((out / "evidence-step-9" / "evidence.json").read_text())
    assert evidence["step"] == 9
    assert [(each["iteration"], each["loss"]) for each in evidence["last"]][-5:-2] == [(n, "nan") for n in (7, 8, 9)]
    assert evidence["config"]["batch_size"] == TINY["batch_size"]
    assert evidence["once_more"]["weights_not_finite"] == []
    data = evidence["data"]
    assert (data["data_offset"], data["first_window"], data["windows"]) == (1, 9 * 8, 8)
    tokens = load_file(out / "evidence-step-9" / "batch.safetensors")
    split = open_corpus(corpus).train
    expected = np.empty((8, 17), dtype=np.int32)
    split.gather(Order(split, 16, 1337 + 1).starts(72, 8), 17, expected)
    assert data["positions"] == Order(split, 16, 1337 + 1).starts(72, 8).tolist()
    assert tokens["inputs"].view(8, 16).tolist() == expected[:, :-1].tolist()
    assert tokens["targets"].view(8, 16).tolist() == expected[:, 1:].tolist()


def test_evidence_that_the_disk_does_not_take(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to try is still said."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    Faulty(monkeypatch, nan_loss, range(7, 100), times=9)
    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(UsageError, match=r"could not be saved: .*No space left.*; try a lower --learning_rate"):
        run(corpus, tmp_path / "out")
    assert not [*(tmp_path / "out").glob("*evidence*")]


def test_the_evidence_names_the_weights_whose_gradients_are_not_finite(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer that gives infinite gradients in every pass, like a broken kernel."""
    real = GPT.forward

    def forward(model: GPT, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        name = "transformer.h.1.mlp.c_fc.weight"
        weight = dict(model.named_parameters())[name]
        spoiled = (weight * torch.where(torch.rand(()) < 2, 1.0, 0.0)).sum() * 0.0
        if weight.requires_grad and torch.is_grad_enabled():
            spoiled.register_hook(lambda gradient: gradient * torch.inf)
        return real(model, tokens, targets) + spoiled

    monkeypatch.setattr(GPT, "forward", forward)
    with pytest.raises(UsageError, match="evidence-step-2"):
        run(corpus, tmp_path / "out", dropout=0.0)
    evidence = json.loads((tmp_path / "out" / "evidence-step-2" / "evidence.json").read_text())
    assert evidence["once_more"]["gradients_not_finite"] == ["transformer.h.1.mlp.c_fc.weight"]
    assert isinstance(evidence["once_more"]["loss"], float)


def test_a_later_fault_is_another_one(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a checkpoint after the step that failed the first time."""
    Faulty(monkeypatch, nan_loss, [3, 4, 5, 12, 13, 14])
    outcome, _ = run(corpus, tmp_path / "out")
    assert outcome.reason == "finished"
    found = [
        (each["iteration"], each["failed_at"], each.get("data_offset", 1))
        for each in events(tmp_path / "out", "rollback")
    ]
    assert found == [(0, 5, 1), (10, 14, 2)]


# --- spikes ----------------------------------------------------------------------------------------------------------


def test_a_spike_is_flagged_and_the_rest_of_the_run_is_not(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Faulty(monkeypatch, lambda loss: loss + 5, [90])
    _, told = run(corpus, tmp_path / "out", max_iters=120, lr_decay_iters=120, eval_interval=200)
    flagged = {event.iteration: event.spike for event in told.all("step") if event.spike is not None}
    assert list(flagged) == [90]
    assert flagged[90] >= SPIKE_Z
    (event,) = [each for each in events(tmp_path / "out", "step") if "spike" in each]
    assert event["spike"] == pytest.approx(flagged[90], abs=0.01)


# --- no data ---------------------------------------------------------------------------------------------------------


def test_data_that_is_gone_costs_nothing_that_was_learned(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole = run(corpus, tmp_path / "whole")
    real, asked = Batches.next, iter(range(100))

    def fail(batches: Batches) -> tuple[torch.Tensor, torch.Tensor]:
        if next(asked) == 8:
            raise InputError("{path}: has changed under the run", path="train-00000.bin")
        return real(batches)

    with monkeypatch.context() as context:
        context.setattr(Batches, "next", fail)
        with pytest.raises(InputError, match="has changed under the run"):
            run(corpus, tmp_path / "cut")
    assert events(tmp_path / "cut", "end")[-1]["reason"] == "error"
    assert (tmp_path / "cut" / "checkpoints" / "step-00000008").is_dir()
    _, after = resume(tmp_path / "cut")
    assert after.losses == {step: whole.losses[step] for step in range(8, 21)}
