"""All errors that users see, as one tree.

    NanopaceError            one line for the terminal, exit code 2
    ├── UsageError           a flag or an argument: names the flag
    ├── InputError           a file: names the file, and the line if there is one
    │   ├── NotALog          the file was read, but contains no training log
    │   └── ConfigError      a config file or an override with more than literals
    ├── OutputError          output that could not be printed
    └── CardError            a graphics card
        ├── UnknownCard      no card of that name is in the table
        └── AmbiguousCard    several cards share that name

A message consists of a template and values, so that `wording` can translate it:

    raise InputError("{path}: permission denied", path=path)

A broken invariant is an `assert`, never one of these.

The trainer's messages work the same way: a `Message` is an English str that can be translated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self


class Message(str):
    """A text for users, in English, with its `template` and values. The ledger stores the English text."""

    __slots__ = ("template", "values")
    template: str
    values: dict[str, object]

    def __new__(cls, template: str, /, **values: object) -> Self:
        made = super().__new__(cls, template.format(**values))
        made.template, made.values = template, values
        return made

    @classmethod
    def joined(cls, separator: str, parts: Iterable[str]) -> Self:
        """Join several messages. Each can still be translated by itself."""
        values = {f"part{number}": part for number, part in enumerate(parts)}
        return cls(separator.join(f"{{{name}}}" for name in values), **values)

    def __getnewargs_ex__(self) -> Any:
        """For pickle: ranks send messages to each other."""
        return (self.template,), self.values


class NanopaceError(Exception):
    """An error message for users: an English `template` and the values it names."""

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
    """A file that was read but contains no training log."""


class ConfigError(InputError):
    """A config file or an override with more than names and literals."""


class OutputError(NanopaceError):
    """Output that could not be printed."""


class CardError(NanopaceError):
    """A graphics card that cannot be identified."""


class UnknownCard(CardError):
    """No card of that name is in the table."""


class AmbiguousCard(CardError):
    """Several cards share that name."""


def reason_of(error: Exception) -> str:
    """The reason the system gives, without the error number and path that Python adds."""
    return getattr(error, "strerror", None) or str(error)


def unreadable(path: object, error: Exception) -> InputError:
    """The error for a file that the system cannot read."""
    return InputError("{path}: cannot be read: {reason}", path=path, reason=reason_of(error))


def unwritable(path: object, error: Exception) -> InputError:
    """The same for one that the system cannot write."""
    return InputError("{path}: cannot be written: {reason}", path=path, reason=reason_of(error))
