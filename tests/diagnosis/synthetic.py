"""Runs made from figures: what nanoGPT's clock and log would show, with seeded noise."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from nanopace.run import Checkpoint, Evaluation, Fact, FactValue, Restart, Row, Rows, Run

Factor = Callable[[int], float]


def nanogpt_run(
    iterations: int = 20_000,
    *,
    log_interval: int = 100,
    eval_interval: int = 500,
    step_ms: float = 169.0,
    evaluation_ms: float = 5140.0,
    checkpoint_ms: float = 470.0,
    compile_ms: float = 7200.0,
    saves: Callable[[int], bool] = lambda iteration: iteration % 1000 == 0,
    stalls: Mapping[int, float] | None = None,
    pace: Factor = lambda _: 1.0,
    noise: float = 0.002,
    mfu: float | None = 0.1206,
    first_iteration: int = 0,
    tells_evaluations: bool = True,
    restarts: Mapping[int, int] | None = None,
    facts: Mapping[str, FactValue] | None = None,
    seed: int = 1,
) -> Run:
    """A run of nanoGPT from `first_iteration` to `iterations`, both included.

    `saves` says which evaluations write a checkpoint, `stalls` adds milliseconds to an iteration, `pace` multiplies the
    step time, `restarts` maps the iteration at which a process died to the one where the next process resumed.
    An `eval_interval` of 0 means no evaluations.
    """
    noisy = random.Random(seed)
    rows, evaluations, checkpoints, made = Rows(), [], [], []
    died = dict(restarts or {})
    printed: float | None = None
    iteration, cold = first_iteration, True
    while iteration <= iterations:
        shown, evaluates = iteration % log_interval == 0, bool(eval_interval) and iteration % eval_interval == 0
        if not (shown or evaluates or iteration in died):
            iteration, cold = iteration + 1, False
            continue
        step = step_ms * pace(iteration) * (1 + noise * abs(noisy.gauss(0, 1)))
        took = step + (stalls or {}).get(iteration, 0.0) + (compile_ms if cold else 0.0)
        row = len(rows) if shown else None
        if evaluates:
            took += evaluation_ms
            if tells_evaluations:
                evaluations.append(Evaluation(iteration, 4.0, 4.1, row=row))
            if saves(iteration) and not cold:
                took += checkpoint_ms
                if tells_evaluations:
                    checkpoints.append(Checkpoint(iteration, "out", row=row))
        if shown:
            if mfu is not None and not cold:
                own = mfu * step_ms / took
                printed = own if printed is None else 0.9 * printed + 0.1 * own
            rows.append(Row(iteration, took, 4.0, None if printed is None else round(printed, 4)))
        cold = False
        if iteration in died:
            back = died.pop(iteration)
            kept = [each for each in rows if each.iteration < back]
            lost = [each for each in rows if each.iteration >= back]
            made.append(Restart(len(kept), back, iteration, Rows(lost)))
            rows = Rows(kept)
            evaluations = [each for each in evaluations if each.iteration < back]
            checkpoints = [each for each in checkpoints if each.iteration < back]
            iteration, cold, printed = back, True, None
        else:
            iteration += 1
    return Run(
        name="train.log",
        format="nanogpt",
        rows=rows,
        evaluations=tuple(evaluations),
        checkpoints=tuple(checkpoints),
        restarts=tuple(made),
        facts=known(facts or {}),
        mfu_smoothing=0.9,
    )


def rows_run(
    times: Collection[float],
    *,
    log_interval: int = 10,
    evaluated: Collection[int] = (),
    saved: Collection[int] = (),
    facts: Mapping[str, FactValue] | None = None,
) -> Run:
    """A run that has exactly these rows; `evaluated` and `saved` are indices of rows."""
    return Run(
        name="train.log",
        format="nanogpt",
        rows=Rows([Row(index * log_interval, ms) for index, ms in enumerate(times)]),
        evaluations=tuple(Evaluation(index * log_interval, None, 4.0, row=index) for index in sorted(evaluated)),
        checkpoints=tuple(Checkpoint(index * log_interval, row=index) for index in sorted(saved)),
        facts=known(facts or {}),
        mfu_smoothing=0.9,
    )


def known(values: Mapping[str, FactValue]) -> Mapping[str, Fact]:
    """Facts given by the user, and the peak that nanoGPT always divides by."""
    facts = {name: Fact(value, "flag") for name, value in values.items()}
    return MappingProxyType({"printed_peak_tflops": Fact(312.0, "inferred", "trainer"), **facts})
