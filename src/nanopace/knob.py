"""One setting of a config: what it affects, and which values it takes. config.py lists all knobs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from nanopace.literals import Value

Effect = Literal["speed", "loss", "bookkeeping"]
Part = Literal["call", "run", "shape", "recipe", "training", "machine", "site"]

_LARGEST_INT = 1 << 63  # the range of integers in torch, numpy and a ledger


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob: its default and the reason for it, the values it takes, and what it affects.

    `effect` is what it can change: the time of a step (and perhaps the loss), the loss alone, or neither. Evaluations
    and checkpoints happen between steps, so their frequency is bookkeeping.

    `part` is what it belongs to, which decides what happens to it when a run is resumed:

    - call: what this one command does; never inherited
    - run: how a run is evaluated, saved and seeded; inherited
    - shape, recipe: fixed by the weights; cannot change
    - training: batch, schedule and optimizer. Setting one of these, or of the shape, asks for a particular training
    - machine: inherited only on the same kind of machine
    - site: how to reach processes and services from here
    """

    name: str
    default: Value
    why: str
    part: Part = "call"
    effect: Effect = "bookkeeping"
    nanogpt: bool = True  # whether nanoGPT has it
    least: int | None = None
    below: float = math.inf
    choices: tuple[str, ...] = ()
    may_be_empty: bool = True

    @property
    def asks_for_a_training(self) -> bool:
        """Whether setting it asks for a particular training. Others say where to run, on what, and how to report."""
        return self.part in ("shape", "training")

    @property
    def kind(self) -> str:
        """The allowed values, as a formula that reads the same in every language."""
        if isinstance(self.default, bool):
            return "True/False"
        kind = type(self.default).__name__
        if self.least is None:
            return kind if self.may_be_empty else f"{kind} != ''"
        return f"{kind} >= {self.least}" if self.below == math.inf else f"{kind} >= {self.least}, < {self.below:g}"

    def fitted(self, value: Value) -> Value | None:
        """The value converted to this knob's type, or None if it does not fit: 6e5 is an integer, True is not."""
        wanted = type(self.default)
        if wanted is float and type(value) is int:
            value = float(value) if abs(value) < _LARGEST_INT else math.inf
        elif wanted is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not wanted:
            return None
        if isinstance(value, str):  # file names cannot contain a zero byte
            return None if "\0" in value or not (self.may_be_empty or value.strip()) else value
        if self.least is not None:
            return value if self.least <= value < self.below and (wanted is float or value < _LARGEST_INT) else None
        return value

    def refuses(self, value: object) -> bool:
        """Whether a value of the right type is not one of its choices."""
        return bool(self.choices) and value not in self.choices
