"""Everything that can go wrong for a person, as one tree.

    NanopaceError            one line for the terminal, exit code 2
    ├── UsageError           a flag or an argument: names the flag
    ├── InputError           a file: names the file, and the line where there is one
    │   ├── NotALog          the file was read, and no training log is in it
    │   └── ConfigError      a config file or an override that is not literals
    ├── OutputError          an answer that nobody got
    └── CardError            a graphics card
        ├── UnknownCard      no card of that name is in the table
        └── AmbiguousCard    several cards share that name

A message is a template and its values, so that `wording` can say it in another language:

    raise InputError("{path}: permission denied", path=path)

A broken invariant is an `assert`, never one of these.

What the trainer reports while it runs is made in the same way: a `Message` is a str, in English, that can be said in
another language.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self


class Message(str):
    """A text for a person, in English: `template` with the values that it names. The ledger has it like this."""

    __slots__ = ("template", "values")
    template: str
    values: dict[str, object]

    def __new__(cls, template: str, /, **values: object) -> Self:
        made = super().__new__(cls, template.format(**values))
        made.template, made.values = template, values
        return made

    @classmethod
    def joined(cls, separator: str, parts: Iterable[str]) -> Self:
        """One of several, each in its own words."""
        values = {f"part{number}": part for number, part in enumerate(parts)}
        return cls(separator.join(f"{{{name}}}" for name in values), **values)

    def __getnewargs_ex__(self) -> Any:
        """For pickle: ranks send it to each other."""
        return (self.template,), self.values


class NanopaceError(Exception):
    """A message for a person: `template` in English, and the values that it names."""

    def __init__(self, template: str, **values: object) -> None:
        self.template = template
        self.values = values
        super().__init__(template.format(**values))

    def as_message(self) -> Message:
        """The same as something to report, where it ends nothing."""
        return Message(self.template, **self.values)


class UsageError(NanopaceError):
    """A flag or an argument that cannot be used."""


class InputError(NanopaceError):
    """A file that cannot be used."""


class NotALog(InputError):
    """A file that was read and holds no training log."""


class ConfigError(InputError):
    """A config file or an override that is more than names and literals."""


class OutputError(NanopaceError):
    """An answer that could not be printed."""


class CardError(NanopaceError):
    """A graphics card that cannot be identified."""


class UnknownCard(CardError):
    """No card of that name is in the table."""


class AmbiguousCard(CardError):
    """Several cards share that name."""


def reason_of(error: Exception) -> str:
    """What the system says is wrong, without the number and the path that Python puts around it."""
    return getattr(error, "strerror", None) or str(error)


def unreadable(path: object, error: Exception) -> InputError:
    """The error for a file that the system does not let us read."""
    return InputError("{path}: cannot be read: {reason}", path=path, reason=reason_of(error))
