"""Check every checkpoint of a run: that each file is intact, and that the files belong together."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nanopace.cli.display.progress_bar import bar_of_bytes
from nanopace.cli.needs_torch import needs_torch
from nanopace.cli.options import add_language, words_of
from nanopace.errors import InputError, unreadable
from nanopace.files import open_regular
from nanopace.wording.printable import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from nanopace.train.checkpoint.verify import Verdict
    from nanopace.wording.catalog import Words

_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_WORTH_A_BAR = 1 << 30  # bytes: a second or two
_LARGEST_LEDGER = 1 << 32  # bytes: ten million steps; a sparse file would take hours to read
_LONGEST_LINE = 1 << 20  # bytes, a thousand times the size of an event


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="OUT", help="an out_dir, or one checkpoint in it")
    parser.add_argument("--which", metavar="WHICH", help="check only this one: best, last or a step")
    add_language(parser)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    damaged = 0
    with needs_torch("verify"):
        from nanopace.train.checkpoint.verify import find_checkpoints, size_of, verdicts

        found = find_checkpoints(args.path, args.which or "")
        with _bar(sum(map(size_of, found))) as on_bytes:
            judged = list(verdicts(found, on_bytes))
    for verdict in judged:
        damaged += verdict.wrong is not None
        print(clean(_line(verdict, words)))
    try:
        for line in _ledger_lines(args.path, words):
            print(clean(line))
    except InputError as error:
        damaged += 1
        print(clean(words.error(error)))
    return 2 if damaged else 0


def _line(verdict: Verdict, words: Words) -> str:
    name = verdict.path.name if verdict.step is None else words.text("step {step}", step=words.count(verdict.step))
    said = words.text("intact") if verdict.wrong is None else words.error(verdict.wrong)
    best = "" if verdict.best is None else words.text("; the best: val loss {loss}", loss=words.loss(verdict.best))
    unit, of = next(((unit, of) for unit, of in _UNITS if verdict.bytes >= of), _UNITS[-1])
    size = words.size(verdict.bytes / of, unit, 2).replace("\u00a0", " ")
    return f"{name}  {size}  {said}{best}"


def _ledger_lines(path: Path, words: Words) -> Iterator[str]:
    """What the ledger next to the checkpoints has lost. A kill may tear one line, so that does not count as damage."""
    from nanopace.ledger.file import LEDGER_FILE, EventReader

    ledger = path / LEDGER_FILE
    if not os.path.lexists(ledger):
        return
    reader, events = EventReader(), 0
    try:
        with open_regular(ledger) as file:
            if os.fstat(file.fileno()).st_size > _LARGEST_LEDGER:
                raise InputError("{path}: is too large for a ledger", path=ledger)
            while line := file.readline(_LONGEST_LINE):
                events += len(reader.read(line.decode("utf-8", "replace")))
    except OSError as error:
        raise unreadable(ledger, error) from None
    yield words.plural(
        "{path}: {events} events, {n} damaged line",
        "{path}: {events} events, {n} damaged lines",
        reader.damaged,
        path=ledger,
        events=words.count(events),
    )


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, if it takes a while."""
    if total < _WORTH_A_BAR or not sys.stderr.isatty():
        yield lambda _: None
        return
    with bar_of_bytes() as progress:
        task = progress.add_task("", total=total)
        yield lambda count: progress.advance(task, count)
