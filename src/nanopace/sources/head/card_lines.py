"""Finds the card in a log's head: from nvidia-smi, torch's name for it, or a warning that names it."""

from __future__ import annotations

import re

from nanopace.errors import AmbiguousCard, UnknownCard

_MAKERS = re.compile(r"(?<![\w-])(?:NVIDIA|Tesla|Quadro|GeForce|AMD|Radeon|Instinct|TITAN)\s")
# Places that certainly contain a name. nvidia-smi shortens a long one with dots.
_TABLE = re.compile(r"\|\s{1,6}\d{1,3}\s{1,4}(\S.{1,40}?)\s{0,2}(\.\.\.)?\s{1,40}(?:On|Off|N/A|WDDM|TCC)\s{1,4}\|")
_LISTED = re.compile(r"^GPU \d{1,3}: (\S.{1,60}?) \(UUID")
_WARNED = re.compile(r"(?:^|[:\s])((?:NVIDIA|Tesla|Quadro|GeForce) \S.{0,50}?) does not support (?:bfloat16|bf16)")
_LABELLED = re.compile(
    r"(?i:\b(?:gpu|device|device name|cuda device|gpu name|card))\s{0,3}(?:\d{1,2}\s{0,3})?[:=]\s{0,3}"
    r"(?:cuda(?::\d{1,2})?\s{0,3}[(,|-]\s{0,2})?([A-Za-z][\w -]{1,60})"
)


def card_of(line: str) -> str | None:
    """The card that a line names; None if it does not name one with certainty."""
    if found := _TABLE.search(line):
        return _cut(found[1]) if found[2] else _in_table(found[1]) or found[1]
    if found := _LISTED.search(line) or _WARNED.search(line):
        return _in_table(found[1]) or found[1]
    if "#" in line:
        return None
    if (maker := _MAKERS.search(line)) is not None:
        return _in_table(line[maker.start() :])
    if (labelled := _LABELLED.search(line)) is not None:
        return _known(labelled[1].strip())
    return None


def _cut(name: str) -> str | None:
    """For a shortened name: the only card that begins like this, or the beginning if that is not a name itself."""
    from nanopace.hardware.cards import all_cards

    like = {card.name for card in all_cards() if card.name.lower().startswith(name.lower())}
    if len(like) == 1 and name not in like:
        return like.pop()
    return None if _in_table(name) or not any(map(str.isdigit, name)) else name


def _in_table(text: str) -> str | None:
    """The longest card name that the text begins with."""
    from nanopace.hardware.cards import all_cards

    text = text.lower()
    names = {card.name for card in all_cards()}
    spelled = ((name, each) for name in names for each in (name.lower(), name.lower().removeprefix("nvidia ")))
    found = [
        (len(each), name)
        for name, each in spelled
        if text.startswith(each) and not text[len(each) : len(each) + 1].isalnum()
    ]
    return max(found)[1] if found else None


def _known(name: str) -> str | None:
    """The name, if it is a card's. Other words, such as cuda or auto, are excluded before the table is searched."""
    from nanopace.hardware.cards import find_card

    if not any(map(str.isdigit, name)):
        return None
    try:
        return find_card(name).name
    except AmbiguousCard:
        return name
    except UnknownCard:
        return None
