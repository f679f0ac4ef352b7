"""Saves and restores every random generator, so that a resumed run draws the same numbers as an uninterrupted one."""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from nanopace.train.ranks import Ranks


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)  # on every device


def seed_dropout(seed: int, ranks: Ranks) -> None:
    """All ranks have drawn the same weights; from here on, each draws its own dropout, as in nanoGPT."""
    if not ranks.first:
        seed_everything(seed + ranks.rank)


def random_states(device: torch.device) -> dict[str, Any]:
    """The states of all generators, in a form that JSON can hold."""
    version, words, gauss = random.getstate()
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    states: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "numpy": [kind, np.asarray(keys).tolist(), position, has_gauss, cached],
        "torch": _text(torch.get_rng_state()),
    }
    if device.type == "cuda":
        states["cuda"] = _text(torch.cuda.get_rng_state(device))
    elif device.type == "mps":
        states["mps"] = _text(torch.mps.get_rng_state())
    return states


def are_random_states(states: object) -> bool:
    """Whether throwaway generators accept these states. A card's state is only decoded: there may be no card."""
    try:
        assert isinstance(states, dict)
        _restore_python(random.Random(), states["python"])
        _restore_numpy(np.random.RandomState(), states["numpy"])
        torch.Generator().set_state(_state(states["torch"]))
        for name in {"cuda", "mps"} & states.keys():
            _state(states[name])
    except (AssertionError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError):
        return False
    return True


def restore_random_states(states: Mapping[str, Any], device: torch.device) -> None:
    """Restore all generators. Ignores the state of another kind of device, whose draws this one cannot continue."""
    _restore_python(random, states["python"])
    _restore_numpy(np.random, states["numpy"])
    torch.set_rng_state(_state(states["torch"]))
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(_state(states["cuda"]), device)
    elif device.type == "mps" and "mps" in states:
        torch.mps.set_rng_state(_state(states["mps"]))


def _restore_python(generator: Any, state: Sequence[Any]) -> None:
    version, words, gauss = state
    generator.setstate((version, tuple(words), None if gauss is None else float(gauss)))


def _restore_numpy(generator: Any, state: Sequence[Any]) -> None:
    """Check the position first: numpy accepts any, and would then read out of bounds."""
    kind, keys, position, has_gauss, cached = state
    words = np.array(keys, dtype=np.uint32)
    if type(position) is not int or not 0 <= position <= len(words) or has_gauss not in (0, 1):
        raise ValueError(position)
    generator.set_state((kind, words, position, has_gauss, float(cached)))


def _text(state: torch.Tensor) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode("ascii")


def _state(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text, validate=True)), dtype=torch.uint8)
