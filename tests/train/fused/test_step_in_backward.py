"""Layers updated in the backward pass, compared with a step after it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from nanopace.config import TrainConfig
from nanopace.memory_ladder import MEMORY_STEPS
from nanopace.train.fused.gpt2 import FusedGPT
from nanopace.train.fused.step_in_backward import StepInBackward
from nanopace.train.loop.passes import FusedPasses
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.optim.optimizer import make_optimizer, optimizer_tensors

from ..device import DEVICE, runs_kernels

SHAPE = ModelShape(n_layer=3, n_head=2, n_embd=12, vocab_size=40, block_size=8)
CONFIG = TrainConfig(learning_rate=1e-2, min_lr=1e-3)
NO_CLIP, ALWAYS = 0.0, 1e-3

pytestmark = [
    runs_kernels,
    pytest.mark.usefixtures("untraced"),
]


class Trained:
    """A model after some steps, in either way."""

    def __init__(self, clip: float, *, released: bool) -> None:
        torch.manual_seed(0)
        self.model = GPT(SHAPE).to(DEVICE)
        steps = MEMORY_STEPS if released else MEMORY_STEPS[:-1]
        self.fused = FusedGPT(self.model, steps)
        self.optimizer = make_optimizer(self.model, CONFIG, DEVICE, steps)
        self.passes, self.clip = FusedPasses(self.fused), clip
        self.release = StepInBackward(self.optimizer, clip, DEVICE) if released else None
        self.fused.release = self.release

    def step(self, seed: int) -> tuple[float, float]:
        """Its loss, and the norm of its gradient."""
        loss = self.passes(*windows(seed), 1)
        if self.release is not None:
            return loss.item(), self.release.norm.item()
        self.passes.finish()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip or 1e9)
        self.optimizer.found_inf = torch.zeros((), device=DEVICE)  # type: ignore[attr-defined]
        self.optimizer.step()
        self.passes.zero_grad()
        self.passes.refresh_copies()
        return loss.item(), norm.item()

    def everything(self) -> dict[str, Tensor]:
        """Weights, averages and counts of steps."""
        weights = dict(self.model.named_parameters())
        return {name: each.detach().clone() for name, each in (weights | self.averages()).items()}

    def length_of(self, average: str) -> float:
        return self.averages()[average].float().norm().item()

    def averages(self) -> dict[str, Tensor]:
        return optimizer_tensors(self.model, self.optimizer)


def windows(seed: int) -> tuple[Tensor, Tensor]:
    drawn = torch.randint(0, SHAPE.vocab_size, (2, 4), generator=torch.Generator().manual_seed(seed)).to(DEVICE)
    return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Equal, except for sums whose order is undefined on a card."""
    assert found.keys() == expected.keys()
    for name, each in expected.items():
        torch.testing.assert_close(found[name], each, rtol=1e-4, atol=1e-6, msg=lambda said, name=name: name + said)


def test_without_clipping_it_is_the_same_step() -> None:
    kept, released = Trained(NO_CLIP, released=False), Trained(NO_CLIP, released=True)
    for seed in range(2):
        loss, norm = kept.step(seed)
        assert released.step(seed) == (pytest.approx(loss, rel=1e-6), pytest.approx(norm, rel=1e-5))
    assert_same(released.everything(), kept.everything())


def test_a_norm_below_the_bound_clips_nothing() -> None:
    one, other = Trained(100.0, released=True), Trained(NO_CLIP, released=True)
    assert one.step(0) == other.step(0)
    assert_same(one.everything(), other.everything())


def test_clipped_by_as_much_of_the_norm_as_is_known() -> None:
    """After a first step, the average is a tenth of the clipped gradient."""
    plain, clipped = Trained(NO_CLIP, released=True), Trained(ALWAYS, released=True)
    loss, norm = plain.step(1)
    assert clipped.step(1) == (loss, norm)  # as it was before clipping
    square = 0.0
    for layer in reversed(range(SHAPE.n_layer)):
        of_layer = [name for name in plain.averages() if name.startswith(f"exp_avg.transformer.h.{layer}.")]
        assert len(of_layer) == 6
        square += sum(float((plain.averages()[name].float() * 10).square().sum()) for name in of_layer)
        shares = [clipped.length_of(name) / plain.length_of(name) for name in of_layer]
        assert shares == pytest.approx([ALWAYS / square**0.5] * 6, rel=2e-2)  # averages are bfloat16
    for name in ("wte", "wpe", "ln_f"):  # the last ones, which know the full norm
        average = f"exp_avg.transformer.{name}.weight"
        assert clipped.length_of(average) / plain.length_of(average) == pytest.approx(ALWAYS / norm, rel=2e-2)


def test_gradients_take_the_place_of_one_layer() -> None:
    model = GPT(SHAPE).to(DEVICE)
    FusedGPT(model, MEMORY_STEPS)
    places: dict[str, set[int]] = {}
    for name, each in model.named_parameters():
        parts = name.split(".")
        places.setdefault(".".join(parts[3:]) if "h" in parts else name, set()).add(each.grad.data_ptr())
    assert {len(each) for each in places.values()} == {1}
    assert len(places) == 6 + 3


def test_while_it_is_held_nothing_changes_and_nothing_is_left() -> None:
    held, never = Trained(1.0, released=True), Trained(1.0, released=True)
    before = held.everything()
    assert held.release is not None
    with held.release.weights_frozen():
        held.step(1)
    assert all(torch.equal(each, before[name]) for name, each in held.everything().items())
    assert held.step(2) == never.step(2)
    assert_same(held.everything(), never.everything())


@pytest.mark.filterwarnings("ignore:All-NaN")
def test_a_loss_that_is_not_finite_leaves_everything() -> None:
    run = Trained(1.0, released=True)
    run.step(1)
    with torch.no_grad():
        run.model.transformer["ln_f"].weight[0] = float("nan")  # type: ignore[index, union-attr]
    run.passes.refresh_copies()
    before = run.everything()
    loss, _ = run.step(2)
    assert loss != loss
    for name, each in run.everything().items():
        torch.testing.assert_close(each, before[name], rtol=0, atol=0, equal_nan=True)


def test_layers_behind_a_gradient_that_is_not_finite_have_taken_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Trained(1.0, released=True)
    before = run.everything()
    backward, layers = FusedGPT._backward, iter(reversed(range(SHAPE.n_layer)))

    def broken(self: FusedGPT, *arguments: Any) -> None:
        backward(self, *arguments)
        if next(layers) == 1:
            self.layers[0].attn_proj.gradient[0, 0] = float("inf")  # where all layers have theirs

    monkeypatch.setattr(FusedGPT, "_backward", broken)
    _, norm = run.step(1)
    assert norm == float("inf")
    after = run.everything()
    changed = {name for name, each in after.items() if not torch.equal(each, before[name])}
    assert changed == {name for name in after if ".h.2." in name}
    assert all(each.isfinite().all() for each in after.values())
