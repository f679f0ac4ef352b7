"""Parses knobs as people write them: nanoGPT's config files (through config_program) and flags."""

from __future__ import annotations

import ast
import errno
import os
import re
import stat
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nanopace.config import KNOBS
from nanopace.config_program import Program
from nanopace.errors import ConfigError, Message, UsageError, reason_of
from nanopace.knob import Knob
from nanopace.literals import NotLiteralError, Value, evaluate, shown
from nanopace.spelling import nearest

if TYPE_CHECKING:
    from pathlib import Path  # 5 ms, and only the type checker needs it

_MOST_NAMES = 1000  # names to check for typos, at a tenth of a millisecond each
_LARGEST_FILE = 1 << 18  # bytes: a config has fifty lines, so anything larger is not one
_PATIENCE_S = 5.0  # how long to wait for someone to write to a pipe
_TOO_NESTED = Message("it is nested too deeply")
_MOST_BRACES = 1000  # on some Python versions, f-strings take quadratic time


def read_config(path: str | Path, *, to_train: bool = False) -> dict[str, Value]:
    """The knobs that a config file sets, by name. Names unknown to nanoGPT are kept, too.

    With `to_train`, mistakes that would silently train something else are errors: a mistyped knob, or a value that is
    not one of its choices. The config of a finished run only needs to be understood.
    """
    return read_config_text(_text_of(path), str(path), to_train=to_train)


def read_config_text(text: str, name: str, *, to_train: bool = False) -> dict[str, Value]:
    """The knobs that the text of a config file sets. Errors call it `name`."""
    program = Program.with_defaults() if to_train else Program()
    _follow(program, text, name, to_train)
    return {target: value for target, value in program.values.items() if isinstance(value, (bool, int, float, str))}


def follow_config(program: Program, path: str | Path) -> None:
    """Follow another config file to train with."""
    _follow(program, _text_of(path), str(path), to_train=True)


def _text_of(path: str | Path) -> str:
    try:
        data = _read(path)
    except FileNotFoundError:
        raise ConfigError("{path}: no such config file", path=path) from None
    except IsADirectoryError:
        raise ConfigError("{path}: is a directory, not a config file", path=path) from None
    except (OSError, ValueError) as error:
        raise ConfigError("{path}: cannot be read: {reason}", path=path, reason=reason_of(error)) from None
    if len(data) > _LARGEST_FILE:
        raise ConfigError("{path}: is too large for a config file", path=path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("{path}, line {line}: is not UTF-8 text", path=path, line=line) from None


def _read(path: str | Path) -> bytes:
    """The bytes of a file, or of a shell's `<(...)`. If nobody writes to a pipe, this gives up after a while."""
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            import select

            if not select.select([file], [], [], _PATIENCE_S)[0]:
                raise OSError(errno.EAGAIN, Message("it is a pipe that nobody writes to"))
        os.set_blocking(file.fileno(), True)
        return file.read(_LARGEST_FILE + 1)


def _follow(program: Program, text: str, name: str, to_train: bool) -> None:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    tree = _parsed(text, name)
    try:
        program.follow(tree, text, name)
    except RecursionError:
        raise ConfigError("{path}: is not a config file: {reason}", path=name, reason=_TOO_NESTED) from None
    if to_train:
        _check_slips(tree, name, program)


def _parsed(text: str, name: str) -> ast.Module:
    if len(text) > _LARGEST_FILE or text.count("{") > _MOST_BRACES:
        raise ConfigError("{path}: is too large for a config file", path=name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a stray escape in someone's text is not ours to report
            return ast.parse(text)
    except SyntaxError as error:
        raise ConfigError(
            "{path}, line {line}: is not Python: {reason}", path=name, line=error.lineno or 1, reason=error.msg
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(
            "{path}: is not a config file: {reason}", path=name, reason=str(error) or _TOO_NESTED
        ) from None


def _check_slips(tree: ast.Module, name: str, program: Program) -> None:
    """Raise an error for a name that is nearly a knob's, or a value that is not one of a knob's choices.

    A helper variable may resemble a knob. A name counts as a helper if the file uses it, or also sets the knob.
    """
    used = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    for target, line in list(program.lines.items())[:_MOST_NAMES]:
        if target in KNOBS and KNOBS[target].refuses(program.values.get(target)):
            raise ConfigError(
                "{path}, line {line}: {knob} must be one of {known}, not {value}",
                path=name,
                line=line,
                knob=target,
                known=", ".join(KNOBS[target].choices),
                value=shown(program.values[target]),
            )
        least = 0.85 if len(target) > 2 else 0.8  # two letters out of three: f8
        near = None if target in KNOBS or target in used else nearest(target, KNOBS, cutoff=least)
        if near is not None and near not in program.lines:
            raise ConfigError(
                "{path}, line {line}: unknown setting {knob}; did you mean {near}?",
                path=name,
                line=line,
                knob=target,
                near=near,
            )


# --- overrides -------------------------------------------------------------------------------------------------------


def read_override(text: str, flag: str = "--set") -> tuple[str, Value]:
    """Parse an override: 'batch_size=8' becomes ('batch_size', 8)."""
    name, equals, written = (part.strip() for part in text.partition("="))
    if not equals or not name:
        raise UsageError("{flag} {text}: must be name=value, such as batch_size=8", flag=flag, text=text)
    if name not in KNOBS:
        raise _unknown_knob(name, flag)
    return name, _knob_value(KNOBS[name], written, flag=f"{flag} {name}")


def split_overrides(text: str) -> list[str]:
    """Separate several: 'batch_size=8,without=rope,xsa' are two. Values may contain commas."""
    return [each.strip() for each in re.split(r",(?=\s*\w+\s*=)", text)]


def read_knob(name: str, written: str, flag: str, knobs: Mapping[str, Knob] = KNOBS) -> Value:
    """A knob's value from the command line. Anything that is not a literal is a string. Errors call it `flag`."""
    value = _knob_value(knobs[name], written if isinstance(knobs[name].default, str) else written.strip(), flag)
    if knobs[name].refuses(value):
        known = ", ".join(knobs[name].choices)
        raise UsageError("{flag} must be one of {known}, not {value}", flag=flag, known=known, value=shown(value))
    return value


def check_together(given: Mapping[str, Value]) -> None:
    """Check for knobs that exclude each other. TrainConfig checks those that also depend on defaults."""
    if given.get("overwrite") and given.get("init_from") == "resume":
        raise UsageError(
            "overwrite=True and init_from=resume cannot be combined: one removes the run in out_dir, the other "
            "continues it"
        )


def _knob_value(knob: Knob, written: str, flag: str) -> Value:
    value = knob.fitted(_literal_or_text(written, knob))
    if value is None:
        raise UsageError("{flag}: must be {kind}, not {value}", flag=flag, kind=knob.kind, value=shown(written))
    return value


def _literal_or_text(written: str, knob: Knob) -> Value:
    if isinstance(knob.default, bool) and written.lower() in ("true", "false"):
        return written.lower() == "true"
    if isinstance(knob.default, str) and written[:1] not in ("'", '"'):
        return written  # str(7) and f'{7}' are strings here, as in nanoGPT
    if written.count("{") > _MOST_BRACES:
        return written
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = evaluate(ast.parse(written, mode="eval").body, {})
    except (SyntaxError, ValueError, RecursionError, MemoryError, NotLiteralError):
        return written
    if isinstance(value, (bool, int, float, str)) and isinstance(value, str) == isinstance(knob.default, str):
        return value
    return written  # wandb_run_name=7 is the string "7"


def _unknown_knob(name: str, flag: str) -> UsageError:
    near = nearest(name, KNOBS, cutoff=0.5)
    if near is not None:
        return UsageError("{flag} {knob}: unknown setting; did you mean {near}?", flag=flag, knob=name, near=near)
    return UsageError("{flag} {knob}: unknown setting; use nanoGPT's names, such as batch_size", flag=flag, knob=name)
