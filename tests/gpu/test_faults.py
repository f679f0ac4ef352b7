"""Faults on a real card: full memory, steps that are not finite. `pytest -m gpu tests/gpu`."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nanopace.errors import UsageError
from nanopace.literals import Value
from nanopace.train.loop.loop import Loop
from nanopace.train.loop.stepper import Stepper
from nanopace.train.out_of_memory import make_room

from ..train.conftest import Recorder
from ..train.test_faults import Faulty, infinite_gradient, nan_loss
from .test_train import CARD, corpus, events, kernels, run  # noqa: F401

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card")]

GIB = 1 << 30
# 64 sequences take about 4 GiB, a model of 10 million weights next to nothing.
BROAD: dict[str, Value] = {
    "n_layer": 4, "n_head": 8, "n_embd": 512, "block_size": 512, "batch_size": 64, "gradient_accumulation_steps": 1,
    "dropout": 0.0, "dtype": "bfloat16", "max_iters": 10, "learning_rate": 1e-3,
}  # fmt: skip


@pytest.fixture(autouse=True)
def all_of_the_card() -> Iterator[None]:
    """Lifts a run's memory limit for the next."""
    yield
    torch.cuda.set_per_process_memory_fraction(1.0, CARD)
    gc.collect()
    torch.cuda.empty_cache()


def largest(found: list[dict[str, Any]], *where: str) -> int:
    """The micro-batch that training, or an evaluation, continued with."""
    return int([each["batch_size"] for each in found if each.get("where", "step") in where][-1])


@pytest.mark.parametrize("compiled", [False, True])
def test_a_batch_that_does_not_fit_into_the_limit(corpus: Path, tmp_path: Path, compiled: bool) -> None:  # noqa: F811
    """With torch's own passes; ours, which keep less, have their own test."""
    knobs: dict[str, Value] = {**BROAD, "compile": compiled, "fused": False}
    _, large = run(corpus, tmp_path / "large", **knobs)
    make_room(CARD)
    torch.cuda.reset_peak_memory_stats(CARD)
    _, told = run(corpus, tmp_path / "small", **knobs, memory_limit="2GiB")
    assert torch.cuda.max_memory_reserved(CARD) <= 2 * GIB
    assert largest(events(tmp_path / "small", "micro_batch"), "startup", "step") < 64
    assert list(told.losses) == list(range(11))
    first = range(5)  # later, rounding errors have grown
    assert [told.losses[step] for step in first] == pytest.approx([large.losses[step] for step in first], abs=0.03)


def test_memory_that_fills_up_in_the_middle(
    corpus: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another program takes all but 1 GiB between two steps."""
    _, large = run(corpus, tmp_path / "large", **BROAD, compile=False)
    make_room(CARD)
    taken: list[torch.Tensor] = []
    real = Loop.step

    def step(loop: Loop) -> None:
        if loop.iteration == 4:
            torch.cuda.empty_cache()
            free, _ = torch.cuda.mem_get_info(CARD)
            taken.append(torch.empty(max(0, free - GIB), dtype=torch.uint8, device=CARD))
        real(loop)

    monkeypatch.setattr(Loop, "step", step)
    _, told = run(corpus, tmp_path / "out", **BROAD, compile=False)
    taken.clear()
    found = events(tmp_path / "out", "micro_batch")
    assert found[0]["iteration"] == 4
    assert largest(found, "step") < 64
    assert list(told.losses) == list(range(11))
    first = range(7)
    assert [told.losses[step] for step in first] == pytest.approx([large.losses[step] for step in first], abs=0.05)
    times = {each["iteration"]: each["ms"] for each in events(tmp_path / "out", "step")}
    assert times[4] < 1000  # failed attempts do not count as the step's time


def test_an_evaluation_that_does_not_fit(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    _, large = run(corpus, tmp_path / "large", **BROAD, compile=False)
    make_room(CARD)
    taken: list[torch.Tensor] = []
    real = Loop._evaluate

    def evaluate(loop: Loop, step: int) -> None:
        if step == 5:
            torch.cuda.empty_cache()
            free, _ = torch.cuda.mem_get_info(CARD)
            taken.append(torch.empty(max(0, free - GIB // 4), dtype=torch.uint8, device=CARD))
        real(loop, step)
        taken.clear()

    monkeypatch.setattr(Loop, "_evaluate", evaluate)
    _, told = run(corpus, tmp_path / "out", **BROAD, compile=False)
    found = events(tmp_path / "out", "micro_batch")
    assert {each["where"] for each in found} == {"evaluation"}
    assert [each.val for each in told.all("eval")] == pytest.approx([each.val for each in large.all("eval")], abs=0.03)


def test_a_limit_that_is_none(corpus: Path, tmp_path: Path) -> None:  # noqa: F811
    with pytest.raises(UsageError, match="--memory_limit=1000GiB: is more than the card's"):
        run(corpus, tmp_path / "out", memory_limit="1000GiB")
    with pytest.raises(UsageError, match="--memory_limit=1MiB: CUDA alone takes"):
        run(corpus, tmp_path / "out", memory_limit="1MiB")
    assert not (tmp_path / "out").exists()


def test_a_model_that_does_not_fit_at_all(corpus: Path, tmp_path: Path) -> None:  # noqa: F811
    wide: dict[str, Value] = {"n_layer": 24, "n_embd": 1024, "n_head": 16}
    with pytest.raises(UsageError, match="out of memory, even with one sequence at a time"):
        run(corpus, tmp_path / "out", **{**BROAD, **wide}, compile=False, memory_limit="2GiB")
    assert events(tmp_path / "out", "end")[-1]["reason"] == "out_of_memory"


@pytest.mark.parametrize("fault", [nan_loss, infinite_gradient])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_step_that_is_not_finite_leaves_no_trace(
    corpus: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Any,
    dtype: str,
) -> None:
    faulty = Faulty(monkeypatch, fault, [4])
    _, told = run(corpus, tmp_path / "out", max_iters=8, dtype=dtype, compile=False)
    assert [step for step, changed in faulty.changed.items() if not changed] == [4]
    assert [event.iteration for event in told.all("step") if event.skipped] == [4]


@pytest.mark.parametrize("compiled", [False, True])
def test_going_back_takes_no_more_memory(
    corpus: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compiled: bool,
) -> None:
    """The old model and averages are freed before the new ones are made."""
    wide: dict[str, Value] = {**BROAD, "n_layer": 12, "n_embd": 1024, "batch_size": 4, "compile": compiled}
    run(corpus, tmp_path / "plain", **wide)
    make_room(CARD)
    plain = torch.cuda.max_memory_allocated(CARD)
    torch.cuda.reset_peak_memory_stats(CARD)
    real = Stepper.accumulate
    spoiled = {7, 8, 9}

    def accumulate(stepper: Stepper, step: int, inputs: Tensor, targets: Tensor) -> Tensor:
        loss = real(stepper, step, inputs, targets)
        if step in spoiled:  # a weight's gradient, from either pass
            spoiled.remove(step)
            gradient = next(stepper._parts.model.parameters()).grad
            assert gradient is not None
            gradient.fill_(torch.nan)
        return loss

    monkeypatch.setattr(Stepper, "accumulate", accumulate)
    outcome, told = run(corpus, tmp_path / "out", **wide)
    assert outcome.reason == "finished"
    (back,) = events(tmp_path / "out", "rollback")
    assert back["failed_at"] == 9
    assert isinstance(told, Recorder)
    assert torch.cuda.max_memory_allocated(CARD) < 1.25 * plain
