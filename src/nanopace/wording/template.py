"""The building blocks of the sentence tables. The collector of catalogues recognises `label`, `say` and `say_n` as
keywords."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_PLACEHOLDER = re.compile(r"\{(\w+)(?::[^{}]*)?\}")


def label(msgid: str) -> str:
    """Mark a text that is translated where it is used."""
    return msgid


def placeholders(text: str) -> frozenset[str]:
    """The names of the values that a template needs."""
    return frozenset(_PLACEHOLDER.findall(text))


class Template(NamedTuple):
    """One wording; with `many`, its form depends on the value named `counted`."""

    one: str
    many: str | None = None
    counted: str | None = None

    @property
    def needs(self) -> frozenset[str]:
        """The values that this wording needs."""
        return placeholders(self.many or self.one)


class Sentence(NamedTuple):
    """Alternative wordings, most specific first: the first one whose values are all known is used."""

    templates: tuple[Template, ...]

    def choose(self, values: Mapping[str, object]) -> Template:
        known = {name for name, value in values.items() if value is not None}
        return next((template for template in self.templates if template.needs <= known), self.templates[-1])

    def __or__(self, other: Sentence) -> Sentence:
        return Sentence(self.templates + other.templates)


def say(text: str) -> Sentence:
    """A sentence with one form."""
    return Sentence((Template(text),))


def say_n(one: str, many: str, *, count: str) -> Sentence:
    """A sentence whose form depends on the value named `count`."""
    return Sentence((Template(one, many, count),))
