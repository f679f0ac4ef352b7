from __future__ import annotations

import pytest

from nanopace.config import TrainConfig
from nanopace.train.schedule import learning_rate

CONFIG = TrainConfig(learning_rate=1.0, min_lr=0.1, warmup_iters=9, lr_decay_iters=109)


@pytest.mark.parametrize(
    ("step", "rate"), [(0, 0.1), (8, 0.9), (9, 1.0), (59, 0.55), (109, 0.1), (110, 0.1), (10_000, 0.1)]
)
def test_up_in_a_line_down_along_a_cosine(step: int, rate: float) -> None:
    assert learning_rate(CONFIG, step) == pytest.approx(rate)


def test_no_decay_no_change() -> None:
    assert learning_rate(TrainConfig(decay_lr=False, learning_rate=0.5), 0) == 0.5


def test_a_warm_up_as_long_as_the_decay() -> None:
    config = TrainConfig(learning_rate=1.0, min_lr=0.1, warmup_iters=10, lr_decay_iters=10)
    assert learning_rate(config, 10) == 0.1
