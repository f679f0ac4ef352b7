"""What each of several changes to one config does, measured by short runs: of A as it is, and with each change alone.

Every setting is run with the same seeds, so a difference in the loss is one between equal seeds. Whoever tries many
settings takes the best one, and the best of many always looks a little better than it is: the intervals contain all the
true differences together in 95% of the cases (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from nanopace.config import KNOBS, TrainConfig
from nanopace.errors import ConfigError, UsageError
from nanopace.literals import Value
from nanopace.tune.ablate.ablate import OF_RECIPE, is_apart, left_to_recipe
from nanopace.tune.ablate.trials import SEED, Trial, Tried, by_setting, settings_of_repeat
from nanopace.tune.shapley import Players, Share, scatter, schedule
from nanopace.tune.student import student

_AS_IT_IS: Players = frozenset()


@dataclass(frozen=True, slots=True)
class Variants:
    """What to measure: the knobs of A, and of A with each change; None: left to the recipe."""

    base: Mapping[str, Value]
    changed: Mapping[str, Mapping[str, Value]]  # by name
    steps: int
    repeats: int
    evaluates: bool

    @property
    def trials(self) -> list[Trial]:
        knobs = {_AS_IT_IS: self.base, **{frozenset([name]): each for name, each in self.changed.items()}}
        return [
            Trial(some, repeat, settings_of_repeat(knobs[some], repeat, self.steps, evaluates=self.evaluates))
            for some, repeat in schedule([*knobs], self.repeats, SEED)
        ]


@dataclass(frozen=True, slots=True)
class Effect:
    """What one change does. The speed is a difference of logarithms, the loss one of losses."""

    setting: str
    failure: str | None  # memory, time, error; then nothing else is known
    said: str
    speed: Share | None
    loss: Share | None


@dataclass(frozen=True, slots=True)
class Effects:
    """The effect of each change, in the order in which they were asked for."""

    effects: tuple[Effect, ...]
    tokens_per_second: float  # of A
    loss: float | None  # of A
    steps: int
    repeats: int
    trials: int


def make_variants(
    a: Mapping[str, Value], tries: Mapping[str, Mapping[str, Value]], *, steps: int, repeats: int, evaluates: bool
) -> Variants:
    """Plan the trials. `tries`: changes by the name that they were given. Whatever A does not set has nanoGPT's
    default, or its recipe's."""
    base = {name: value for name, value in a.items() if name in KNOBS}
    unknown = left_to_recipe(base)
    now = {name: value for name, value in TrainConfig(**base).as_dict().items() if name not in unknown}  # type: ignore[arg-type]
    changed = {}
    for name, each in tries.items():
        fixed = next((knob for knob in each if is_apart(knob)), None)
        if fixed is not None:
            raise UsageError("--try {settings}: {knob} is the same in all runs", settings=name, knob=fixed)
        if all(now.get(knob) == value for knob, value in each.items()):
            raise UsageError("--try {settings}: A has these settings already", settings=name)
        changed[name] = _with(base, each)
        try:
            TrainConfig(**changed[name])  # type: ignore[arg-type]
        except ConfigError as error:
            raise UsageError("--try {settings}: {problem}", settings=name, problem=error.as_message()) from None
    return Variants(base, changed, steps, repeats, evaluates)


def _with(base: Mapping[str, Value], change: Mapping[str, Value]) -> dict[str, Value]:
    """A's knobs with a change. Those that were tuned for A's recipe do not go with another one."""
    default = KNOBS["recipe"].default
    other_recipe = change.get("recipe", base.get("recipe", default)) != base.get("recipe", default)
    kept = {name: value for name, value in base.items() if not (other_recipe and name in OF_RECIPE)}
    return {**kept, **change}


def conclude_variants(plan: Variants, tried: Sequence[Tried]) -> Effects:
    """Evaluate the results. A itself must have worked."""
    failed = {each.changed: each.outcome for each in tried if not each.outcome.worked}
    worked = [each for each in tried if each.changed not in failed]
    speeds = by_setting(worked, lambda outcome: math.log(outcome.tokens_per_second or math.nan))
    losses = by_setting(worked, lambda outcome: outcome.loss or math.nan) if plan.evaluates else None
    speed = _differences(speeds, paired=False)
    loss = {} if losses is None else _differences(losses, paired=True)
    effects = []
    for name in plan.changed:
        some = frozenset([name])
        outcome = failed.get(some)
        failure, said = (None, "") if outcome is None else (outcome.failure, outcome.said)
        effects.append(Effect(name, failure, said, speed.get(name), loss.get(name)))
    return Effects(
        effects=tuple(effects),
        tokens_per_second=math.exp(fmean(speeds[_AS_IT_IS])),
        loss=None if losses is None else fmean(losses[_AS_IT_IS]),
        steps=plan.steps,
        repeats=plan.repeats,
        trials=len(tried),
    )


def _differences(measured: Mapping[Players, Sequence[float]], *, paired: bool) -> dict[str, Share]:
    """Each setting's difference to A, with half the width of its interval."""
    base = measured[_AS_IT_IS]
    deviation, freedom = scatter(measured, paired=paired)
    error = None
    if deviation is not None:
        error = student(1 - 0.05 / max(1, len(measured) - 1), freedom) * deviation * math.sqrt(2 / len(base))
    return {name: Share(name, fmean(values) - fmean(base), error) for some, values in measured.items() for name in some}
