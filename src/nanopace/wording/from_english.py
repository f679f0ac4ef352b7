"""What a ledger says in English, said in another language.

The trainer writes reasons and notes into its ledger in English, made from templates of the catalogue (errors.Message).
Here the template is found again, and its values with it. What fits none stays as it is: another version may have
written it, or somebody else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from nanopace.errors import Message

_PLACEHOLDER = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
_LONGEST = 500  # characters: a ledger may be hostile, and no note of ours is longer
_TELLING = 12  # characters that a text has to share with a template; fewer are a coincidence
_TEXTS = ("reason", "error")  # values that are messages themselves
_LISTS = ("others", "faster", "slower")  # values that are several
_MOST_PARTS = 3


class _Template(NamedTuple):
    msgid: str
    literals: tuple[str, ...]  # before, between and behind the values
    names: tuple[str, ...]
    numeric: tuple[bool, ...]
    shared: int  # characters that its texts have in common
    wraps: bool  # says something about another message, which comes first


class Reader:
    """Finds the message that a text was made from."""

    def __init__(self, msgids: Iterable[object]) -> None:
        found = [_parsed(each) for each in msgids if isinstance(each, str)]
        self._templates = sorted(
            (each for each in found if each is not None), key=lambda each: (not each.wraps, -each.shared)
        )
        self._whole = {each.msgid for each in self._templates if not each.names and each.shared >= _TELLING}

    def message(self, text: str, telling: int = _TELLING, values_before: int = 2) -> Message | None:
        """None where no template fits. Of several, the one that has most of the text in it."""
        if len(text) > _LONGEST:
            return None
        for template in self._templates:
            values = None if template.shared < telling else _values(text, template)
            if values is not None:
                return Message(template.msgid, **{name: self._inner(name, each) for name, each in values.items()})
        value, colon, reason = text.partition(": ")  # as in "eager: nothing is compiled"
        inner = self.message(reason, telling, values_before - 1) if colon and values_before else None
        return None if inner is None else Message.joined(": ", (value, inner))

    def _inner(self, name: str, value: object) -> object:
        if not isinstance(value, str):
            return value
        if name in _TEXTS:
            return self.message(value) or value
        if name in _LISTS and len(parts := value.split(", ")) <= _MOST_PARTS:
            return Message.joined(", ", (self.message(each, 1, 0) or each for each in parts))
        return Message(value) if value in self._whole else value


def _parsed(msgid: str) -> _Template | None:
    parts = _PLACEHOLDER.split(msgid)
    literals, names, specs = parts[::3], parts[1::3], parts[2::3]
    if not all(literals[1:-1]) or "{" in "".join(literals):
        return None  # which value ends where could not be told
    numeric = tuple(bool({",", "."} & {*(spec or "")}) for spec in specs)
    shared = sum(len(each.replace(" ", "")) for each in literals)
    wraps = bool(names) and not literals[0] and names[0] in _TEXTS
    return _Template(msgid, tuple(literals), tuple(names), numeric, shared, wraps)


def _values(text: str, template: _Template) -> Mapping[str, object] | None:
    first, *others = template.literals
    if not others:
        return {} if text == first else None
    if not text.startswith(first) or not text.endswith(others[-1]):
        return None
    written = _between(text[len(first) : len(text) - len(others[-1])], others[:-1])
    if written is None:
        return None
    values: dict[str, object] = {}
    seen: dict[str, str] = {}
    for name, numeric, each in zip(template.names, template.numeric, written, strict=True):
        number = _number(each) if numeric else each
        if not each or number is None or seen.setdefault(name, each) != each:
            return None
        values[name] = number
    return values


def _between(text: str, literals: Sequence[str]) -> list[str] | None:
    found = []
    for literal in literals:
        value, there, text = text.partition(literal)
        if not there:
            return None
        found.append(value)
    return [*found, text]


def _number(written: str) -> int | float | None:
    plain = written.replace(",", "")
    if not re.fullmatch(r"-?([0-9]+(\.[0-9]+)?|inf|nan)", plain):
        return None
    return int(plain) if plain.lstrip("-").isdigit() else float(plain)
