"""Averages and weights in the host's memory, on a real card: `pytest -m gpu tests/gpu`.

tests/train/host uses the card, too; a model that needs it is in test_twelve.py.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from nanopace.literals import Value
from nanopace.train.host import arena as arena_module
from nanopace.train.host.arena import Arena
from nanopace.train.host.bus import Bus
from nanopace.train.host.states import HostStates

from .test_fused import OURS, way
from .test_train import CARD, corpus, events, kernels, run  # noqa: F401

pytest.importorskip("triton")
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card")]

HOST: dict[str, Value] = {**OURS, "memory": "host"}


@pytest.mark.parametrize(
    ("recipe", "memory", "by_cores"),
    [
        ("gpt2", "host", False),
        ("gpt2", "host", True),
        ("gpt2", "host_activations, host_weights", False),
        ("gpt2", "host_activations, host_weights", True),
        ("fast", "host", False),
        ("fast", "host_activations, host_gradients", False),
    ],
)
def test_it_learns_the_same(
    corpus: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recipe: str,
    memory: str,
    by_cores: bool,
) -> None:
    monkeypatch.setattr(HostStates, "_cores_are_faster", lambda _: by_cores)
    _, card = run(corpus, tmp_path / "card", **OURS, recipe=recipe, memory="")
    _, host = run(corpus, tmp_path / "host", **OURS, recipe=recipe, memory=memory)
    assert way(tmp_path / "host") == "fused"
    assert host.losses[0] == pytest.approx(card.losses[0], abs=1e-4)
    assert list(host.losses.values()) == pytest.approx(list(card.losses.values()), abs=0.02)
    assert host.losses[30] < host.losses[0] - 1
    assert sum(each["ms"] for each in events(tmp_path / "host", "span") if each["phase"] == "bus") > 0


def test_what_is_saved_is_of_one_step(corpus: Path, tmp_path: Path) -> None:  # noqa: F811
    """It is written from where it is, while the next step runs."""
    knobs: dict[str, Value] = {**HOST, "save_interval": 5, "keep_last": 9}
    _, through = run(corpus, tmp_path / "out", **knobs)
    _, rest = run(corpus, tmp_path / "out", **{**knobs, "init_from": "resume", "max_iters": 40})
    assert next(iter(rest.losses)) == 31
    _, whole = run(corpus, tmp_path / "whole", **{**knobs, "max_iters": 40, "lr_decay_iters": 20})
    assert list(through.losses.values()) == pytest.approx([whole.losses[each] for each in range(31)], abs=0.02)
    assert list(rest.losses.values()) == pytest.approx([whole.losses[each] for each in range(31, 41)], abs=0.02)


def test_without_pinned_memory_it_still_works(
    corpus: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, pinned = run(corpus, tmp_path / "pinned", **HOST)
    assert not any("pinned" in each for each in pinned.all("note"))
    monkeypatch.setattr(arena_module, "_pin", lambda *_: False)
    _, pageable = run(corpus, tmp_path / "pageable", **HOST)
    assert any("does not allow pinned host memory" in each for each in pageable.all("note"))
    assert list(pageable.losses.values()) == pytest.approx(list(pinned.losses.values()), abs=0.02)


def test_after_a_refusal_of_the_system_kernels_run() -> None:
    """CUDA keeps the error for whoever asks next. Memory that is pinned already is refused."""
    arena = Arena(1 << 20, CARD)
    assert arena.pinned
    assert not arena_module._pin(arena._bytes, CARD)
    assert torch.ones(3, device=CARD).sum().item() == 3


@pytest.mark.parametrize("gb_per_s", [12.0, 5.0])
def test_the_bus_of_an_older_slot(gb_per_s: float) -> None:
    arena, bus = Arena(1 << 26, CARD), Bus(CARD)
    assert arena.pinned
    home, card = arena.empty(torch.empty(1 << 24, device="meta")), torch.empty(1 << 24, device=CARD)
    assert home.is_pinned()
    rates = []
    for rate in (None, gb_per_s * 1e9):
        bus.slow_down(rate)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(10):
            bus.load([(home, card)])
            bus.store([(card, home)])  # at the same time, the other way
        torch.cuda.synchronize()
        found = 10 * (1 << 26) / (time.perf_counter() - begin) / 1e9
        print(f"{found:.1f} GB/s in each direction")
        rates.append(found)
    assert rates[1] == pytest.approx(min(gb_per_s, rates[0]), rel=0.1)
    del arena
    assert not home.is_pinned()
