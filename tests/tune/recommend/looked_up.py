"""What a recommendation says, by name."""

from __future__ import annotations

from nanopace.tune.recommend.notes import notes
from nanopace.tune.recommend.recommend import Recommendation


def knob(found: Recommendation, name: str) -> object:
    return next(choice.value for choice in found.knobs if choice.knob == name)


def codes(found: Recommendation) -> list[str]:
    return [code for code, _ in notes(found)]
