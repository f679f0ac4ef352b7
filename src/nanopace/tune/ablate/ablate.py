"""Which knob made the difference between two configs, measured by short runs of what lies between them.

A player is a set of knobs that change together: a single knob, or several, because no run can have one without the
other (n_head and n_embd), because together they keep the tokens per step, or because the user says so. Every
combination of players is a run; shapley.py divides the total difference among them. Tokens per second are compared by
their logarithm, which splits exactly into the cost of a token and the utilisation of the machine:

    ln(tokens/s) = ln(utilisation) + ln(peak) - ln(FLOPs per token)

so that a knob's share of the utilisation is the sum of its shares of the speed and of the FLOPs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from nanopace.config import KNOBS, TrainConfig
from nanopace.errors import ConfigError, UsageError
from nanopace.literals import Value
from nanopace.tune.ablate.trials import SEED, Trial, Tried, by_setting, settings_of_repeat
from nanopace.tune.shapley import Players, Share, coalitions, drawn_orders, schedule, shares

_SET_FOR_EACH_TRIAL = ("max_iters", "seed")
# For these, a recipe may have its own defaults, so they belong to their config's recipe (train/models/recipes.py).
OF_RECIPE = (
    *("learning_rate", "min_lr", "weight_decay", "beta1", "beta2", "grad_clip", "decay_lr", "warmup_iters"),
    *("lr_decay_iters", "matrix_lr", "cooldown", "n_head"),
)


def left_to_recipe(given: Mapping[str, Value]) -> frozenset[str]:
    """The knobs that a config leaves to a recipe other than nanoGPT's, whose defaults only the trainer knows."""
    default = KNOBS["recipe"].default
    return frozenset() if given.get("recipe", default) == default else frozenset(OF_RECIPE) - given.keys()


def is_apart(name: str) -> bool:
    """Whether a knob is not a property of a run, or set by ourselves for each trial."""
    knob = KNOBS[name]
    return knob.part == "call" or knob.effect == "bookkeeping" or name in _SET_FOR_EACH_TRIAL


@dataclass(frozen=True, slots=True)
class Player:
    """Knobs that change together, with their values in A and in B; None: left to the recipe."""

    knobs: tuple[str, ...]
    before: tuple[Value | None, ...]
    after: tuple[Value | None, ...]

    @property
    def name(self) -> str:
        return ",".join(self.knobs)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    base: Mapping[str, Value | None]  # knobs of A, and its defaults for those that only B sets
    players: tuple[Player, ...]
    steps: int
    repeats: int
    evaluates: bool
    orders: tuple[tuple[str, ...], ...]  # empty: all combinations are measured

    @property
    def combinations(self) -> list[Players]:
        return coalitions([each.name for each in self.players], len(self.orders), SEED)

    @property
    def trials(self) -> list[Trial]:
        order = schedule(self.combinations, self.repeats, SEED)
        return [Trial(changed, repeat, self.settings(changed, repeat)) for changed, repeat in order]

    def settings(self, changed: Players, repeat: int = 0) -> dict[str, Value]:
        knobs = dict(self.base)
        for player in self.players:
            if player.name in changed:
                knobs.update(zip(player.knobs, player.after, strict=True))
        return settings_of_repeat(knobs, repeat, self.steps, evaluates=self.evaluates)


@dataclass(frozen=True, slots=True)
class Ablation:
    """The effect of each player. Speed, FLOPs and utilisation are differences of logarithms; the loss is a difference
    of losses, with the same seeds."""

    players: tuple[Player, ...]
    speed: tuple[Share, ...]
    flops: tuple[Share, ...] | None  # exact, without errors; None if the trainer does not report the cost of a token
    utilisation: tuple[Share, ...] | None
    loss: tuple[Share, ...] | None
    tokens_per_second: tuple[float, float]  # of A and of B
    losses: tuple[float, float] | None
    trials: int
    sampled: bool  # orders were drawn


# --- what to measure -------------------------------------------------------------------------------------------------


def make_plan(
    a: Mapping[str, Value],
    b: Mapping[str, Value],
    *,
    steps: int,
    repeats: int,
    evaluates: bool,
    orders: int,
    together: Sequence[Sequence[str]] = (),
) -> Plan:
    """Plan the trials. Both configs are knobs by name; whatever they do not set has nanoGPT's default."""
    before, after = TrainConfig(**_known(a)).as_dict(), TrainConfig(**_known(b)).as_dict()  # type: ignore[arg-type]
    open_in_one = left_to_recipe(a) ^ left_to_recipe(b)
    changed = [name for name in KNOBS if before[name] != after[name] and not is_apart(name)]
    of_recipe = [
        name for name in OF_RECIPE if (name in a or name in b) and ("recipe" in changed or name in open_in_one)
    ]
    changed = [name for name in KNOBS if name in changed or name in of_recipe]
    if not changed:
        raise UsageError("both configs train the same way: no setting that affects a run differs")
    with_recipe = ["recipe", *of_recipe] if "recipe" in changed else []
    groups = _together([(name,) for name in changed], [*_same_tokens(before, after), with_recipe, *together])
    groups = _valid(groups, before, after)
    old, new = _left_open(before, of_recipe, a), _left_open(after, of_recipe, b)
    players = tuple(
        Player(each, tuple(old[name] for name in each), tuple(new[name] for name in each)) for each in groups
    )
    names = [each.name for each in players]
    drawn = tuple(drawn_orders(names, orders, SEED)) if len(coalitions(names, orders, SEED)) < 2 ** len(names) else ()
    base = {name: old[name] for name in KNOBS if name in a or name in b}
    return Plan(base, players, steps, repeats, evaluates, drawn)


def _known(knobs: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in knobs.items() if name in KNOBS}


def _left_open(
    values: Mapping[str, Value], of_recipe: Sequence[str], given: Mapping[str, Value]
) -> dict[str, Value | None]:
    """The values, without those that a config leaves to its recipe."""
    return {name: None if name in of_recipe and name not in given else value for name, value in values.items()}


def _same_tokens(before: Mapping[str, Value], after: Mapping[str, Value]) -> list[Sequence[str]]:
    """A different micro-batch with correspondingly more or fewer of them is one change: a step has the same tokens."""
    pair = ("batch_size", "gradient_accumulation_steps")
    first, second = (int(knobs[pair[0]]) * int(knobs[pair[1]]) for knobs in (before, after))
    return [pair] if first == second else []


def _together(groups: list[tuple[str, ...]], wanted: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    for some in wanted:
        inside = [each for each in groups if set(each) & set(some)]
        if len(inside) > 1:
            groups = _merged(groups, inside)
    return groups


def _merged(groups: list[tuple[str, ...]], inside: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    one = tuple(name for each in inside for name in each)
    return [one if each == inside[0] else each for each in groups if each not in inside[1:]]


def _valid(
    groups: list[tuple[str, ...]], before: Mapping[str, Value], after: Mapping[str, Value]
) -> list[tuple[str, ...]]:
    """The players, merged until every combination of them can be trained."""
    while (pair := _at_odds(groups, before, after)) is not None:
        groups = _merged(groups, pair)
    return groups


def _at_odds(
    groups: Sequence[tuple[str, ...]], before: Mapping[str, Value], after: Mapping[str, Value]
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Two players of which one cannot change without the other. Knobs exclude each other in pairs, so it is enough to
    try single changes and all changes but one."""
    for one in groups:
        for rest in ([one], [each for each in groups if each != one]):
            if _trains(rest, before, after):
                continue
            for other in groups:
                flipped = [each for each in rest if each != other] if other in rest else [*rest, other]
                if other != one and _trains(flipped, before, after):
                    first, second = (one, other) if groups.index(one) < groups.index(other) else (other, one)
                    return first, second
            raise ConfigError(
                "the configs in between cannot be trained: {knobs} alone conflicts with the other settings",
                knobs=", ".join(one),
            )
    return None


def _trains(changed: Sequence[tuple[str, ...]], before: Mapping[str, Value], after: Mapping[str, Value]) -> bool:
    knobs = {**before, **{name: after[name] for each in changed for name in each}}
    try:
        TrainConfig(**knobs)  # type: ignore[arg-type]
    except ConfigError:
        return False
    return True


# --- what came of it -------------------------------------------------------------------------------------------------


def conclude(plan: Plan, tried: Sequence[Tried]) -> Ablation:
    """Evaluate the results; every combination must have worked."""
    names = [each.name for each in plan.players]
    speeds = by_setting(tried, lambda outcome: math.log(outcome.tokens_per_second or math.nan))
    speed = shares(names, speeds, plan.orders)
    flops = _flops(names, tried, plan.orders)
    losses = by_setting(tried, lambda outcome: outcome.loss or math.nan) if plan.evaluates else None
    nothing, everything = frozenset[str](), frozenset(names)
    return Ablation(
        players=plan.players,
        speed=tuple(speed),
        flops=flops,
        utilisation=None
        if flops is None
        else tuple(Share(a.player, a.value + b.value, a.error) for a, b in zip(speed, flops, strict=True)),
        loss=None if losses is None else tuple(shares(names, losses, plan.orders, paired=True)),
        tokens_per_second=(math.exp(fmean(speeds[nothing])), math.exp(fmean(speeds[everything]))),
        losses=None if losses is None else (fmean(losses[nothing]), fmean(losses[everything])),
        trials=len(tried),
        sampled=bool(plan.orders),
    )


def _flops(names: Sequence[str], tried: Sequence[Tried], orders: Sequence[Sequence[str]]) -> tuple[Share, ...] | None:
    costs = {each.changed: each.outcome.flops_per_token for each in tried}
    if any(not cost for cost in costs.values()):
        return None
    return tuple(shares(names, {some: [math.log(cost or 1.0)] for some, cost in costs.items()}, orders))
