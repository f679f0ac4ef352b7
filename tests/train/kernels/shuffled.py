"""Runs a kernel's programs in another order than Triton's interpreter would. A card takes them in any order, and a
result that depends on it differs from run to run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from triton.runtime.interpreter import interpreter_builder


@contextmanager
def shuffled_programs(seed: int) -> Iterator[None]:
    """Inside this context, the programs along a grid's first dimension run in a random order."""
    rng, order = random.Random(seed), list[int]()
    set_size, set_place = interpreter_builder.set_grid_dim, interpreter_builder.set_grid_idx

    def size(x: int, y: int, z: int) -> None:
        order[:] = rng.sample(range(x), x)
        set_size(x, y, z)

    interpreter_builder.set_grid_dim = size
    interpreter_builder.set_grid_idx = lambda x, y, z: set_place(order[x], y, z)
    try:
        yield
    finally:
        del interpreter_builder.set_grid_dim, interpreter_builder.set_grid_idx
