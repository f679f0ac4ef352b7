"""What a loop tells its listener, made by hand."""

from __future__ import annotations

from typing import Any

from nanopace.train.listener import EvalReport, Introduction, Outcome, SaveReport, StepReport

SHARES = {"data": 0.001, "step": 0.82, "optimizer": 0.1, "evaluation": 0.05, "startup": 0.0286, "other": 0.0004}


def introduction(**known: Any) -> Introduction:
    values = {"out_dir": "out", "first_step": 0, "last_step": 2000, "tokens_per_step": 65_536}
    return Introduction(**(values | {"choices": {"device": "cpu: no CUDA card was found"}} | known))


def step(iteration: int = 100, **known: Any) -> StepReport:
    values = {"loss": 3.2841, "ms": 168.65, "tokens": 65_536, "lr": 6e-4, "grad_norm": 0.84, "mfu": 0.412}
    return StepReport(iteration=iteration, **(values | known))


def evaluation(**known: Any) -> EvalReport:
    values: dict[str, Any] = {
        "iteration": 250, "val": 3.2841, "val_error": 0.0031, "windows": 1600, "ms": 812.4, "train": 3.3121,
        "train_error": 0.0103, "train_steps": 250, "bits_per_byte": 0.9871, "change": -0.0312, "change_error": 0.0009,
    }  # fmt: skip
    return EvalReport(**(values | known))


def save(**known: Any) -> SaveReport:
    values: dict[str, Any] = {"iteration": 250, "path": "out/checkpoints/step-00000250", "stall_ms": 12.3}
    return SaveReport(**(values | {"background_ms": 1840.0, "bytes": 1_483_047_936} | known))


def outcome(**known: Any) -> Outcome:
    values: dict[str, Any] = {"reason": "finished", "iteration": 2000, "wall_ms": 123_400.0, "energy_kwh": 0.0123}
    return Outcome(**(values | {"ledger": "out/ledger.jsonl", "checkpoint": "out/checkpoints/step-00002000"} | known))
