"""Compare runs with the first one: which is better at equal tokens and at equal time, and why.

The log of a trainer with several stages, such as nanochat, holds several runs. Only runs of the same stage are
compared: the base training of one log with the base training of the others.
"""

from __future__ import annotations

import argparse
import os
import re
import string
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nanopace.cli.options import (
    add_output,
    add_pattern,
    add_prices,
    add_stage,
    check_output,
    show,
    show_page,
    words_of,
    writer_of,
)
from nanopace.cli.run_arguments import Settings, find_sources, of_stage, override, read_runs
from nanopace.errors import UsageError
from nanopace.record import replace

if TYPE_CHECKING:
    from nanopace.diagnosis.comparison import Comparison
    from nanopace.prices import Prices
    from nanopace.run import Run, Stage
    from nanopace.wording.catalog import Words

    Staged = list[tuple[Stage | None, list[Run]]]

_LETTERS = string.ascii_uppercase


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "logs",
        nargs="+",
        metavar="LOG",
        help="two or more logs, or one that holds several runs; a directory, or - for standard input. Runs are called "
        "A, B, C ... in this order, separately for each stage of a trainer that has several",
    )
    add_stage(parser)
    group = parser.add_argument_group("facts missing from the logs, for the run whose letter you put first, or for all")
    group.add_argument("--config", metavar="[A=]FILE", action="append", default=[], help="a nanoGPT config file")
    group.add_argument(
        "--set", metavar="[A.]NAME=VALUE", action="append", default=[], help="set a knob, such as B.batch_size=8"
    )
    group.add_argument(
        "--gpu", metavar="[A=]NAME", action="append", default=[], help='the card that ran, such as "4070" or "B=4090"'
    )
    add_pattern(group, "[A=]REGEX")
    add_prices(parser, "[A=]")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from nanopace.price_text import price_list

    words = words_of(args)
    settings = Lettered(args.config, args.set, args.gpu, args.pattern)
    prices = price_list((_split(text, "=") for text in args.price), (_split(text, "=") for text in args.co2))
    settings.letters |= set(prices) - {""}
    check_output(args)
    staged = _read(find_sources(args.logs, words), settings, args.stage)
    settings.check_letters(max(len(runs) for _, runs in staged))
    paired = [(stage, runs) for stage, runs in staged if len(runs) > 1]
    if not paired:
        raise _no_pair(args.logs, staged)
    for _, (run, *others) in staged:
        if not others:
            _remark(words.text("{name} is left out: there is no other run of its stage.", name=run.name))
    if len(paired) == 1:
        show(_compared(paired[0][1], prices), args, words)
    else:
        _show_stages(paired, prices, args, words)
    return 0


class Lettered:
    """The settings of each run: shared ones, overridden by those with the run's letter."""

    def __init__(
        self, configs: Sequence[str], overrides: Sequence[str], gpus: Sequence[str], patterns: Sequence[str] = ()
    ) -> None:
        self._config = dict(_split(text, "=") for text in configs)
        self._gpu = dict(_split(text, "=") for text in gpus)
        self._overrides = [(letter, *override(rest)) for letter, rest in (_split(text, ".") for text in overrides)]
        self._patterns: dict[str, list[str]] = {}
        for letter, pattern in (_split(text, "=") for text in patterns):
            self._patterns.setdefault(letter, []).append(pattern)
        self.letters = {*self._config, *self._gpu, *self._patterns, *(each for each, _, _ in self._overrides)} - {""}
        for letter in ("", *sorted(self.letters)):
            self.of(letter).check()

    def of(self, letter: str) -> Settings:
        own = {name: value for each, name, value in self._overrides if each == letter}
        shared = {name: value for each, name, value in self._overrides if not each}
        return Settings(
            config=self._config.get(letter, self._config.get("")),
            overrides=shared | own,
            gpu=self._gpu.get(letter, self._gpu.get("")),
            patterns=tuple(self._patterns.get(letter, self._patterns.get("", ()))),
        )

    def check_letters(self, runs: int) -> None:
        """Reject a letter without a run: it is a slip that would silently change nothing."""
        for letter in sorted(self.letters):
            if _LETTERS.index(letter) >= runs:
                known = ", ".join(_LETTERS[:runs])
                raise UsageError("{letter}: no such run; the runs are {known}", letter=letter, known=known)


def _split(text: str, mark: str) -> tuple[str, str]:
    """Split 'B=b.py' into ('B', 'b.py') and 'b.py' into ('', 'b.py'). Only a single capital counts, because a path may
    contain an =."""
    found = re.fullmatch(rf"([A-Z]){re.escape(mark)}(.*)", text, re.DOTALL)
    return (found[1], found[2]) if found else ("", text)


def _read(sources: Sequence[str], settings: Lettered, stage: Stage | None) -> Staged:
    """The runs by stage. A run's letter is its position in its stage, which is known only after the logs have been
    read."""
    runs: list[tuple[str, int, Settings, Run]] = []  # where to find it, and the settings it was read with
    for source in sources:
        likely = settings.of(_letter(len(runs)))
        found = read_runs(source, likely)
        wanted = set(map(id, of_stage(found, stage, source)))
        runs += [(source, index, likely, run) for index, run in enumerate(found) if id(run) in wanted]
    staged: dict[Stage | None, list[Run]] = {}
    folders = _folders([(source, run.name) for source, _, _, run in runs])
    for source, index, used, run in runs:
        members = staged.setdefault(_kind(run), [])
        own = settings.of(_letter(len(members)))
        if own != used:
            if source == "-":
                raise UsageError("-: runs read from standard input cannot have settings of their own")
            run = read_runs(source, own)[index]
        folder = folders[source, run.name]
        members.append(replace(run, name=folder + run.name) if folder else run)
    return list(staged.items())


def _folders(logs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
    """For each source and name the folders that tell it from others of the same name: as few as do; else nothing."""
    parts = {log: os.path.abspath(log[0]).split(os.sep) for log in logs}
    folders = dict.fromkeys(parts, "")
    for log, own in parts.items():
        others = [each for other, each in parts.items() if other[1] == log[1] and each != own]
        of_name = log[1].count("/") + 1  # the name of a ledger has its folder already
        for depth in range(of_name + 1, len(own) + 1) if others else ():
            folders[log] = "/".join([*own[-depth:-of_name], ""])
            if all(each[-depth:] != own[-depth:] for each in others):
                break
    return folders


def _kind(run: Run) -> Stage | None:
    """What a run may be compared with. Trainers without stages do what nanochat calls base training."""
    return "base" if run.stage is None and not run.has_stages else run.stage


def _letter(index: int) -> str:
    return _LETTERS[index] if index < len(_LETTERS) else ""


def _no_pair(logs: Sequence[str], staged: Staged) -> UsageError:
    if len(staged) == 1:
        return UsageError("compare needs two runs, but {logs} has only one", logs=" ".join(logs))
    names = ", ".join(run.name for _, runs in staged for run in runs)
    return UsageError("compare needs two runs of the same stage, but there is only one of each: {names}", names=names)


def _compared(runs: Sequence[Run], prices: Mapping[str, Prices]) -> list[Comparison]:
    from nanopace.diagnosis.billing import billed
    from nanopace.diagnosis.compare.compare import compare
    from nanopace.diagnosis.diagnose import diagnose
    from nanopace.price_text import prices_of

    first, *others = (billed(diagnose(run), prices_of(prices, _letter(number))) for number, run in enumerate(runs))
    return [compare(first, other) for other in others]


def _show_stages(paired: Staged, prices: Mapping[str, Prices], args: argparse.Namespace, words: Words) -> None:
    """One report after the other. A page shows one stage."""
    compared = [(stage, _compared(runs, prices)) for stage, runs in paired]
    on_a_page = args.html is not None or args.open
    if on_a_page:
        show_page(compared[0][1], args, words)
        others = " ".join(f"--stage {stage}" for stage, _ in compared[1:] if stage is not None)
        shown = _title(compared[0][0], words)
        _remark(words.text("The page has {stage} only; for the rest: {options}", stage=shown, options=others))
    if args.json:
        from nanopace.views.json import stages_json

        sys.stdout.write(stages_json(compared))
    elif not on_a_page:
        from nanopace.views.document import Cell

        for number, (stage, comparisons) in enumerate(compared):
            writer = writer_of(args)
            if number:
                writer.blank()
                writer.line("–" * writer.width, indent=0)
                writer.blank()
            writer.line(Cell(_title(stage, words), "bold cyan"), indent=0)
            writer.finish()
            show(comparisons, args, words)


def _title(stage: Stage | None, words: Words) -> str:
    return words.text("unknown stage") if stage is None else words.stage(stage)


def _remark(text: str) -> None:
    from nanopace.wording.printable import clean

    print(clean(text), file=sys.stderr)
