"""The short runs of an ablation: which settings each of them has, and how they are run one after the other."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nanopace.config import KNOBS
from nanopace.literals import Value
from nanopace.tune.results import keep_result, kept_results
from nanopace.tune.shapley import Players
from nanopace.tune.trial import Outcome, run_trial, settings_of_trial

SEED = 1  # for the order of the trials


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: what is changed relative to A, and the settings that follow."""

    changed: Players
    repeat: int
    settings: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Tried:
    """One trial and its outcome."""

    changed: Players
    repeat: int
    outcome: Outcome


def settings_of_repeat(
    knobs: Mapping[str, Value | None], repeat: int, steps: int, *, evaluates: bool
) -> dict[str, Value]:
    """The settings of a trial; None: left to the recipe. Each repeat has a seed of its own, the same for all changes,
    so that the spread of the losses is that of seeds, and the differences are between equal seeds."""
    given = {name: value for name, value in knobs.items() if value is not None}
    seed = int(given.get("seed", KNOBS["seed"].default)) + repeat
    return settings_of_trial({**given, "seed": seed}, steps, evaluates=evaluates)


def by_setting(tried: Sequence[Tried], value: Callable[[Outcome], float]) -> dict[Players, list[float]]:
    """The values of each setting, by repeat."""
    found: dict[Players, list[float]] = {}
    for each in sorted(tried, key=lambda each: each.repeat):
        found.setdefault(each.changed, []).append(value(each.outcome))
    return found


def plan_text(trials: Sequence[Trial]) -> str:
    """A text that differs between plans, so that their results are never mixed."""
    return json.dumps([{"changed": sorted(each.changed), "settings": dict(each.settings)} for each in trials])


def measure(
    trials: Sequence[Trial], folder: Path, timeout_s: float, tell: Callable[[Tried], None], *, all_needed: bool = True
) -> list[Tried]:
    """Run the missing trials; results are stored in the folder as they come. `tell` is called with each one. If one
    fails, there is no answer and nothing more is run; unless they are not `all_needed`: then only what it changed is
    not run again."""
    done = {(each.changed, each.repeat): each for each in read_results(folder)}
    found: list[Tried] = []
    failed: set[Players] = set()
    for number, trial in enumerate(trials):
        if trial.changed in failed:
            continue
        tried = done.get((trial.changed, trial.repeat))
        if tried is None:
            outcome = run_trial(trial.settings, _free(folder / f"{number:03d}"), timeout_s)
            tried = Tried(trial.changed, trial.repeat, outcome)
            keep_result(folder, sorted(trial.changed), trial.repeat, outcome)
        found.append(tried)
        tell(tried)
        if not tried.outcome.worked:
            failed.add(trial.changed)
            if all_needed or not trial.changed:
                break
    return found


def _free(folder: Path) -> Path:
    """A name that no interrupted trial has taken."""
    count = 0
    while os.path.lexists(folder.with_name(f"{folder.name}-{count}")):
        count += 1
    return folder.with_name(f"{folder.name}-{count}")


def read_results(folder: Path) -> list[Tried]:
    return [Tried(frozenset(changed), repeat, outcome) for changed, repeat, outcome in kept_results(folder)]
