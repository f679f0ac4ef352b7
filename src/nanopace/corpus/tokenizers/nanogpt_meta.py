"""Reads nanoGPT's meta.pkl, which holds the vocabulary if the corpus has its own.

A pickle is a program that runs when it is opened. Here, only what builds a dict of strings and integers runs. The
instructions are read first, and any other one is refused, as is any class.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from nanopace.errors import InputError, Message, unreadable
from nanopace.files import read_bounded

META_FILE: Final = "meta.pkl"
_LARGEST_META = 1 << 24  # bytes: an alphabet of all of Unicode takes a quarter of that
_MOST_ENTRIES = 1 << 32  # as many as the widest tokens can number


@dataclass(frozen=True, slots=True)
class Meta:
    """The contents of a meta.pkl."""

    vocab_size: int | None
    alphabet: tuple[str, ...] | None  # in the order of the ids; None if the entries are not characters


def read_meta(path: Path) -> Meta:
    """Read the vocabulary in a meta.pkl."""
    try:
        data = read_bounded(path, _LARGEST_META)
    except OSError as error:
        raise unreadable(path, error) from None
    if data is None:
        raise InputError("{path}: is too large for a vocabulary", path=path)
    try:
        content = plain_dict(data)
    except ValueError as reason:
        raise InputError(
            "{path}: only a dict of strings and integers is read; nothing is executed: {reason}",
            path=path,
            reason=reason.args[0] if reason.args else "",
        ) from None
    vocab_size = content.get("vocab_size")
    known = isinstance(vocab_size, int) and 0 < vocab_size <= _MOST_ENTRIES
    return Meta(vocab_size if known else None, _alphabet(content))


def _alphabet(content: Mapping[Any, Any]) -> tuple[str, ...] | None:
    """The characters by id, if all entries are characters and their ids have no gaps."""
    ids = content.get("stoi")
    if not isinstance(ids, dict) or not ids:
        return None
    if not all(isinstance(entry, str) and len(entry) == 1 and isinstance(number, int) for entry, number in ids.items()):
        return None
    alphabet = sorted(ids, key=ids.__getitem__)
    return tuple(alphabet) if [ids[entry] for entry in alphabet] == list(range(len(ids))) else None


_INTEGERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4")
_STRINGS = ("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8")
_PUSH = frozenset(("EMPTY_DICT", *_INTEGERS, *_STRINGS, "GET", "BINGET", "LONG_BINGET"))
_REMEMBER = frozenset(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"))
_MOST_STEPS = 8_000_000  # all of Unicode, in both directions, takes six million
_MOST_REMEMBERED = 1_200_000  # each of its characters once
_DEEPEST_STACK = 1 << 14  # pickle adds items to a dict in batches of a thousand


def plain_dict(data: bytes) -> dict[str | int, Any]:
    """The dict that a pickle builds from strings, integers and such dicts. ValueError if it builds anything else."""
    _check_instructions(data)
    try:
        content = _NoClasses(io.BytesIO(data)).load()
    except Exception as error:  # an unpickler may raise anything if an instruction does not fit
        raise ValueError(type(error).__name__) from None
    _check_plain(content)
    return content  # type: ignore[no-any-return]


class _NoClasses(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        raise ValueError(f"{module_name}.{global_name}")


def _check_instructions(data: bytes) -> None:
    """Allow only instructions that build dicts, and no more than an alphabet needs: an unpickler has no limits."""
    depth = remembered = 0
    marks: list[int] = []
    for steps, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        name = opcode.name
        if name in _PUSH:
            depth += 1
        elif name in _REMEMBER:
            remembered = max(remembered + 1, argument or 0)
        elif name == "MARK":
            marks.append(depth)
        elif name == "SETITEM":
            depth -= 2
        elif name in ("SETITEMS", "DICT") and marks:
            depth = marks.pop() + (name == "DICT")
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise ValueError(name)
        if steps > _MOST_STEPS or depth + len(marks) > _DEEPEST_STACK or remembered > _MOST_REMEMBERED:
            raise ValueError(Message("it is too large"))
    if depth != 1 or marks:
        raise ValueError(Message("it is not one dict"))


def _check_plain(content: Any) -> None:
    """Allow only dicts of strings, integers and such dicts, none of them used twice."""
    left, known = [content], set[int]()
    while left:
        found = left.pop()
        if type(found) is dict and id(found) not in known:
            known.add(id(found))
            if not all(type(key) in (str, int) for key in found):
                raise ValueError(Message("it has a key that is neither a string nor an integer"))
            left += [value for value in found.values() if type(value) not in (str, int)]
        else:
            raise ValueError(type(found).__name__)
