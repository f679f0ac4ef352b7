"""Runs with what nanoGPT's logs lack: a ledger's measurements, faults, a card's sensors, and folded rows.

Also pairs of diagnoses that differ in more ways than two logs of one trainer do."""

from __future__ import annotations

import math
import random
from typing import Any

from nanopace.diagnosis.result import Diagnosis, Level
from nanopace.incidents import LossSpike, MicroBatch, RankLag
from nanopace.record import replace
from nanopace.run import Checkpoint, Evaluation, GpuUse, Restart, Rollback, Row, Rows, Run, Span

from .conftest import make
from .synthetic import known, nanogpt_run

FACTS = {
    "tokens_per_iteration": 491_520, "flops_per_token": 8.5e8, "flops_per_token_causal": 8.1e8, "parameters": 1.24e8,
    "gpu": "RTX 4090", "gpu_memory_gb": 24, "dtype": "bfloat16", "batch_size": 12, "gradient_accumulation_steps": 40,
    "block_size": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768, "vocab_size": 50304, "eval_iters": 200,
    "learning_rate": 6e-4, "max_iters": 400, "eval_interval": 20, "world_size": 2, "compile": False,
}  # fmt: skip


def ledger_run(seed: int) -> Run:
    """A run as our own trainer records it: every phase is measured, and some have faults."""
    dice = random.Random(seed)
    count, step_ms = dice.choice((40, 90, 140)), dice.choice((2900.0, 9000.0, 25_000.0))
    times = [step_ms * math.exp(dice.gauss(0, 0.01)) * (3 if dice.random() < 0.03 else 1) for _ in range(count)]
    rows = Rows([Row(at, ms, 4 * (at + 5) ** -0.1 + dice.gauss(0, 0.02)) for at, ms in enumerate(times)])
    spans = [Span("startup", 0, 4000.0), Span("compile", 0, 9000.0), Span("logging", count - 1, 40.0)]
    for begin in range(0, count, 10):
        ms = sum(times[begin : begin + 10])
        shares = (("data", 0.02 if dice.random() < 0.8 else 0.3), ("step", 0.8), ("optimizer", 0.15))
        spans += [Span(phase, min(begin + 9, count - 1), share * ms) for phase, share in shares]  # type: ignore[arg-type]
    for at in dice.sample(range(1, count), dice.choice((0, 2, 5))):
        spans.append(
            Span("stall", at, dice.uniform(2, 60) * step_ms, reason=dice.choice(("suspend", "data", "unknown")))
        )
    if seed % 2:
        spans.append(Span("step", count - 1, 0.7 * step_ms))  # of an unfinished step
    error = dice.choice((None, 0.01))
    evaluations = [
        Evaluation(
            at, 4 * (at + 5) ** -0.1, 4 * (at + 5) ** -0.1 + 0.0002 * at + dice.gauss(0, 0.003), val_error=error,
            ms=5 * step_ms * dice.uniform(0.98, 1.02) * (4 if dice.random() < 0.1 else 1),
            train_steps=20 if error else None, bits_per_byte=1.3 * (at + 5) ** -0.1,
        )
        for at in range(0, count, 20 if count > 40 else 5)
    ]  # fmt: skip
    saves = [Checkpoint(at, ms=step_ms * dice.uniform(0.1, 0.2), background_ms=7e3) for at in range(20, count, 20)]
    lost = Rows([Row(at, step_ms * 1.1) for at in range(20, 30)])
    limited = dice.choice((0, 30, 55))
    return Run(
        name="ledger", format="ledger", rows=rows, evaluations=tuple(evaluations), checkpoints=tuple(saves),
        restarts=(Restart(25, 25, 31, lost, 500.0),) if dice.random() < 0.4 else (),
        rollbacks=(Rollback(30, 30, 38, lost, 900.0),) if dice.random() < 0.4 else (),
        spans=tuple(spans), facts=known(FACTS), row_contains_evaluation=False, mfu_smoothing=None, row_loss="step",
        wall_ms=20_000.0 + sum(times) + 40 * step_ms + sum(span.ms for span in spans if span.phase == "stall"),
        gpu_use=GpuUse(
            samples=60, sm_mhz=1900.0, watts=300.0, celsius=84.0, energy_kwh=dice.choice((None, 0.4)),
            throttled={"thermal": limited / 2000, "power_cap": limited / 60}, training_samples=55,
            at_power_limit=limited, limited_mhz=1700.0, limited_watts=320.0,
        ),
        skipped=tuple(sorted(dice.sample(range(count), dice.choice((0, 2, 12))))),
        spikes=(LossSpike(17, 9.5, 4.4), LossSpike(31, 12.0, 5.0)) if dice.random() < 0.5 else (),
        micro_batches=tuple(
            MicroBatch(at, 6 // (1 + number), 80, where, 12)
            for number, (at, where) in enumerate(((0, "startup"), (22, "step"), (40, "evaluation")))
            if dice.random() < 0.2
        ),
        rank_lags=(RankLag(1, 50, 0.06), RankLag(0, 9, 0.01)) if dice.random() < 0.5 else (),
        ending=dice.choice((None, "finished", "diverged")),
    )  # fmt: skip


def folded_run(seed: int) -> Run:
    """A run as read from a very long log: ten normal rows as one; in every other run, rows cover several iterations."""
    dice = random.Random(seed)
    shift = dice.choice((1.0, 1.2, 2.0))
    run = nanogpt_run(
        6000, log_interval=10, eval_interval=250, noise=dice.choice((0.002, 0.02)), seed=seed, facts=FACTS,
        saves=lambda iteration: iteration % 500 == 0, stalls={at * 10: 900.0 for at in dice.sample(range(600), 4)},
        pace=lambda iteration: shift if iteration > 3500 else 1.0,
    )  # fmt: skip
    return folded(run, **({"rows_cover": 10, "rows_cover_shown_by": "first_row"} if seed % 2 else {}))


def folded(run: Run, **others: Any) -> Run:
    """Ten normal rows as one."""
    rows, index_of, at_s = Rows(), dict[int, int](), 1e9
    group: list[Row] = []
    special = {each.row for each in run.evaluations}
    for index, row in enumerate(run.rows):
        single = index in special or row.ms > 2 * 169
        if not single:
            group.append(row)
        if group and (single or len(group) == 10):
            ms, last = sum(each.ms for each in group), group[-1]
            rows.append(Row(group[0].iteration, ms / len(group), 4.0, last.mfu, len(group), last.iteration, ms))
            group = []
        if single:
            at_s += 2.0 + row.ms / 1000
            index_of[index] = len(rows)
            rows.append(Row(row.iteration, row.ms, 4.0, row.mfu, at_s=at_s))
    evaluations = [
        Evaluation(each.iteration, each.train, 9 * (each.iteration + 9) ** -0.2, row=index_of[each.row or 0])
        for each in run.evaluations
    ]
    saves = [Checkpoint(each.iteration, row=index_of[each.row or 0]) for each in run.checkpoints]
    values = {name: getattr(run, name) for name in run._fields} | others
    return Run(**values | {"rows": rows, "evaluations": tuple(evaluations), "checkpoints": tuple(saves)})


def odd_pair(seed: int) -> tuple[Diagnosis, Diagnosis]:
    """Two diagnoses that may differ in anything a comparison looks at."""
    dice = random.Random(f"{seed} odd pair")
    shared = {"metric": dice.choice(("loss", "loss", "bpb")), "tokenizer": dice.choice((None, "x")), "card": "RTX 4090"}
    a, b = (_odd_diagnosis(dice, name, shared) for name in ("a.log", "b.log"))
    return a, b


def _odd_diagnosis(dice: random.Random, name: str, shared: dict[str, Any]) -> Diagnosis:
    knobs = {
        "batch_size": dice.choice((8, 16)), "gradient_accumulation_steps": dice.choice((4, 8)), "block_size": 1024,
        "n_layer": dice.choice((6, 12)), "n_head": 12, "n_embd": 768, "learning_rate": dice.choice((6e-4, 3e-4)),
        "compile": dice.random() < 0.8, "gpu_count": dice.choice((1, 1, 8)),
    }  # fmt: skip
    if dice.random() < 0.2:
        del knobs["n_head"]
    if shared["tokenizer"]:
        knobs["tokenizer"] = dice.choice(("x", "x", "y"))
    if dice.random() < 0.3:
        knobs["vocab_size"] = dice.choice((65, 50257, 50304))
    floor, fall, last = dice.uniform(1.5, 2.0), dice.uniform(0.1, 0.4), dice.choice((4, 12, 25))
    losses = [floor + 8.5 * (1 + 40 * at) ** -fall + dice.gauss(0, 0.01) for at in range(last)]
    if dice.random() < 0.3:
        losses[-2:] = [loss + 0.3 for loss in losses[-2:]]  # over-fitted
    pace, first = dice.choice((0.1, 0.1, 0.08, 0.25)), dice.choice((0, 0, 0, 0, 0, 0, 0, 5000))
    curve = [(first + 100 * at, 30 + 100 * at * pace, val) for at, val in enumerate(losses)]
    run = make(
        name=name, median_ms=1000 * pace, iterations=first + 100 * last, knobs=knobs, mfu=dice.uniform(0.2, 0.6),
        dataset=dice.choice(("owt", "owt", "owt", "owt", "code", None)), flops=dice.choice((8.5e8, 4e8, 4e8, None)),
        tokens=dice.choice((65_536.0, 131_072.0, 131_072.0, None)), peak=dice.choice((165.2, 312.0, None)),
        card=dice.choice((None, shared["card"], "A100")),
        curve=curve, metric=shared["metric"],
        wall={"startup_s": 30.0, "stall_s": dice.choice((0.0, 200.0)), "evaluation_s": dice.choice((10.0, 150.0)),
              "overhead_share": dice.choice((None, 0.05)), "unknown_s": dice.choice((0.0, None)),
              "measured": dice.random() < 0.5},
    )  # fmt: skip
    levels = (Level(first, first + 99, 1000 * pace), Level(first + 100, first + 100 * last, 1300 * pace))
    per_s = run.throughput.tokens_per_s
    return replace(
        run,
        source=replace(run.source, first_iteration=first),
        step=replace(run.step, spread=dice.choice((0.002, 0.3)), levels=levels[: dice.choice((1, 2))]),
        throughput=replace(run.throughput, tokens_per_s_overall=per_s and per_s * dice.uniform(0.5, 0.9)),
        loss=replace(run.loss, best_val=min(losses), best_val_error=dice.choice((None, None, 0.008))),
        curves=replace(run.curves, eval_bits=tuple(val / 3 for val in losses) if dice.random() < 0.7 else ()),
    )
