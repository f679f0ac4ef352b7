"""What is done without to save memory, and why."""

from __future__ import annotations

import pytest
import torch

from nanopace.config import TrainConfig
from nanopace.errors import ConfigError
from nanopace.literals import Value
from nanopace.train.device import Machine
from nanopace.train.ladder import pick_steps
from nanopace.train.plan import shape_of

pytest.importorskip("triton")

CARD = Machine(torch.device("cuda", 0), "a card", "some card", 12.0)


def picked(machine: Machine = CARD, ranks: int = 1, **knobs: Value) -> tuple[tuple[str, ...], str]:
    config = TrainConfig(**knobs)  # type: ignore[arg-type]
    return pick_steps(config, shape_of(config, "gelu"), machine, ranks)


def test_as_little_as_fits() -> None:
    assert picked(batch_size=20) == ((), "all is kept: it takes about 8.0 of 12.0 GiB")
    steps, why = picked(batch_size=40)
    assert steps == ("activation",)
    assert why == "activation: about 10.3 of 12.0 GiB, and 13.1 without activation"


def test_eight_bits_are_counted() -> None:
    assert picked(batch_size=20, fp8=True) == ((), "all is kept: it takes about 8.1 of 12.0 GiB")


def test_what_is_asked_for_is_done() -> None:
    assert picked(batch_size=8, memory="averages, hidden") == (("hidden", "averages"), "hidden, averages: asked for")
    assert picked(batch_size=400, memory="") == ((), "all is kept: asked for")


def test_what_is_not_known_or_cannot_be_is_left() -> None:
    unknown = Machine(torch.device("cuda", 0), "a card")
    assert picked(unknown, batch_size=400)[1] == "all is kept: how much memory there is, is unknown"
    for kept in (picked(batch_size=400, fused=False), picked(ranks=2, batch_size=400)):
        assert kept == ((), "all is kept: only our own kernels can do without")


def test_a_name_that_is_none() -> None:
    with pytest.raises(ConfigError, match="memory must be auto, or some of activation, hidden, attention, averages"):
        TrainConfig(memory="hiden")
