"""Every random state of the process, to save and to put back: a resumed run draws what the other would have drawn."""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from nanopace.train.ranks import Ranks


def seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)  # of every device


def seed_dropout(seed: int, ranks: Ranks) -> None:
    """The ranks draw the same weights, and then each its own dropout, as nanoGPT's do."""
    if not ranks.first:
        seed_everything(seed + ranks.rank)


def random_states(device: torch.device) -> dict[str, Any]:
    """As JSON can hold them."""
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


def restore_random_states(states: Mapping[str, Any], device: torch.device) -> None:
    """A state of another kind of device is left alone: what it drew cannot be continued on this one."""
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    kind, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), position, has_gauss, cached))
    torch.set_rng_state(_state(states["torch"]))
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(_state(states["cuda"]), device)
    elif device.type == "mps" and "mps" in states:
        torch.mps.set_rng_state(_state(states["mps"]))


def _text(state: torch.Tensor) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode("ascii")


def _state(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
