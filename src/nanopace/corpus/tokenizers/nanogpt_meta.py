"""nanoGPT's meta.pkl, where the vocabulary is the corpus' own.

A pickle is a program that the one who opens it runs. Here it is not run: its instructions are read one by one, and the
few that build a dict of strings and integers are followed. The first other one is refused.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nanopace.errors import InputError
from nanopace.files import read_bounded

META_FILE: Final = "meta.pkl"
_LARGEST_META = 1 << 24  # bytes: an alphabet of all of Unicode takes a quarter of that
_MOST_ENTRIES = 1 << 32  # as many as the largest tokens can name


@dataclass(frozen=True, slots=True)
class Meta:
    """What a meta.pkl says."""

    vocab_size: int | None
    alphabet: tuple[str, ...] | None  # in the order of the ids; None where the entries are not characters


def read_meta(path: Path) -> Meta:
    """The vocabulary in a meta.pkl, without unpickling it."""
    try:
        data = read_bounded(path, _LARGEST_META)
    except OSError as error:
        raise InputError("{path}: cannot be read: {reason}", path=path, reason=error.strerror or str(error)) from None
    if data is None:
        raise InputError("{path}: is too large for a vocabulary", path=path)
    try:
        content = plain_dict(data)
    except ValueError as reason:
        raise InputError(
            "{path}: only a dict of strings and integers is read, and nothing is executed: {reason}",
            path=path,
            reason=str(reason),
        ) from None
    vocab_size = content.get("vocab_size")
    known = isinstance(vocab_size, int) and 0 < vocab_size <= _MOST_ENTRIES
    return Meta(vocab_size if known else None, _alphabet(content))


def _alphabet(content: Mapping[Any, Any]) -> tuple[str, ...] | None:
    """The characters by id, if the entries are characters and their ids leave no gap."""
    ids = content.get("stoi")
    if not isinstance(ids, dict) or not ids:
        return None
    if not all(isinstance(entry, str) and len(entry) == 1 and isinstance(number, int) for entry, number in ids.items()):
        return None
    alphabet = sorted(ids, key=ids.__getitem__)
    return tuple(alphabet) if [ids[entry] for entry in alphabet] == list(range(len(ids))) else None


_MARK: Final = object()
_NOTHING = frozenset(("PROTO", "FRAME"))
_INTEGERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4")
_STRINGS = ("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8")
_SCALARS = frozenset((*_INTEGERS, *_STRINGS))
_MOST_STEPS = 8_000_000  # of which all of Unicode, there and back, takes six million
_MOST_REMEMBERED = 1_200_000  # each of its characters once
_DEEPEST_STACK = 1 << 14  # pickle adds to a dict by the thousand
_REMEMBER = frozenset(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"))
_RECALL = frozenset(("GET", "BINGET", "LONG_BINGET"))


def plain_dict(data: bytes) -> dict[str | int, Any]:
    """The dict of strings, integers and such dicts that a pickle builds. ValueError if it builds anything else."""
    machine = _Machine()
    for steps, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        machine.follow(opcode.name, argument)
        if steps > _MOST_STEPS or len(machine.stack) > _DEEPEST_STACK or len(machine.memo) > _MOST_REMEMBERED:
            raise ValueError("too large")
    if len(machine.stack) != 1 or not isinstance(machine.stack[0], dict):
        raise ValueError("not one dict")
    return machine.stack[0]


class _Machine:
    """The part of pickle's stack machine that builds dicts."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self._builders: Mapping[str, Callable[[], None]] = {
            "EMPTY_DICT": lambda: self.stack.append({}),
            "MARK": lambda: self.stack.append(_MARK),
            "DICT": lambda: self.stack.append(_paired(self._since_mark(), {})),
            "SETITEM": self._set_item,
            "SETITEMS": self._set_items,
            "STOP": lambda: None,
        }

    def follow(self, name: str, argument: Any) -> None:
        if name in _NOTHING:
            return
        if name in _SCALARS:
            self.stack.append(_scalar(argument))
        elif name in _REMEMBER:
            self.memo[len(self.memo) if name == "MEMOIZE" else argument] = self._top()
        elif name in _RECALL:
            self.stack.append(_scalar(self.memo.get(argument)))  # a dict that is in two places is no plain dict
        elif name in self._builders:
            self._builders[name]()
        else:
            raise ValueError(name)

    def _top(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise ValueError("cut")
        return self.stack[-1]

    def _set_item(self) -> None:
        items = self.stack[-2:]
        del self.stack[-2:]
        _paired(items, self._top())

    def _set_items(self) -> None:
        items = self._since_mark()
        _paired(items, self._top())

    def _since_mark(self) -> list[Any]:
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                items = self.stack[place + 1 :]
                del self.stack[place:]
                return items
        raise ValueError("cut")


def _scalar(value: Any) -> str | int:
    if type(value) is not str and type(value) is not int:
        raise ValueError(type(value).__name__)
    return value


def _paired(items: list[Any], into: Any) -> dict[Any, Any]:
    """Keys and values in turn, put into a dict."""
    if len(items) % 2 or not isinstance(into, dict) or any(item is _MARK for item in items):
        raise ValueError("cut")
    for key, value in zip(items[::2], items[1::2], strict=True):
        into[_scalar(key)] = value
    return into
