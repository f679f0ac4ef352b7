"""Real runs whose layers are updated in the backward pass, with kernels interpreted by Triton."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nanopace.errors import UsageError
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import newest_intact
from nanopace.train.plan import resolve

from ..conftest import Recorder
from ..runs import Stopping, events, files, resume, run

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("these runs are on the CPU; tests/gpu/test_release.py has some on a card", allow_module_level=True)

from nanopace.train.fused import model as fused_module
from nanopace.train.fused.gpt2 import FusedGPT
from nanopace.train.fused.model import Layer
from nanopace.train.kernels import fold
from nanopace.train.loop.passes import FusedPasses

RELEASED: dict[str, Value] = {
    "memory": "attention,gradients",
    "n_layer": 1,
    "n_head": 1,
    "n_embd": 8,
    "gradient_accumulation_steps": 1,
    "batch_size": 2,
    "block_size": 4,
    "dropout": 0.0,
    "max_iters": 3,
    "eval_interval": 2,
    "eval_iters": 1,
    "warmup_iters": 0,
}

pytestmark = pytest.mark.usefixtures("kernels", "untraced")


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a card, except for what needs a real card. Each program takes more rows, since interpreting takes time per
    program."""
    monkeypatch.setattr(resolve, "pick_kernels", lambda *_: ("fused", "as on a card"))
    monkeypatch.setattr(FusedPasses, "capture_graph", lambda *_: None)
    monkeypatch.setattr(fold, "_ROWS", 128)


class Spoiled:
    """In some passes the loss or the first layer's gradient is not finite, or memory is full. The first pass is the
    rehearsal."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        nan: range = range(0),
        infinite: range = range(0),
        full: range = range(0),
    ) -> None:
        self._passes = -1
        head, backward = fused_module.head_gradients, FusedGPT._backward

        def spoiled_head(*given: Any, **how: Any) -> tuple[Tensor, Tensor]:
            self._passes += 1
            loss, d_y = head(*given, **how)
            return (loss * torch.nan if self._passes in nan else loss), d_y

        def spoiled_backward(fused: FusedGPT, layer: Layer, *given: Any) -> None:
            backward(fused, layer, *given)
            if layer is not fused.layers[0]:  # those are updated before that
                return
            if self._passes in infinite:
                layer.attn_proj.gradient[0, 0] = torch.inf
            if self._passes in full:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")

        monkeypatch.setattr(fused_module, "head_gradients", spoiled_head)
        monkeypatch.setattr(FusedGPT, "_backward", spoiled_backward)


def saved(out: Path) -> Path:
    """The newest checkpoint."""
    found, _ = newest_intact(out)
    return found.path


def counts(out: Path) -> dict[str, float]:
    """The steps that each weight has taken."""
    return {name: float(each) for name, each in files(saved(out)).items() if name.startswith("step.")}


def skipped(told: Recorder) -> list[int]:
    return [event.iteration for event in told.all("step") if event.skipped]


def test_it_learns_what_a_run_learns_that_keeps_its_gradients(corpus: Path, tmp_path: Path) -> None:
    knobs = {**RELEASED, "n_layer": 2, "n_head": 2, "n_embd": 16, "grad_clip": 0.0}
    _, told = run(corpus, tmp_path / "released", **knobs)
    _, kept = run(corpus, tmp_path / "kept", **{**knobs, "memory": "attention,averages"})
    assert list(told.losses) == list(range(4))
    assert list(told.losses.values()) == pytest.approx(list(kept.losses.values()), abs=1e-3)
    assert told.losses[3] < told.losses[0] - 0.05
    norms = [[each["grad_norm"] for each in events(tmp_path / name, "step")] for name in ("released", "kept")]
    assert norms[0] == pytest.approx(norms[1], rel=1e-2)
    first = events(tmp_path / "released", "run")[0]
    assert first["choices"]["memory"] == "attention, averages, gradients: as requested"


def test_it_goes_on_from_its_checkpoint_as_if_nothing_had_been(corpus: Path, tmp_path: Path) -> None:
    _, through = run(corpus, tmp_path / "through", **RELEASED)
    _, first = run(corpus, tmp_path / "out", Stopping(1), **RELEASED)
    _, rest = resume(tmp_path / "out")
    assert {**first.losses, **rest.losses} == through.losses
    one, other = (files(saved(tmp_path / name)) for name in ("through", "out"))
    assert all(torch.equal(each, other[name]) for name, each in one.items())


def test_a_loss_that_is_not_finite_leaves_no_trace(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Spoiled(monkeypatch, nan=range(3, 4))
    _, told = run(corpus, tmp_path / "out", **RELEASED)
    assert skipped(told) == [2]
    assert set(counts(tmp_path / "out").values()) == {3.0}  # of four


def test_the_evidence_does_not_know_gradients_that_are_gone(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Spoiled(monkeypatch, nan=range(1, 100))
    with pytest.raises(UsageError, match="evidence-step-"):
        run(corpus, tmp_path / "out", **{**RELEASED, "max_iters": 30})
    (path,) = (tmp_path / "out").glob("evidence-step-*/evidence.json")
    once_more = json.loads(path.read_text())["once_more"]
    assert once_more == {"loss": "nan", "gradients_not_finite": None, "weights_not_finite": []}


@pytest.mark.parametrize(("full", "step"), [(range(9), None), (range(4, 9), 2)])
def test_memory_that_is_full_ends_it_and_what_is_saved_stays(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: range, step: int | None
) -> None:
    """In a rehearsal, and in a step that has already updated some layers: it cannot be repeated in two halves."""
    Spoiled(monkeypatch, full=full)
    with pytest.raises(UsageError, match="--batch_size=2: out of memory; halve it and double --gradient_acc"):
        run(corpus, tmp_path / "out", **RELEASED)
    whole, refused = newest_intact(tmp_path / "out")
    assert (None if whole is None else whole.step, refused) == (step, [])


def test_a_gradient_that_is_not_finite_is_told_as_what_it_is(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Spoiled(monkeypatch, infinite=range(3, 4))
    _, told = run(corpus, tmp_path / "out", **{**RELEASED, "n_layer": 2})
    assert skipped(told) == [2]
    (note,) = [each for each in told.all("note") if "skipped so far" in each]
    assert "gradient norm inf: skipped, except by the layers behind the one whose gradient is not finite" in note
    steps = counts(tmp_path / "out")
    assert {each for name, each in steps.items() if ".h.1." in name} == {4.0}
    assert {each for name, each in steps.items() if ".h.1." not in name} == {3.0}
