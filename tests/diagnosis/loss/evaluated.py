"""Runs made from their losses."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from nanopace.diagnosis.result import Finding
from nanopace.run import Checkpoint, Evaluation, Fact, Row, Rows, Run


def run_of(
    vals: Sequence[float | None],
    *,
    trains: Sequence[float | None] | None = None,
    saves: Iterable[int] = (),
    row_losses: Sequence[float] = (3.0, 3.0),
    facts: dict[str, Any] | None = None,
    metric: Any = "loss",
    **more: Any,
) -> Run:
    """Evaluations at 500, 1000, ...; rows spread over the same iterations and one evaluation more."""
    end = 500 * (len(vals) + 1)
    step = max(1, end // max(1, len(row_losses)))
    return Run(
        name="train.log",
        format=more.pop("format", "nanogpt"),
        rows=Rows([Row(step * (k + 1), 100.0, loss) for k, loss in enumerate(row_losses)]),
        evaluations=tuple(
            Evaluation(500 * (k + 1), trains[k] if trains else None, val, metric) for k, val in enumerate(vals)
        ),
        checkpoints=tuple(Checkpoint(iteration) for iteration in saves),
        facts={name: Fact(value, "config file") for name, value in (facts or {}).items()},
        **more,
    )


def falling(count: int, noise: float = 0.005, seed: int = 1) -> list[float]:
    rng = random.Random(seed)
    return [2.5 + 30 * (500 * k) ** -0.45 + rng.gauss(0, noise) for k in range(1, count + 1)]


def codes(findings: list[Finding]) -> list[str]:
    return [finding.code for finding in findings]
