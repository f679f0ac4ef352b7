"""With deterministic=True, a run that cannot have the same bits says why, and one that can keeps its choices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from nanopace.config import TrainConfig
from nanopace.literals import Value
from nanopace.train.checkpoint.layout import Saved
from nanopace.train.plan.device import Machine
from nanopace.train.plan.ladder import kept_steps
from nanopace.train.plan.resume_notes import notes_on_bits
from nanopace.train.plan.settings import shape_of
from nanopace.version import __version__

CARD = Machine(torch.device("cuda", 0), "a card", "NVIDIA H200")
STATE: dict[str, Any] = {
    "card": "NVIDIA H200",
    "versions": {"nanopace": __version__, "torch": torch.__version__, "python": "3.9"},
    "memory_steps": ["hidden", "activation"],
}


def saved(knobs: dict[str, Value] | None = None, **state: Any) -> Saved:
    config = TrainConfig(**{"deterministic": True, **(knobs or {})})  # type: ignore[arg-type]
    return Saved(Path("out/step-5"), 5, config.as_dict(), shape_of(config, "gelu"), None, {**STATE, **state})


def said(state: Saved, machine: Machine = CARD, **settings: Value) -> list[str]:
    return notes_on_bits(state, {"deterministic": True, **settings}, machine)


def test_nothing_is_said_if_nothing_has_changed_or_nobody_asked() -> None:
    assert said(saved()) == []
    assert said(saved(card="NVIDIA A100"), deterministic=False) == []
    assert notes_on_bits(saved(card="NVIDIA A100"), {}, CARD) == []


@pytest.mark.parametrize(
    ("state", "changes"),
    [
        ({"card": "NVIDIA A100"}, "device NVIDIA A100 -> NVIDIA H200"),
        ({"card": None}, "device cpu -> NVIDIA H200"),
        ({"versions": {"nanopace": __version__, "torch": "2.9.0"}}, f"torch 2.9.0 -> {torch.__version__}"),
        ({"versions": {"nanopace": "0.1", "torch": torch.__version__}}, f"nanopace 0.1 -> {__version__}"),
    ],
)
def test_another_card_or_version_is_named(state: dict[str, Any], changes: str) -> None:
    (note,) = said(saved(**state))
    assert note.endswith(f"the bits differ from those of a run that was never stopped: {changes}")


def test_a_checkpoint_that_does_not_say_is_no_other() -> None:
    old = saved()
    unknown = Saved(old.path, 5, old.config, old.shape, None, {})
    assert said(unknown) == []


def test_memory_steps_stay_as_they_were() -> None:
    """Also those that were taken because memory was full."""
    config = TrainConfig(deterministic=True)
    steps, why = kept_steps(saved(), config, "fused") or ((), "")
    assert steps == ("activation", "hidden")
    assert why == "activation, hidden: as before, for the same bits"
    assert kept_steps(saved(memory_steps=[]), config, "fused") == (
        (),
        "everything is kept: as before, for the same bits",
    )


@pytest.mark.parametrize(
    ("state", "config", "kernels"),
    [
        (None, TrainConfig(deterministic=True), "fused"),
        (saved(), TrainConfig(), "fused"),
        (saved(), TrainConfig(deterministic=True), "compiled"),
        (saved(), TrainConfig(deterministic=True, batch_size=8), "fused"),
        (saved(), TrainConfig(deterministic=True, memory="hidden"), "fused"),
        (saved(memory_steps=None), TrainConfig(deterministic=True), "fused"),
        (saved(memory_steps=["nonsense"]), TrainConfig(deterministic=True), "fused"),
        (saved(memory_steps=["attention", "host"]), TrainConfig(deterministic=True), "fused"),
    ],
    ids=["new", "not asked", "other kernels", "other batch", "other steps", "unknown", "nonsense", "host"],
)
def test_or_are_chosen_again(state: Saved | None, config: TrainConfig, kernels: str) -> None:
    assert kept_steps(state, config, kernels) is None
