"""Export a run to other tools: to a tracker, as a table, or as a trace.

  nanopace export train.log --to tensorboard  turns a nanoGPT log into a TensorBoard run
  nanopace export out --to csv --out run.csv  writes every iteration and evaluation, with wall-clock times
  nanopace export out --to perfetto           shows where the wall-clock time went, in ui.perfetto.dev

It takes every log that nanopace explain reads.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nanopace.cli.options import add_facts, add_language, add_stage, words_of
from nanopace.cli.run_arguments import find_sources, of_stage, read_runs, settings_of
from nanopace.errors import InputError, reason_of

if TYPE_CHECKING:
    from nanopace.export.points import Point
    from nanopace.run import Run
    from nanopace.wording.catalog import Words

_SUFFIXES: Mapping[str, str] = {"csv": ".csv", "parquet": ".parquet", "perfetto": ".perfetto.json"}
_TRACKERS = ("tensorboard", "trackio", "wandb", "mlflow")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", metavar="RUN", help="a log, an out_dir, or - for standard input")
    parser.add_argument("--to", required=True, choices=(*_TRACKERS, *_SUFFIXES), help="the tool to export to")
    parser.add_argument(
        "--out",
        metavar="PATH",
        type=Path,
        help="output file (default: named after the log, in this directory; - prints it)",
    )
    parser.add_argument(
        "--project", metavar="NAME", default="nanopace", help="project in the tracker (default: nanopace)"
    )
    add_facts(parser, "batch_size=8")
    add_stage(parser)
    add_language(parser)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    settings = settings_of(args)
    runs = [
        run
        for source in find_sources([args.log], words)
        for run in of_stage(read_runs(source, settings), args.stage, source)
    ]
    for each in runs:
        out = args.out if args.out is not None and len(runs) == 1 else _place(args.out, each, args.to)
        if said := _export(each, args, out, words):
            print(said)
    return 0


def _place(out: Path | None, run: Run, tool: str) -> Path:
    """A separate name for each of several runs, in the given directory or the current one."""
    name = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in run.name).strip("-")
    return (out or Path()) / (name + _SUFFIXES.get(tool, f"-{tool}"))


def _export(run: Run, args: argparse.Namespace, out: Path, words: Words) -> str:
    from nanopace.export.perfetto import to_perfetto
    from nanopace.export.points import points
    from nanopace.export.table import to_csv, to_parquet

    exported = points(run)
    if args.to in _TRACKERS:
        return _to_tracker(run, exported, args, out, words)
    writers: Mapping[str, Callable[[Sequence[Point]], bytes]] = {
        "csv": to_csv,
        "parquet": to_parquet,
        "perfetto": partial(to_perfetto, run.name),
    }
    data = writers[args.to](exported)
    if args.out is not None and str(args.out) == "-":
        sys.stdout.buffer.write(data)
        return ""
    _write(out, data)
    return words.plural("{path}: {n} point", "{path}: {n} points", len(exported), path=out)


def _to_tracker(run: Run, exported: Sequence[Point], args: argparse.Namespace, out: Path, words: Words) -> str:
    from nanopace.export.tracker import send
    from nanopace.trackers.libraries import make_tracker
    from nanopace.trackers.tracker import Heading

    tracker = make_tracker(args.to, f"--to {args.to}")
    config = {name: fact.value for name, fact in run.facts.items()}
    try:
        said = send(exported, tracker, Heading(args.project, run.name, config, out))
    except Exception as error:  # from a third-party library
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError("--to {tool}: {reason}", tool=args.to, reason=reason) from None
    if said:
        return words.message(said)
    count = len(exported)
    return words.plural("{tool}: {run}, {n} point", "{tool}: {run}, {n} points", count, tool=args.to, run=run.name)


def _write(out: Path, data: bytes) -> None:
    """Write everything or nothing, and never overwrite an existing file."""
    from nanopace.files import atomic_file

    try:
        if out.exists():
            raise InputError("--out {path}: already exists and will not be overwritten", path=out)
        with atomic_file(out, durable=False) as file:
            file.write(data)
    except OSError as error:
        raise InputError("--out {path}: {reason}", path=out, reason=reason_of(error)) from None
