"""How a micro-batch becomes gradients, which way is chosen, and that nothing is compiled once training has begun."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nanopace.config import TrainConfig
from nanopace.ledger import StepEvent
from nanopace.train.loop.passes import PlainPasses
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.plan import device as device_module
from nanopace.train.plan.device import autocast, pick_kernels

from ..conftest import Recorder
from ..runs import run

SHAPE = ModelShape(n_layer=1, n_head=2, n_embd=16, vocab_size=50, block_size=8)
CPU, CARD = torch.device("cpu"), torch.device("cuda", 0)
OURS = TrainConfig(compile=True, dtype="bfloat16", dropout=0.0)


@pytest.fixture
def model() -> GPT:
    torch.manual_seed(0)
    return GPT(SHAPE)


def batch(seed: int) -> tuple[Tensor, Tensor]:
    drawn = torch.randint(0, SHAPE.vocab_size, (3, 9), generator=torch.Generator().manual_seed(seed))
    return drawn[:, :-1], drawn[:, 1:]


def plain_passes(model: GPT, *, scaled: bool = False) -> PlainPasses:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, enabled=scaled)
    return PlainPasses(model, optimizer, scaler, nullcontext())


def gradients(model: GPT) -> dict[str, Tensor]:
    return {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


# --- torch's way -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scaled", "factor"), [(False, 1), (True, 8)])
def test_the_parts_of_a_step_add_up_to_its_mean(model: GPT, scaled: bool, factor: int) -> None:
    passes = plain_passes(model, scaled=scaled)
    losses = [passes(*batch(seed), 3) for seed in (1, 2, 3)]
    assert not any(each.requires_grad for each in losses)
    passes.finish()
    found = gradients(model)
    passes.zero_grad()
    passes.refresh_copies()
    assert gradients(model) == {}
    mean = torch.stack([model(*batch(seed)) for seed in (1, 2, 3)]).mean()
    mean.backward()
    torch.testing.assert_close(torch.stack(losses).mean(), mean.detach())
    for name, each in gradients(model).items():
        torch.testing.assert_close(found[name], factor * each)


def test_the_ranks_meet_between_there_and_back(model: GPT) -> None:
    met = []
    passes = plain_passes(model)
    passes(*batch(1), 1, lambda: met.append(len(gradients(model))))
    assert met == [0]
    assert gradients(model)
    assert passes.capture_graph(*batch(1), 1) is None


def test_products_are_in_the_precision_asked_for(model: GPT) -> None:
    seen = []
    model.lm_head.register_forward_hook(lambda _module, _given, out: seen.append(out.dtype))
    for dtype in ("float32", "bfloat16"):
        with autocast(replace(OURS, dtype=dtype), CPU):
            model(*batch(1))
    assert seen == [torch.float32, torch.bfloat16]


# --- which way -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", ["gpt2", "fast"])
def test_ours_are_taken_where_nothing_is_against_it(recipe: str) -> None:
    assert pick_kernels(OURS, replace(SHAPE, recipe=recipe), CARD, 1) == (
        "fused",
        "our own kernels around torch's matrix products and attention",
    )


@pytest.mark.parametrize(
    ("reason", "config", "shape", "device", "ranks"),
    [
        ("on device cpu", {}, {}, CPU, 1),
        ("on device mps", {}, {}, torch.device("mps"), 1),
        ("as requested", {"fused": False}, {}, CARD, 1),
        ("with several processes", {}, {}, CARD, 2),
        ("with several processes", {"parallel": "fsdp"}, {}, CARD, 1),
        ("for heads of width 5", {}, {"recipe": "fast", "n_embd": 10, "n_head": 2}, CARD, 1),
        ("in float16", {"dtype": "float16"}, {}, CARD, 1),
        ("in float32", {"dtype": "float32"}, {}, CARD, 1),
        ("for gelu_tanh", {}, {"activation": "gelu_tanh"}, CARD, 1),
        ("with dropout", {}, {"dropout": 0.1}, CARD, 1),
        ("with biases", {}, {"bias": True}, CARD, 1),
    ],
)
def test_otherwise_the_compiler_is_and_says_why(
    reason: str, config: dict[str, Any], shape: dict[str, Any], device: torch.device, ranks: int
) -> None:
    picked = pick_kernels(replace(OURS, **config), replace(SHAPE, **shape), device, ranks)
    assert picked == ("compiled", f"torch.compile, {reason}")


def test_without_triton_there_are_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "find_spec", lambda name: None if name == "triton" else name)
    assert pick_kernels(OURS, SHAPE, CARD, 1) == ("compiled", "torch.compile, without triton")


def test_who_wants_nothing_compiled_gets_nothing_of_ours() -> None:
    assert pick_kernels(replace(OURS, compile=False), SHAPE, CARD, 1) == ("eager", "nothing is compiled")


# --- once ------------------------------------------------------------------------------------------------------------


class Counting(Recorder):
    """How many functions torch had traced by the end of each step."""

    def step(self, event: StepEvent) -> None:
        from torch._dynamo.utils import counters

        self.said.append(("step", event))
        self.said.append(("taken apart", counters["frames"]["total"]))


@pytest.mark.usefixtures("untraced")
def test_everything_is_compiled_before_the_first_step(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss and an evaluation's losses are each traced once. Compiling them takes longer, and is not tested here."""
    from torch._dynamo.utils import counters

    torch.compiler.reset()
    counters.clear()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    told = Counting()
    run(corpus, tmp_path / "out", told, compile=True, max_iters=2, eval_interval=1, n_layer=1, dropout=0.0)
    torch.compiler.reset()
    assert told.all("taken apart") == [2, 2, 2]
