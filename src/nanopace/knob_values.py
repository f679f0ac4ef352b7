"""Parses the values of the knobs memory, memory_limit, without and which."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from nanopace.errors import ConfigError
from nanopace.literals import shown
from nanopace.memory_ladder import HOST_STEPS, MEMORY_STEPS, taken

# What each recipe adds to GPT-2. `without` can leave out any of these; train/models/recipes.py explains them.
INGREDIENTS: Mapping[str, tuple[str, ...]] = {
    "gpt2": (),
    "fast": (
        *("muon", "normuon", "trapezoid"),
        *("rope", "qk_norm", "relu2", "soft_cap", "value_embeddings", "key_shift", "xsa"),
    ),
}


def left_out(recipe: str, written: str) -> tuple[str, ...]:
    """The ingredients that `without` names, in the recipe's order."""
    known = INGREDIENTS[recipe]
    names = {name.strip() for name in written.split(",")} - {""}
    if names and not known:
        raise ConfigError(
            "without={value}: recipe={recipe} has nothing to leave out", value=shown(written), recipe=recipe
        )
    for name in sorted(names - set(known)):
        raise ConfigError(
            "without must name ingredients of recipe={recipe} ({known}), not {value}",
            recipe=recipe,
            value=shown(name),
            known=", ".join(known),
        )
    return tuple(name for name in known if name in names)


@cache
def ingredients(recipe: str, without: str) -> frozenset[str]:
    """The ingredients of a recipe. Cached, because every step calls this."""
    return frozenset(INGREDIENTS[recipe]) - set(left_out(recipe, without))


def listed(recipe: str, without: str) -> list[str]:
    """The ingredients in the recipe's order, for files."""
    return [name for name in INGREDIENTS[recipe] if name in ingredients(recipe, without)]


def memory_steps(written: str) -> tuple[str, ...] | None:
    """The steps that the knob memory names, in ladder order; () for '', None for auto."""
    if written == "auto":
        return None
    named = {each.strip() for each in written.split(",")} - {""}
    known = (*MEMORY_STEPS, *HOST_STEPS)
    if not named <= set(known):
        raise ConfigError(
            "memory must be auto or any of {known}, not {value}", known=", ".join(known), value=shown(written)
        )
    return tuple(step.name for step in taken(named | {each for step in taken(named) for each in step.needs}))


_BYTES = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def memory_bytes(written: str) -> int | None:
    """An amount of memory such as 12GiB, in bytes; None for an empty text."""
    if not written:
        return None
    found = re.fullmatch(r"([0-9]{1,7}(?:\.[0-9]{1,3})?) ?([MGT]i?B)", written)
    if found is None or not float(found[1]):
        raise ConfigError("memory_limit must be an amount such as 12GiB or 12288MiB, not {value}", value=shown(written))
    return int(float(found[1]) * _BYTES[found[2]])


def step_of_which(written: str) -> int | None:
    """The step number given for the knob which; None for best, last or an empty text."""
    if written in ("", "best", "last"):
        return None
    if not re.fullmatch(r"[0-9]{1,18}", written):
        raise ConfigError("--which must be best, last or a step such as 150, not {value}", value=shown(written))
    return int(written)
