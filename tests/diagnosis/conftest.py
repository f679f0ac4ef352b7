"""Hand-made diagnoses, for tests of what is built on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from nanopace.diagnosis.result import (
    Ahead,
    Checkpoints,
    Curves,
    Diagnosis,
    Evaluations,
    Finding,
    Loss,
    Mfu,
    Model,
    Restarts,
    Source,
    Startup,
    Step,
    Throughput,
    Wall,
)
from nanopace.run import Fact, FactValue

MakeDiagnosis = Callable[..., Diagnosis]


def make(
    *,
    name: str = "train.log",
    median_ms: float = 100.0,
    iterations: int = 20_000,
    log_interval: int | None = 100,
    dataset: str | None = "owt",
    knobs: Mapping[str, FactValue] | None = None,
    tokens: float | None = None,
    flops: float | None = None,
    card: str | None = None,
    peak: float | None = None,
    mfu: float | None = None,
    curve: Sequence[tuple[int, float, float | None]] = (),
    metric: Any = "loss",
    evaluations: Mapping[str, Any] | None = None,
    checkpoints: Mapping[str, Any] | None = None,
    wall: Mapping[str, Any] | None = None,
    max_iters: int | None = None,
    findings: Sequence[Finding] = (),
) -> Diagnosis:
    """Anything not given is unknown or uneventful. `curve` has (iteration, seconds, val)."""
    named: dict[str, FactValue] = {} if dataset is None else {"dataset": dataset}
    accumulation = (knobs or {}).get("gradient_accumulation_steps")
    spent: dict[str, Any] = {
        "total_s": 2000.0, "training_s": 2000.0, "evaluation_s": 0.0, "checkpoint_s": 0.0, "startup_s": 0.0,
        "stall_s": 0.0, "restart_s": 0.0, "other_s": 0.0, "unknown_s": 0.0, "overhead_share": 0.0, "goodput": 1.0,
    }  # fmt: skip
    evaluated: dict[str, Any] = {"count": 0, "visible": 0, "hidden": 0, "each_ms": None, "interval": None}
    saved: dict[str, Any] = {"count": 0, "each_ms": None, "basis": "unknown"}
    return Diagnosis(
        source=Source(name, "nanogpt", iterations // 100, 0, iterations, log_interval, None),
        facts={knob: Fact(value, "flag") for knob, value in (named | dict(knobs or {})).items()},
        step=Step(median_ms, 0.001, 100),
        slow_rows=(),
        evaluations=Evaluations(**(evaluated | dict(evaluations or {}))),
        checkpoints=Checkpoints(**(saved | dict(checkpoints or {}))),
        startup=Startup(1000.0, median_ms, None, None),
        restarts=Restarts(0, 0, 0.0),
        wall=Wall(**(spent | dict(wall or {}))),
        ahead=Ahead(median_ms, max_iters),
        throughput=Throughput(
            tokens_per_s=tokens / median_ms * 1000 if tokens else None,
            tokens_per_iteration=tokens,
            micro_batch_ms=median_ms / accumulation if isinstance(accumulation, int) else None,
        ),
        mfu=Mfu(None, None, 312.0, None, None, mfu, None, card, peak, None, None),
        model=Model(None, flops, None),
        loss=Loss(metric, None, None, None, None, None, None, None, None, None, None, ()),
        findings=tuple(findings),
        curves=Curves(
            eval_iteration=tuple(iteration for iteration, _, _ in curve),
            eval_seconds=tuple(seconds for _, seconds, _ in curve),
            eval_train=tuple(None for _ in curve),
            eval_val=tuple(val for _, _, val in curve),
            eval_saved=tuple(False for _ in curve),
        ),
    )


@pytest.fixture(scope="session")
def make_diagnosis() -> MakeDiagnosis:
    return make
