"""What cannot fit in all memory is refused by arithmetic."""

from __future__ import annotations

import os

import pytest

from nanopace.config import TrainConfig
from nanopace.errors import ConfigError
from nanopace.literals import Value
from nanopace.train.plan.size import check_size

FITS: dict[str, Value] = {"n_layer": 2, "n_head": 2, "n_embd": 64, "vocab_size": 1000, "block_size": 64}


@pytest.fixture(autouse=True)
def sixteen_mebibytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 4096}.__getitem__)


@pytest.mark.parametrize(
    ("changes", "on_cpu", "said"),
    [
        ({"vocab_size": 100_000}, False, "vocab_size=100000, block_size=64: the weights take 0 GiB"),
        (
            {"batch_size": 2000, "gradient_accumulation_steps": 1},
            True,
            "batch_size=2000, .* a step takes more than 0 GiB, but this computer has 0",
        ),
        ({"gradient_accumulation_steps": 3000}, False, "gradient_accumulation_steps=3000: a step takes more than"),
    ],
)
def test_it_is_refused(changes: dict[str, Value], on_cpu: bool, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_size(TrainConfig(**{**FITS, **changes}), on_cpu=on_cpu)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "on_cpu"), [({}, True), ({"batch_size": 2000, "gradient_accumulation_steps": 1}, False)]
)
def test_it_is_not_refused(changes: dict[str, Value], on_cpu: bool) -> None:
    """An activation in a card's memory is not this computer's."""
    check_size(TrainConfig(**{**FITS, **changes}), on_cpu=on_cpu)  # type: ignore[arg-type]
