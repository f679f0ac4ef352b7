"""What is predicted to fit, before anything is tried."""

from __future__ import annotations

import os

import pytest

from nanopace.config import TrainConfig
from nanopace.ledger import RunEvent
from nanopace.literals import Value
from nanopace.tune.search.memory_limit import fits_in


def most(gpu: str | None = "card", memory_gb: float | None = 12.0, kernels: str = "fused", **knobs: Value) -> int:
    """The largest power of two that fits."""
    event = RunEvent("now", "0", {}, gpu=gpu, gpu_memory_gb=memory_gb, choices={"kernels": f"{kernels}: so"})
    fits = fits_in(event, TrainConfig(**knobs))  # type: ignore[arg-type]
    return next((1 << power for power in range(20, -1, -1) if fits(1 << power)), 0)


def test_a_card_holds_what_its_memory_and_the_knobs_allow() -> None:
    plain = most(memory="")
    assert 8 <= plain <= 32
    assert most() > plain  # auto may compute again what does not fit
    assert most(memory_limit="6GiB", memory="") < plain
    assert most(kernels="compiled") == 8  # 15 sequences with train.py; 21 was the figure of a bare loop
    assert most(kernels="eager", compile=False) == 8  # of 9
    assert most(memory_gb=1.0) == 0
    assert most(memory_gb=None) == 1 << 20  # unknown


def test_a_step_that_keeps_no_gradients_is_not_divided() -> None:
    event = RunEvent("now", "0", {}, gpu="card", gpu_memory_gb=12.0, choices={"kernels": "fused: so"})
    fits = fits_in(event, TrainConfig(memory="gradients", gradient_accumulation_steps=1, batch_size=8))
    assert [each for each in (2, 4, 8, 16) if fits(each)] == [8]


@pytest.mark.parametrize("memory", ["auto", "host", "host_activations"])
def test_what_fits_only_with_the_host_s_memory_can_be_tried(memory: str) -> None:
    """As a run would use it."""
    xl: dict[str, Value] = {"n_layer": 48, "n_head": 25, "n_embd": 1600}
    assert most(memory="attention", **xl) == 0
    assert most(memory=memory, **xl) >= 4


def test_a_computer_without_a_card_keeps_half_of_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = {"SC_PAGE_SIZE": 1 << 12, "SC_PHYS_PAGES": 1 << 22}  # 16 GiB
    monkeypatch.setattr(os, "sysconf", memory.__getitem__)
    assert most(None, None, "eager") == 1
    assert most(None, None, "eager", n_layer=2, n_embd=64, n_head=2, vocab_size=2048, block_size=64) >= 1024
