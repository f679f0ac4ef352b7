"""Reads any log with expressions that the user gives: `--pattern 'step (?P<iteration>\\d+).*time (?P<ms>[\\d.]+)'`.

The name of a group says what it holds (GROUPS). A line that matches an expression is a row, or an evaluation if it has
a validation loss. An expression without an iteration adds to what the last line with one began. RE2 matches in linear
time, so that no line of a hostile log can make an innocent expression hang. It is imported only here. See
docs/pattern.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from nanopace.errors import UsageError
from nanopace.sources.formats.table import PATTERN, PATTERN_ELAPSED
from nanopace.sources.log_format import LogFormat

# The names of groups.
GROUPS = (
    "iteration",  # the number of the step
    "ms",  # milliseconds of one iteration
    "s",  # seconds of one iteration
    "it_per_s",
    "elapsed_ms",  # since the start
    "elapsed_s",  # the same in seconds, or h:mm:ss
    "stamp",  # when the line was printed: a time of day, with or without the date
    "tokens",  # of one iteration
    "tokens_per_s",
    "loss",  # of the row
    "val",  # the validation loss: the line is an evaluation
    "train",  # the training loss of an evaluation
    "mfu",  # as a fraction
    "mfu_percent",
)
_ALIASES = {"val_loss": "val", "train_loss": "train", "seconds": "s"}
TIMES = ("ms", "s", "it_per_s", "elapsed_ms", "elapsed_s", "stamp")
RUNNING = frozenset({"elapsed_ms", "elapsed_s", "stamp"})  # clocks that run through

Search = Callable[[str], "dict[str, str] | None"]


class LinePattern(NamedTuple):
    """One expression: what it finds in a line, by the names of GROUPS."""

    text: str
    groups: frozenset[str]
    search: Search

    @property
    def time(self) -> str | None:
        """The group that gives the time of a row."""
        return next((name for name in TIMES if name in self.groups), None)


def compile_patterns(texts: Sequence[str]) -> tuple[LinePattern, ...]:
    """Compile the expressions. A wrong one raises an error of one line."""
    patterns = tuple(map(_compiled, texts))
    if not any("iteration" in each.groups for each in patterns):
        raise UsageError(
            "--pattern {pattern}: has no group named iteration, such as (?P<iteration>\\d+)", pattern=patterns[0].text
        )
    if not any(_is_of_rows(each) for each in patterns):
        raise UsageError(
            "--pattern: no group captures a row's time or loss; name one ms, s, it_per_s, elapsed_s or loss"
        )
    clocks = {each.time for each in patterns if each.time is not None}
    if len({name in RUNNING for name in clocks}) > 1:
        raise UsageError(
            "--pattern: one pattern captures the time per iteration and another the time since the start; use one kind"
        )
    return patterns


def format_of(patterns: Sequence[LinePattern]) -> LogFormat:
    """What the figures of such a log mean."""
    elapsed = any(each.time in RUNNING for each in patterns)
    return PATTERN_ELAPSED if elapsed else PATTERN


def _is_of_rows(pattern: LinePattern) -> bool:
    timed = pattern.time is not None or {"tokens", "tokens_per_s"} <= pattern.groups
    return timed or ("loss" in pattern.groups and "val" not in pattern.groups)


def _compiled(text: str) -> LinePattern:
    try:
        import re2  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise UsageError("--pattern needs google-re2: pip install 'nanopace[pattern]'") from None
    options = re2.Options()
    options.log_errors = False
    try:
        expression = re2.compile(text.encode(errors="surrogatepass"), options)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        why = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise UsageError("--pattern {pattern}: {why}", pattern=text, why=why) from None
    named = {_name(name): index for name, index in expression.groupindex.items()}
    if unknown := sorted(named.keys() - {*GROUPS}):
        known = ", ".join(GROUPS)
        raise UsageError("--pattern: unknown group {name}; use {known}", name=unknown[0], known=known)
    if len(times := [name for name in TIMES if name in named]) > 1:
        raise UsageError("--pattern: {one} and {other} both capture the time; keep one", one=times[0], other=times[1])

    def search(line: str) -> dict[str, str] | None:
        found = expression.search(line.encode())  # bytes: three times as fast
        if found is None:
            return None
        texts = found.groups()
        return {name: texts[at - 1].decode(errors="replace") for name, at in named.items() if texts[at - 1] is not None}

    return LinePattern(text, frozenset(named), search)


def _name(group: str | bytes) -> str:
    name = group.decode(errors="replace") if isinstance(group, bytes) else group
    return _ALIASES.get(name, name)
