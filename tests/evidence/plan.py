"""Plans for simulated runs, which the sentences of a report are checked against.

A plan is drawn from a seed, so that the seed of a false sentence reproduces it. What a log cannot show is not planned:
a stall falls on a row, and a process dies after one.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Literal

Fork = Literal["plain", "bpc", "ppl", "columns", "covers"]  # "covers": a row's time is that of all iterations since
Cut = Literal["none", "head", "tail", "after evaluation"]


@dataclass(frozen=True)
class Shape:
    """The model and its batch, which determine the arithmetic of an iteration."""

    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    vocab_size: int
    batch_size: int
    accumulation: int

    @property
    def parameters(self) -> int:
        """nanoGPT's count: the tied head once, no biases, without the position table."""
        norms = (2 * self.n_layer + 1) * self.n_embd
        return 12 * self.n_layer * self.n_embd**2 + self.vocab_size * self.n_embd + norms

    @property
    def flops_per_token(self) -> float:
        return 6 * self.parameters + 12 * self.n_layer * self.n_embd * self.block_size

    @property
    def tokens(self) -> int:
        return self.batch_size * self.accumulation * self.block_size

    @property
    def flops(self) -> float:
        return self.flops_per_token * self.tokens


@dataclass(frozen=True)
class Losses:
    """floor + scale (iteration + 20)^-power, and deviations from it."""

    floor: float
    scale: float
    power: float
    noise: float  # of an evaluation
    row_noise: float  # of a row
    turns_up: float = 0.0  # how much validation rises from `turns_at` of the run to its end
    turns_at: float = 0.5
    nan_at: float | None = None  # share of the run after which every loss is nan
    spike_at: float | None = None  # one row with a loss spike


@dataclass(frozen=True)
class Plan:
    """One training run, and how it is logged."""

    seed: int
    shape: Shape
    losses: Losses
    max_iters: int
    log_interval: int
    eval_interval: int
    eval_iters: int
    step_ms: float
    noise: float  # of a step, as a fraction
    drift: float = 0.0  # over the run
    shifts: tuple[tuple[float, float], ...] = ()  # (share of the run, factor from there on)
    tails: float = 0.0  # share of rows with a small delay
    stalls: tuple[tuple[float, float], ...] = ()  # (share of the run, steps that it takes)
    period: tuple[int, float, int] | None = None  # (rows between stalls, length in steps, rows before the first)
    forward_share: float = 1 / 3
    evaluation_noise: float = 0.005
    checkpoint_steps: float = 3.0
    always_save: bool = False
    compile_ms: float = 20_000.0
    restarts: tuple[tuple[float, float], ...] = ()  # (share at which it dies, factor on the step time afterwards)
    nan_factor: float = 1.0  # on the step time once the loss is nan
    header: bool = True
    mfu: bool = True
    fork: Fork = "plain"
    cut: Cut = "none"
    stamped: bool = False
    ending: Literal["", "interrupt", "memory"] = ""
    gpu: str | None = None  # given on the command line
    learning_rate: float = 6e-4
    dataset: str = "text"

    @property
    def evaluation_steps(self) -> float:
        return 2 * self.eval_iters * self.forward_share / self.shape.accumulation

    @property
    def compiles(self) -> bool:
        return self.compile_ms > 4 * self.step_ms


PEAKS = {"RTX 4090": 165.2, "A100 80GB SXM": 312.0, "RTX 3060 12GB": 25.5}  # TFLOP/s, dense bf16

SHAPES = (
    (2, 4, 128, 128, 65),
    (6, 6, 384, 256, 65),
    (6, 6, 384, 1024, 50304),
    (12, 12, 768, 1024, 50304),
    (12, 12, 768, 1024, 50304),
    (24, 16, 1024, 1024, 50304),
)


def drawn(seed: int) -> Plan:
    """The plan of this number."""
    rng = random.Random(seed)
    some = rng.random
    shape = Shape(
        *rng.choice(SHAPES), batch_size=rng.choice((4, 8, 12, 32, 64)), accumulation=rng.choice((1, 4, 8, 40))
    )
    log_interval = rng.choice((1, 1, 10, 10, 50, 100))
    rows = round(10 ** (1.3 + 1.4 * some()))  # 20 to 500
    max_iters = rows * log_interval
    if some() < 0.15:  # evaluations fall between rows
        eval_interval = max(2, round(log_interval * rng.choice((1.5, 2.5, 7.5))))
    else:
        eval_interval = log_interval * rng.choice((1, 2, 5, 10, 20, 25, 50, 100))
    nan = some() < 0.06
    plan = Plan(
        seed=seed,
        shape=shape,
        losses=_losses(rng, shape, nan),
        max_iters=max_iters,
        log_interval=log_interval,
        eval_interval=eval_interval,
        eval_iters=rng.choice((5, 20, 50, 200)),
        step_ms=max(4.0, shape.flops / (312e12 * rng.uniform(0.02, 0.6)) * 1000),
        noise=rng.choice((0.002, 0.005, 0.01, 0.03, 0.1)),
        forward_share=rng.uniform(0.31, 0.4),
        evaluation_noise=rng.choice((0.002, 0.005, 0.02)),
        checkpoint_steps=10 ** rng.uniform(-1, 2),
        always_save=some() < 0.3,
        compile_ms=rng.choice((300.0, 5_000.0, 40_000.0)) if some() < 0.8 else 1000 * rng.uniform(0.3, 100),
        nan_factor=rng.choice((1.0, 0.93, 1.1)) if nan else 1.0,
        header=some() < 0.5,
        mfu=some() < 0.9,
        fork=rng.choice(("plain",) * 12 + ("bpc", "ppl", "columns", "covers")),
        cut=rng.choice(("none",) * 8 + ("head", "tail", "after evaluation")),
        stamped=some() < 0.1,
        ending=rng.choice(("",) * 10 + ("interrupt", "memory")),
        gpu=rng.choice((None, None, None, *PEAKS)),
    )
    if plan.fork == "covers":  # its mfu would be of an unknown time; and only a short first row shows what it does
        plan = replace(plan, mfu=False, compile_ms=300.0, cut="none")
        short = plan.compile_ms + (1 + plan.evaluation_steps) * plan.step_ms < 0.3 * log_interval * plan.step_ms
        apart = plan.eval_interval > 2 * log_interval  # else most rows hold an evaluation, and none is like the first
        plan = plan if short and apart else replace(plan, fork="columns")
    plan = _disturbed(plan, rng)
    if plan.fork == "covers":  # it is seldom enough, and what its rows hold besides steps cannot be told
        plan = replace(plan, stalls=(), period=None, tails=0.0, restarts=())
    return plan


def _losses(rng: random.Random, shape: Shape, nan: bool) -> Losses:
    """From ln(vocabulary) down."""
    power, floor = rng.uniform(0.15, 0.6), rng.uniform(0.8, 3.0)
    turns = rng.random() < 0.15
    return Losses(
        floor=floor,
        scale=(math.log(shape.vocab_size) - floor) * 20**power,
        power=power,
        noise=rng.choice((0.001, 0.004, 0.01, 0.03)),
        row_noise=rng.choice((0.02, 0.05, 0.15)),
        turns_up=rng.uniform(0.1, 1.0) if turns else 0.0,
        turns_at=rng.uniform(0.2, 0.6),
        nan_at=rng.uniform(0.1, 0.9) if nan else None,
        spike_at=rng.uniform(0.5, 0.9) if rng.random() < 0.05 else None,
    )


def _disturbed(plan: Plan, rng: random.Random) -> Plan:
    """At most two of the things that can go wrong with a run's speed."""
    for _ in range(rng.choice((0, 1, 1, 2))):
        kind = rng.choice(("drift", "shifts", "stalls", "period", "tails", "restarts"))
        if kind == "drift":
            plan = replace(plan, drift=rng.choice((-0.2, -0.1, 0.1, 0.2, 0.3, 0.4)))
        elif kind == "shifts":
            places = _apart([rng.uniform(0.1, 0.9) for _ in range(rng.choice((1, 1, 2, 4)))], plan)
            plan = replace(plan, shifts=tuple((place, rng.choice((0.6, 0.8, 1.1, 1.25, 1.6, 2.2))) for place in places))
        elif kind == "stalls":
            places = [rng.uniform(0.05, 0.98) for _ in range(rng.choice((1, 2, 6)))]
            plan = replace(plan, stalls=tuple((place, 10 ** rng.uniform(0, 2)) for place in places))
        elif kind == "period":
            rows, steps = rng.choice((4, 7, 10, 25)), 10 ** rng.uniform(0, 1.5)
            shift = random.Random(steps).choice((0, rows // 2))  # not of `rng`: the other draws of a seed stay
            plan = replace(plan, period=(rows, steps, shift))
        elif kind == "tails" and plan.log_interval == 1:
            plan = replace(plan, tails=rng.uniform(0.01, 0.1))
        elif kind == "restarts" and plan.eval_interval % plan.log_interval == 0:
            places = _apart([rng.uniform(0.2, 0.95) for _ in range(rng.choice((1, 1, 2)))], plan)
            plan = replace(plan, restarts=tuple((place, rng.choice((1.0, 1.0, 1.15, 0.85))) for place in places))
    return plan


def _apart(places: list[float], plan: Plan) -> list[float]:
    """Those at least twelve plain rows apart and from the ends of the log: fewer rows are not a level."""
    every_other_evaluates = plan.eval_interval <= 2 * plan.log_interval
    least = 12 * plan.log_interval * (1 + every_other_evaluates) / plan.max_iters
    kept: list[float] = []
    for place in sorted(places):
        if place > (kept[-1] if kept else 0.0) + least and place < 1 - least:
            kept.append(place)
    return kept if plan.cut == "none" else kept[:1]


def drawn_pair(seed: int) -> tuple[Plan, Plan]:
    """Two runs to compare: in the second, something is changed, which affects speed and loss."""
    rng = random.Random(f"{seed} pair")
    fork: Fork = "bpc" if rng.random() < 0.1 else "plain"
    a = replace(drawn(seed), fork=fork, ending="", header=rng.random() < 0.8, gpu=None, cut="none")
    b, faster = replace(a, seed=seed + 1_000_000), rng.choice((0.5, 0.8, 0.97, 1.0, 1.1, 2.0))
    for knob in rng.sample(("batch", "width", "rate", "speed", "disturbed", "length"), rng.choice((1, 1, 2, 3))):
        if knob == "batch" and b.shape.accumulation % 2 == 0:
            shape = replace(b.shape, batch_size=2 * b.shape.batch_size, accumulation=b.shape.accumulation // 2)
            b = replace(b, shape=shape, step_ms=b.step_ms * faster)
        elif knob == "width":
            shape = replace(b.shape, n_embd=2 * b.shape.n_embd)
            losses = replace(b.losses, floor=b.losses.floor - 0.2)
            b = replace(b, shape=shape, step_ms=b.step_ms * shape.flops / b.shape.flops, losses=losses)
        elif knob == "rate":
            b = replace(b, learning_rate=3e-4, losses=replace(b.losses, scale=b.losses.scale * rng.choice((0.8, 1.2))))
        elif knob == "speed":
            b = replace(b, step_ms=b.step_ms * faster)
        elif knob == "disturbed":
            b = _disturbed(b, rng)
        elif knob == "length":
            b = replace(b, max_iters=b.max_iters // 2)
    turns_up = rng.uniform(0.5, 2.0) if rng.random() < 0.1 else b.losses.turns_up
    b = replace(b, losses=replace(b.losses, turns_up=turns_up))
    if rng.random() < 0.1:
        b = replace(b, dataset="other", losses=replace(b.losses, floor=b.losses.floor + 1))
    if rng.random() < 0.1:
        b = replace(b, cut="head", restarts=())
    return a, b
