"""Reads what comes before the rows of a process: the card, and a fork's settings."""

from __future__ import annotations

from nanopace.sources.build import RunBuilder
from nanopace.sources.head.card_lines import card_of
from nanopace.sources.head.fork_settings import Settings

_CARD_WORDS = ("NVIDIA", "Tesla", "Quadro", "GeForce", "AMD", "Radeon", "Instinct", "TITAN", "GPU", "gpu", "evice")


class Head:
    """Passes facts to a RunBuilder."""

    def __init__(self, builder: RunBuilder) -> None:
        self._builder = builder
        self._settings = Settings()
        self._cards: set[str] = set()

    def feed(self, line: str, *, settings: bool) -> bool:
        """Read a line that is not nanoGPT's. `settings`: it is not inside a config that nanoGPT echoes."""
        card = card_of(line) if any(word in line for word in _CARD_WORDS) else None
        if card is not None:
            self._cards.add(card)
            if len(self._cards) == 1:
                self._builder.fact("gpu", card)
            else:  # nothing shows which of them trained
                self._builder.drop_fact("gpu")
        found = self._settings.read(line) if settings else {}
        for name, value in found.items():
            self._builder.fact(name, value)
        if found:
            self._builder.fact("fork_settings", True)
        return card is not None or bool(found)
