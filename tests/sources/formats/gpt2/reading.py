"""Shorthands for reading these trainers' logs."""

from __future__ import annotations

from nanopace.run import Evaluation, Run


def values(run: Run) -> dict[str, object]:
    return {name: fact.value for name, fact in run.facts.items()}


def losses(run: Run) -> list[tuple[int, float | None, int | None]]:
    """Iteration, validation loss, and the row that contains the evaluation."""
    return [(each.iteration, each.val, each.row) for each in run.evaluations if each.metric == "loss"]


def scores(run: Run) -> list[tuple[int, float | None]]:
    return [(each.iteration, each.val) for each in run.evaluations if each.metric == "core"]


def caveats(run: Run) -> list[str]:
    return [each.code for each in run.caveats]


def evaluation(run: Run, iteration: int) -> Evaluation:
    return next(each for each in run.evaluations if each.iteration == iteration)


def rows(*steps: int, ms: float = 100.0, tokens: int = 65536) -> list[str]:
    """Rows of build-nanogpt."""
    return [f"step {n:4d} | loss: 3.000000 | dt: {ms:.2f}ms | tok/sec: {tokens / ms * 1000:.2f}" for n in steps]


def log(*parts: str | list[str]) -> str:
    return "\n".join(line for part in parts for line in ([part] if isinstance(part, str) else part)) + "\n"
