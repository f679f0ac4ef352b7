"""What a run reports to its listener, made by hand."""

from __future__ import annotations

from typing import Any

from nanopace.ledger import CheckpointEvent, EvalEvent, StepEvent
from nanopace.train.listener import Introduction, Outcome

SHARES = {"data": 0.001, "step": 0.82, "optimizer": 0.1, "evaluation": 0.05, "startup": 0.0286, "other": 0.0004}


def introduction(**known: Any) -> Introduction:
    values: dict[str, Any] = {
        "out_dir": "out", "first_step": 0, "last_step": 2000, "tokens_per_step": 65_536, "phase_shares": lambda: SHARES,
        "choices": {"device": "cpu: found no CUDA card"}, "flops_per_step": 0.412 * 168.65e9, "peak_flops": 1e12,
    }  # fmt: skip
    return Introduction(**(values | known))


def step(iteration: int = 100, **known: Any) -> StepEvent:
    """A step at an mfu of 41.2%, given the introduction."""
    values = {"loss": 3.2841, "ms": 168.65, "tokens": 65_536, "lr": 6e-4, "grad_norm": 0.84}
    return StepEvent(iteration, **(values | known))


def evaluation(**known: Any) -> EvalEvent:
    values: dict[str, Any] = {
        "iteration": 250, "val": 3.2841, "val_error": 0.0031, "windows": 1600, "ms": 812.4, "train": 3.3121,
        "train_error": 0.0103, "train_steps": 250, "bits_per_byte": 0.9871, "change": -0.0312, "change_error": 0.0009,
    }  # fmt: skip
    return EvalEvent(**(values | known))


def checkpoint(**known: Any) -> CheckpointEvent:
    values: dict[str, Any] = {"iteration": 250, "path": "out/checkpoints/step-00000250", "stall_ms": 12.3}
    return CheckpointEvent(**(values | {"background_ms": 1840.0, "bytes": 1_483_047_936} | known))


def outcome(**known: Any) -> Outcome:
    values: dict[str, Any] = {"reason": "finished", "iteration": 2000, "wall_ms": 123_400.0, "energy_kwh": 0.0123}
    return Outcome(**(values | {"ledger": "out/ledger.jsonl", "checkpoint": "out/checkpoints/step-00002000"} | known))
