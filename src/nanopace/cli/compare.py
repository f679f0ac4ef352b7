"""Compare runs with the first of them: which is better, at equal tokens and at equal time, and why."""

from __future__ import annotations

import argparse
import re
import string
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nanopace.cli.options import add_output, check_output, show, words_of
from nanopace.cli.reading import Settings, find_sources, override, read_runs
from nanopace.errors import UsageError

if TYPE_CHECKING:
    from nanopace.diagnosis.comparison import Comparison
    from nanopace.run import Run

_LETTERS = string.ascii_uppercase


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "logs",
        nargs="+",
        metavar="LOG",
        help="two logs or more, or one that holds several runs; a directory, or - for standard input. "
        "The runs are called A, B, C ... in this order",
    )
    group = parser.add_argument_group("what the logs do not say; for one run with its letter, else for all")
    group.add_argument("--config", metavar="[A=]FILE", action="append", default=[], help="a nanoGPT config file")
    group.add_argument("--set", metavar="[A.]KNOB=VALUE", action="append", default=[], help="such as B.batch_size=8")
    group.add_argument("--gpu", metavar="[A=]NAME", action="append", default=[], help='such as "4070" or "B=4090"')
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    settings = Lettered(args.config, args.set, args.gpu)
    check_output(args)
    runs = _read(find_sources(args.logs, words), settings)
    settings.check_letters(len(runs))
    if len(runs) < 2:
        raise UsageError("compare needs two runs, and {logs} holds one", logs=" ".join(args.logs))
    show(_compared(runs), args, words)
    return 0


class Lettered:
    """The settings of each run: those for all, and over them those with its letter."""

    def __init__(self, configs: Sequence[str], overrides: Sequence[str], gpus: Sequence[str]) -> None:
        self._config = dict(_split(text, "=") for text in configs)
        self._gpu = dict(_split(text, "=") for text in gpus)
        self._overrides = [(letter, *override(rest)) for letter, rest in (_split(text, ".") for text in overrides)]
        self.letters = {*self._config, *self._gpu, *(letter for letter, _, _ in self._overrides)} - {""}
        for letter in ("", *sorted(self.letters)):
            self.of(letter).check()

    def of(self, letter: str) -> Settings:
        own = {name: value for each, name, value in self._overrides if each == letter}
        shared = {name: value for each, name, value in self._overrides if not each}
        return Settings(
            config=self._config.get(letter, self._config.get("")),
            overrides=shared | own,
            gpu=self._gpu.get(letter, self._gpu.get("")),
        )

    def check_letters(self, runs: int) -> None:
        """A letter without a run is a slip, and would silently change nothing."""
        for letter in sorted(self.letters):
            if _LETTERS.index(letter) >= runs:
                known = ", ".join(_LETTERS[:runs])
                raise UsageError("{letter}: there is no such run; there are {known}", letter=letter, known=known)


def _split(text: str, mark: str) -> tuple[str, str]:
    """'B=b.py' as ('B', 'b.py'), 'b.py' as ('', 'b.py'). Only a single capital is a letter: a path may have an =."""
    found = re.fullmatch(rf"([A-Z]){re.escape(mark)}(.*)", text, re.DOTALL)
    return (found[1], found[2]) if found else ("", text)


def _read(sources: Sequence[str], settings: Lettered) -> list[Run]:
    runs: list[Run] = []
    for source in sources:
        first = settings.of(_letter(len(runs)))
        found = read_runs(source, first)
        for index in range(1, len(found)):  # a log of several runs was read with the settings of its first
            own = settings.of(_letter(len(runs) + index))
            if own != first:
                if source == "-":
                    raise UsageError("-: the runs of standard input cannot have settings of their own")
                found[index] = read_runs(source, own)[index]
        runs += found
    return runs


def _letter(index: int) -> str:
    return _LETTERS[index] if index < len(_LETTERS) else ""


def _compared(runs: Sequence[Run]) -> list[Comparison]:
    from nanopace.diagnosis.compare import compare
    from nanopace.diagnosis.diagnose import diagnose

    first, *others = map(diagnose, runs)
    return [compare(first, other) for other in others]
