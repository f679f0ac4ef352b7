"""Reads settings that forks of nanoGPT print in their own form, before their first row.

These are a dict on one line or several, argparse's Namespace, a list of `name: value`, and a few lines about the model.
They are parsed with ast and never run. nanoGPT's own header says more: a fork that names some settings does not say
that the others have nanoGPT's defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from nanopace.config import KNOBS
from nanopace.run import FactValue
from nanopace.sources.printed_numbers import to_int

if TYPE_CHECKING:
    import ast

# vocab_size is not one of nanoGPT's knobs, but forks print it with the shape.
_NAMES = frozenset(
    name for name, knob in KNOBS.items() if (knob.nanogpt or knob.part == "shape") and knob.part not in ("call", "site")
)
_OPENING = re.compile(r"\{|(?:Namespace|Config|Args)\(")
_LISTED = re.compile(r"[\s|*>-]{0,12}(\w{1,40})\s{0,30}[:=]\s{0,30}(\S.{0,200}?)\s{0,80}[,|]?$")
_PAIR = re.compile(r"\b(n_layer|n_head|n_embd|vocab_size|block_size)=(\d{1,9})\b")
_FEWEST_LISTED = 3  # names in one head: fewer may mean anything
_MOST_LINES, _LONGEST_DICT = 300, 20_000  # lines and characters of a dict
_MOST_BRACES = 100  # in a dict: on some Python versions, f-strings take quadratic time
_DEVICES = ("cuda", "cpu", "mps")


def _folder(text: str) -> str:
    """nanoGPT names a dataset by its directory."""
    return text.rstrip("/\\").replace("\\", "/").rpartition("/")[2]


# Lines with a single setting.
_PLAIN: tuple[tuple[re.Pattern[str], str, Callable[[str], FactValue]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), name, read)
    for pattern, name, read in (
        (r"^\W{0,4}vocab(?:ulary)?[ _]size\s*[:=]\s*(\d[\d,]{0,11})\s*$", "vocab_size", to_int),
        (r"^\W{0,4}(?:model|total|trainable) param(?:eter)?s\s*[:=]\s*(\d[\d,]{3,20})\s*$", "parameters", to_int),
        (r"^\W{0,4}dataset\s*[:=]\s*(\S{1,200})\s*$", "dataset", _folder),
        (r"training loop for (\d[\d,]{0,11}) iterations", "max_iters", to_int),
        (r"^\W{0,4}max(?:imum)?[ _]iter(?:ation)?s\s*[:=]\s*(\d[\d,]{0,11})\s*$", "max_iters", to_int),
        (r"\bworld[ _]size\W{1,3}(\d{1,5})\b", "gpu_count", to_int),
        (r"^\W{0,4}(?:using )?device\s*[:=]\s*(cuda|cpu|mps)(?::\d{1,2})?\s*$", "device", str),
    )
)


class Settings:
    """Takes the lines of a head one by one."""

    def __init__(self) -> None:
        self._open: list[str] = []  # lines of a dict that is not closed yet
        self._depth = 0  # nesting depth of its brackets
        self._listed: dict[str, FactValue] = {}

    def read(self, line: str) -> dict[str, FactValue]:
        """The settings that this line completes."""
        if self._open:
            return self._read_dict(line)
        if (opening := _OPENING.search(line)) is not None:
            return self._read_dict(line[opening.start() :])
        if (listed := _LISTED.match(line)) is not None and listed[1] in _NAMES:
            return self._list(listed[1], listed[2])
        pairs = _PAIR.findall(line)
        if len(pairs) > 1:
            return {name: int(value) for name, value in pairs}
        return _plain(line)

    def _list(self, name: str, written: str) -> dict[str, FactValue]:
        from nanopace.config_text import read_override
        from nanopace.errors import UsageError

        with suppress(UsageError):
            _, value = read_override(f"{name}={written.partition(' #')[0].strip()}")
            if name != "device" or str(value).startswith(_DEVICES):
                self._listed[name] = _folder(str(value)) if name == "dataset" else value
        return dict(self._listed) if len(self._listed) >= _FEWEST_LISTED else _plain(f"{name}: {written}")

    def _read_dict(self, line: str) -> dict[str, FactValue]:
        self._open.append(line)
        self._depth += sum(map(line.count, "{[(")) - sum(map(line.count, "}])"))
        if self._depth > 0 and len(self._open) <= _MOST_LINES:
            return {}
        text, closed = "\n".join(self._open), self._depth <= 0
        self._open, self._depth = [], 0
        small = len(text) <= _LONGEST_DICT and text.count("{") <= _MOST_BRACES
        return dict(_pairs_of(text)) if closed and small else {}


def _plain(line: str) -> dict[str, FactValue]:
    return {name: read(found[1]) for pattern, name, read in _PLAIN if (found := pattern.search(line))}


def _pairs_of(text: str) -> Iterator[tuple[str, FactValue]]:
    """The settings in a dict or a call with keywords, up to its end; none if it is not Python."""
    import ast

    from nanopace.literals import NotLiteralError, evaluate

    try:
        tree = ast.parse(text[: max(map(text.rfind, "})")) + 1], mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for name, node in _named(tree.body):
        if name not in _NAMES:
            continue
        with suppress(NotLiteralError):
            value = evaluate(node, {"true": True, "false": False, "null": None})
            fitted = KNOBS[name].fitted(value) if isinstance(value, (bool, int, float, str)) else None
            if fitted is not None:
                yield name, fitted


def _named(node: ast.expr, depth: int = 0) -> Iterator[tuple[str, ast.expr]]:
    """The names and values of a dict, including nested ones."""
    import ast

    pairs: list[tuple[str, ast.expr]] = []
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                pairs.append((key.value, value))
    elif isinstance(node, ast.Call):
        pairs = [(each.arg, each.value) for each in node.keywords if each.arg is not None]
    for name, value in pairs:
        yield name, value
        if depth < 4 and isinstance(value, (ast.Dict, ast.Call)):
            yield from _named(value, depth + 1)
