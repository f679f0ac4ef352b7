"""The fastest setting of a config on this machine: short trials, within a time budget.

A step keeps its tokens, and so the loss stays what it is. Without a config it is what `nanopace train` would train.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from nanopace.cli.options import add_language, add_paper, words_of
from nanopace.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from nanopace.literals import Value
    from nanopace.tune.tune import Tuned
    from nanopace.wording.catalog import Words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", nargs="?", metavar="CONFIG", help="a config file; else what nanopace train chooses")
    group = parser.add_argument_group("the trials")
    group.add_argument("--budget", default="3m", metavar="TIME", help="for all of them, such as 90s or 5m (3m)")
    group.add_argument("--keep", metavar="DIR", help="keep the trials here, and go on from what is there")
    group = parser.add_argument_group("the answer")
    group.add_argument("--write", metavar="FILE", help="the chosen config")
    group.add_argument("--overwrite", action="store_true", help="let --write replace a file")
    group.add_argument("--json", action="store_true", help="print JSON, the same in every language")
    add_language(group)
    add_paper(group)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    from nanopace.tune.amounts import read_seconds

    budget_s = read_seconds(args.budget, "--budget")
    given = _given(args.config)
    _check_target(args)
    found = _measured(given, budget_s, args, words)
    _show(found, args, words)
    if args.write is not None:
        from nanopace.tune.config_file import write_config
        from nanopace.tune.tune_view import config_text

        write_config(args.write, config_text(found, args.config), overwrite=args.overwrite)
        if not args.json:
            print("\n" + words.text("{path} is written.", path=args.write))
    return 0


def _given(path: str | None) -> dict[str, Value] | None:
    """The knobs of the config, checked as training checks them."""
    if path is None:
        return None
    from nanopace.config import KNOBS, TrainConfig
    from nanopace.config_text import check_together, read_config

    given = {name: value for name, value in read_config(path, to_train=True).items() if name in KNOBS}
    check_together(given)
    TrainConfig(**given)  # type: ignore[arg-type]
    return given


def _check_target(args: argparse.Namespace) -> None:
    if args.write is not None:
        from nanopace.tune.config_file import check_target

        check_target(args.write, overwrite=args.overwrite)
    elif args.overwrite:
        raise UsageError("--overwrite is for --write FILE; give that, too")


def _measured(given: dict[str, Value] | None, budget_s: float, args: argparse.Namespace, words: Words) -> Tuned:
    """In a directory of its own that is gone afterwards, unless one is named."""
    import json
    import tempfile
    from pathlib import Path

    from nanopace.cli.trials import claim

    if args.keep is not None:
        claim(Path(args.keep), json.dumps({"tune": given}))
        return _run_all(given, Path(args.keep), budget_s, words)
    with tempfile.TemporaryDirectory(prefix="nanopace-tune-") as name:
        return _run_all(given, Path(name), budget_s, words)


def _run_all(given: dict[str, Value] | None, folder: Path, budget_s: float, words: Words) -> Tuned:
    from importlib.util import find_spec

    from nanopace.cli.trials import Trials
    from nanopace.tune.tune import tune
    from nanopace.tune.tune_view import setting_name

    if find_spec("torch") is None:
        raise UsageError(
            "nanopace {command} needs {package}: pip install 'nanopace[train]'", command="tune", package="torch"
        )
    with Trials(None, words, budget_s) as trials:
        return tune(
            given,
            folder,
            budget_s,
            lambda each: trials.tell(each.outcome, [setting_name(each.changed) or words.text("as given")]),
        )


def _show(found: Tuned, args: argparse.Namespace, words: Words) -> None:
    from nanopace.tune.tune_view import document, write

    if args.json:
        from nanopace.views.json import object_json

        sys.stdout.write(object_json(document(found)))
        return
    from nanopace.views.paper import Paper

    paper = Paper(sys.stdout, args.width, False if args.no_color else None)
    write(found, words, paper)
    paper.finish()
