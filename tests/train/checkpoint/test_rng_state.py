"""Random states that are saved, checked and restored."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from nanopace.train.checkpoint.rng_state import (
    are_random_states,
    random_states,
    restore_random_states,
    seed_dropout,
    seed_everything,
)
from nanopace.train.ranks import Ranks

CPU, CUDA, MPS = torch.device("cpu"), torch.device("cuda"), torch.device("mps")


def drawn() -> list[float]:
    """Draw from every generator; gauss and normal draw two at a time and keep the second."""
    return [random.random(), random.gauss(), np.random.rand(), np.random.normal(), torch.rand(()).item()]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = random_states(CPU)
    yield
    restore_random_states(before, CPU)


@pytest.mark.parametrize("draws", [0, 1, 2])
def test_what_is_put_back_draws_the_same(draws: int) -> None:
    """Also via JSON, and in the middle of a pair."""
    seed_everything(5)
    for _ in range(draws):
        drawn()
    states = json.loads(json.dumps(random_states(CPU)))
    expected = [drawn() for _ in range(3)]
    assert states.keys() == {"python", "numpy", "torch"}
    assert are_random_states(states)
    seed_everything(6)
    restore_random_states(states, CPU)
    assert [drawn() for _ in range(3)] == expected


@pytest.mark.parametrize("seed", [7, 2**32 + 7])
def test_a_seed_is_that_of_every_library(seed: int) -> None:
    seed_everything(seed)
    assert random.random() == random.Random(seed).random()
    assert np.random.rand() == np.random.RandomState(7).rand()
    assert torch.initial_seed() == seed


def test_each_rank_but_the_first_draws_its_own_dropout() -> None:
    seed_everything(1)
    before = random_states(CPU)
    seed_dropout(10, Ranks())
    assert random_states(CPU) == before
    seed_dropout(10, Ranks(rank=3, size=4))
    assert torch.initial_seed() == 13


def test_a_card_has_a_state_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {"cuda": torch.tensor([1, 2], dtype=torch.uint8), "mps": torch.tensor([3], dtype=torch.uint8)}
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda _: held["cuda"])
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, _: held.update(cuda=state))
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: held["mps"])
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda state: held.update(mps=state))
    states = {device: random_states(device) for device in (CPU, CUDA, MPS)}
    assert all(map(are_random_states, states.values()))
    for saved_on in states:
        for device in states:
            held.update(cuda=torch.zeros(1), mps=torch.zeros(1))
            restore_random_states(states[saved_on], device)
            expected = {"cuda": [0.0], "mps": [0.0]}
            if device == saved_on and device != CPU:
                expected[device.type] = [1, 2] if device == CUDA else [3]
            assert {name: state.tolist() for name, state in held.items()} == expected


def numpy_state(position: object = 624, has_gauss: object = 0, cached: object = 0.0) -> list[Any]:
    return ["MT19937", [1] * 624, position, has_gauss, cached]


@pytest.mark.parametrize("change", [{"position": 0}, {"position": 624}, {"has_gauss": 1, "cached": 0.5}])
def test_states_that_generators_take(change: dict[str, Any]) -> None:
    assert are_random_states({**random_states(CPU), "numpy": numpy_state(**change)})


@pytest.mark.parametrize(
    "changed",
    [
        {"numpy": numpy_state(position=-1)},
        {"numpy": numpy_state(position=625)},
        {"numpy": numpy_state(position=True)},
        {"numpy": numpy_state(position=1.0)},
        {"numpy": numpy_state(has_gauss=2)},
        {"numpy": numpy_state(cached="x")},
        {"python": [3, [1] * 624, None]},
        {"python": [3, [1] * 625, "x"]},
        {"torch": "AAAA"},
        {"torch": "!!!!"},
        {"cuda": ""},
        {"cuda": "AA!A=A"},
        {"mps": 3},
    ],
)
def test_states_that_none_takes(changed: dict[str, Any]) -> None:
    assert not are_random_states({**random_states(CPU), **changed})
    assert not are_random_states([])
