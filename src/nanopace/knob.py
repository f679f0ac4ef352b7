"""A knob of a config: what it is about, and which values it takes. All of them are in config.py."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from nanopace.literals import Value

Effect = Literal["speed", "loss", "bookkeeping"]
Part = Literal["call", "run", "shape", "recipe", "training", "machine", "site"]

_LARGEST_INT = 1 << 63  # what torch, numpy and a ledger can count to


@dataclass(frozen=True, slots=True)
class Knob:
    """One knob: its default and why it has it, which values it takes, and what it is about.

    `effect` is what it can change: the time of a step (and the loss, perhaps), the loss alone, or neither. Evaluations
    and checkpoints take time beside the steps, not in them, so how often they come is bookkeeping.

    `part` is what it belongs to, and so what becomes of it in a run that goes on:

    - call: what this one command shall do; never taken over
    - run: how a run is evaluated, saved and seeded; taken over
    - shape, recipe: fixed by the weights; cannot change
    - training: batch, schedule and optimizer. Who gives one of these, or of the shape, has a certain training in mind
    - machine: taken over by the same kind of machine only
    - site: how processes and services are reached from here
    """

    name: str
    default: Value
    why: str
    part: Part = "call"
    effect: Effect = "bookkeeping"
    nanogpt: bool = True  # whether nanoGPT knows it
    least: int | None = None
    below: float = math.inf
    choices: tuple[str, ...] = ()
    may_be_empty: bool = True

    @property
    def asks_for_a_training(self) -> bool:
        """Whether giving it means a certain training. The other knobs say where, on what, and how it is reported."""
        return self.part in ("shape", "training")

    @property
    def kind(self) -> str:
        """What a value has to be, as a formula that is read alike in every language."""
        if isinstance(self.default, bool):
            return "True/False"
        kind = type(self.default).__name__
        if self.least is None:
            return kind if self.may_be_empty else f"{kind} != ''"
        return f"{kind} >= {self.least}" if self.below == math.inf else f"{kind} >= {self.least}, < {self.below:g}"

    def fitted(self, value: Value) -> Value | None:
        """The value as this knob's type, or None if it cannot be one: 6e5 is a whole number, True is none."""
        wanted = type(self.default)
        if wanted is float and type(value) is int:
            value = float(value) if abs(value) < _LARGEST_INT else math.inf
        elif wanted is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not wanted:
            return None
        if isinstance(value, str):  # a zero byte can be in no name of a file
            return None if "\0" in value or not (self.may_be_empty or value.strip()) else value
        if self.least is not None:
            return value if self.least <= value < self.below and (wanted is float or value < _LARGEST_INT) else None
        return value

    def refuses(self, value: object) -> bool:
        """Whether a value of the right type is none of its choices."""
        return bool(self.choices) and value not in self.choices
