"""The fit behind `nanopace recommend`'s speeds: 19 constants, from all published and measured points at once.

Least squares of the logarithm of measured over expected, by Levenberg and Marquardt. Points that are far off count
linearly, so that one wrong figure moves little; points of one card and trainer count as the square root of their
number. A weak pull to the starting values keeps constants apart that few points tell apart.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from nanopace.hardware.card_classes import CardClass, card_class
from nanopace.hardware.cards import find_card
from nanopace.hardware.flops import parameters
from nanopace.hardware.speed import step_seconds, trainer_on, update_seconds, work_seconds
from nanopace.hardware.speed_points import Point
from nanopace.hardware.trainers import Trainer
from nanopace.memory_ladder import ladder_speed

# Where the fit starts, and what it is pulled to.
START = {
    "share geforce": 1.0,
    "share workstation": 0.75,
    "share server": 0.75,
    "share blackwell": 0.75,
    "share volta": 0.45,
    "share single": 0.8,
    "share amd": 0.35,
    "bandwidth workstation": 0.5,
    "bandwidth server": 0.5,
    "power workstation": 0.5,
    "bytes nanogpt": 150.0,  # 146 by a profile
    "bytes nanogpt_early": 300.0,
    "bytes nanopace": 80.0,  # 77 by a profile
    "bytes llm.c": 100.0,
    "bytes languini": 400.0,
    "products llm.q": 1.0,
    "products nanochat": 1.0,
    "products languini": 0.7,
    "fp8": 1.5,
}
FITTED_AS = {"hopper": "server", "laptop": "geforce"}  # classes that share their constants
_LINEAR_FROM = 0.1  # of the logarithm
_PULL = 0.2  # a constant that is off by a factor of e counts like a point that is off by a fifth
_ROUNDS = 40

_card = cache(find_card)  # the same few cards, hundreds of thousands of times


def expected(point: Point, constants: Mapping[str, float]) -> float:
    """Tokens per second with these constants."""
    card = _card(point.card)
    kind, how = _class(card_class(card), constants), _trainer(trainer_on(card, point.trainer), constants)
    weights = point.weights or parameters(*point.size[:3])
    work = work_seconds(card, kind, how, point.size, weights, constants["fp8"] if point.fp8 else 1.0)
    assert work is not None, point
    tokens = point.batch_size * point.block_size
    update = update_seconds(card, point.weights or parameters(*point.size))
    seconds = step_seconds(work, how, point.n_layer, tokens, point.accumulation, update, ladder_speed(point.steps))
    return point.accumulation * tokens / seconds


def _class(kind: CardClass, constants: Mapping[str, float]) -> CardClass:
    name = FITTED_AS.get(kind.name, kind.name)
    return replace(
        kind,
        share=constants.get(f"share {name}", kind.share),
        bandwidth_share=constants.get(f"bandwidth {name}", kind.bandwidth_share),
        power=constants.get(f"power {name}", kind.power),
    )


def _trainer(how: Trainer, constants: Mapping[str, float]) -> Trainer:
    moved = constants.get(f"bytes {how.name}", how.layer_bytes)
    return replace(how, layer_bytes=moved, products=constants.get(f"products {how.name}", how.products))


def fit(points: Sequence[Point], start: Mapping[str, float] = START) -> dict[str, float]:
    """The constants that fit these points best."""
    names, damping = list(START), 1e-2
    pulled_to = np.log([START[name] for name in names])
    counts = Counter((point.card, point.trainer) for point in points)
    weights = np.array([counts[point.card, point.trainer] ** -0.25 for point in points])
    measured = np.log([point.tokens_per_s for point in points])

    def residuals(logs: np.ndarray) -> np.ndarray:
        constants = dict(zip(names, np.exp(logs), strict=True))
        off = weights * (measured - np.log([expected(point, constants) for point in points]))
        size = np.abs(off)
        far = np.sqrt(np.maximum(2 * _LINEAR_FROM * size - _LINEAR_FROM**2, 0))
        return np.concatenate([np.sign(off) * np.where(size < _LINEAR_FROM, size, far), _PULL * (logs - pulled_to)])

    logs = np.log([start[name] for name in names])
    found = residuals(logs)
    for _ in range(_ROUNDS):
        slopes = np.stack([(residuals(logs + step) - found) / 1e-4 for step in 1e-4 * np.eye(len(logs))], axis=1)
        while True:
            move = np.linalg.solve(slopes.T @ slopes + damping * np.eye(len(logs)), -slopes.T @ found)
            tried = residuals(logs + move)
            gain = found @ found - tried @ tried
            if gain > 0:
                logs, found, damping = logs + move, tried, damping / 5
                break
            damping *= 5
            if damping > 1e6:
                break
        if gain < 1e-7:
            break
    return {name: math.exp(value) for name, value in zip(names, logs, strict=True)}
