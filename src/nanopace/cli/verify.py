"""Check every checkpoint of a run: that each file is what was written, and that they belong together."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nanopace.cli.bar import bar_of_bytes
from nanopace.cli.display_lines import size
from nanopace.cli.options import add_language, words_of
from nanopace.cli.torch_room import torch_room
from nanopace.views.paper import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from nanopace.train.verify import Verdict
    from nanopace.wording.catalog import Words

_WORTH_A_BAR = 1 << 30  # bytes: a second or two


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="OUT", help="an out_dir, or one checkpoint in it")
    parser.add_argument("--which", metavar="WHICH", help="only this one: best, last or a step")
    add_language(parser)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    damaged = 0
    with torch_room("verify"):
        from nanopace.train.verify import find_checkpoints, size_of, verdicts

        found = find_checkpoints(args.path, args.which or "")
        with _bar(sum(map(size_of, found))) as told:
            judged = list(verdicts(found, told))
    for verdict in judged:
        damaged += verdict.wrong is not None
        print(clean(_line(verdict, words)))
    for line in _ledger_lines(args.path, words):
        print(clean(line))
    return 2 if damaged else 0


def _line(verdict: Verdict, words: Words) -> str:
    name = verdict.path.name if verdict.step is None else words.text("step {step}", step=words.count(verdict.step))
    said = words.text("whole") if verdict.wrong is None else words.error(verdict.wrong)
    best = "" if verdict.best is None else words.text("; the best: val loss {loss}", loss=words.loss(verdict.best))
    return f"{name}  {size(verdict.bytes)}  {said}{best}"


def _ledger_lines(path: Path, words: Words) -> Iterator[str]:
    """What the ledger beside the checkpoints lost. A kill may tear one line, so that is no damage."""
    from nanopace.ledger import read_ledger
    from nanopace.ledger.file import LEDGER_FILE

    ledger = path / LEDGER_FILE
    if ledger.is_file():
        with ledger.open("rb") as file:
            read = read_ledger(file)
        yield words.plural(
            "{path}: {events} events, {n} damaged line",
            "{path}: {events} events, {n} damaged lines",
            read.damaged,
            path=ledger,
            events=words.count(len(read.events)),
        )


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """On a terminal, where it takes a while."""
    if total < _WORTH_A_BAR or not sys.stderr.isatty():
        yield lambda _: None
        return
    with bar_of_bytes() as progress:
        task = progress.add_task("", total=total)
        yield lambda count: progress.advance(task, count)
