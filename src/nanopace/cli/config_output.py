"""For commands that produce a config: where it is written."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nanopace.cli.options import add_language, add_layout
from nanopace.errors import UsageError

if TYPE_CHECKING:
    from nanopace.wording.catalog import Words


def add_answer(parser: argparse.ArgumentParser, config: str) -> None:
    """`config`: what --write writes."""
    group = parser.add_argument_group("output")
    group.add_argument("--write", metavar="FILE", help=config)
    group.add_argument("--overwrite", action="store_true", help="let --write replace an existing file")
    group.add_argument("--json", action="store_true", help="print JSON, identical in every language")
    add_language(group)
    add_layout(group)


def check_answer(args: argparse.Namespace) -> None:
    """Check the target before anything is computed."""
    if args.write is not None:
        from nanopace.tune.recommend.config_file import check_target

        check_target(args.write, overwrite=args.overwrite)
    elif args.overwrite:
        raise UsageError("--overwrite needs --write FILE")


def write_answer(args: argparse.Namespace, text: str, words: Words) -> None:
    """Write the config, and report it unless the answer is JSON."""
    from nanopace.tune.recommend.config_file import write_config

    write_config(args.write, text, overwrite=args.overwrite)
    if not args.json:
        print("\n" + words.text("Wrote {path}.", path=args.write))
