"""Find the fastest settings for a config on this machine with short trials, within a time budget.

The tokens per step stay the same, and so does the loss. Without a config, it tunes what `nanopace train` would train.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nanopace.cli.config_output import add_answer, check_answer, write_answer
from nanopace.cli.options import print_found, words_of
from nanopace.errors import UsageError

if TYPE_CHECKING:
    from nanopace.literals import Value
    from nanopace.tune.search.tune import Tuned
    from nanopace.wording.catalog import Words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config", nargs="?", metavar="CONFIG", help="a config file (default: what nanopace train chooses)"
    )
    group = parser.add_argument_group("trials")
    group.add_argument(
        "--budget", default="3m", metavar="TIME", help="time for all trials, such as 90s or 5m (default: 3m)"
    )
    group.add_argument("--keep", metavar="DIR", help="keep the trials here, and continue from those already there")
    add_answer(parser, "write the chosen config")


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    from nanopace.tune.recommend.amounts import read_seconds
    from nanopace.tune.search.tune_view import config_text, write

    budget_s = read_seconds(args.budget, "--budget")
    given = _given(args.config)
    check_answer(args)
    found = _measured(given, budget_s, args, words)
    print_found(args, found, lambda writer: write(found, words, writer))
    if args.write is not None:
        write_answer(args, config_text(found, args.config), words)
    return 0


def _given(path: str | None) -> dict[str, Value] | None:
    """The knobs of the config, checked as in training."""
    if path is None:
        return None
    from nanopace.config import KNOBS, TrainConfig
    from nanopace.config_text import check_together, read_config

    given = {name: value for name, value in read_config(path, to_train=True).items() if name in KNOBS}
    check_together(given)
    TrainConfig(**given)  # type: ignore[arg-type]
    return given


def _measured(given: dict[str, Value] | None, budget_s: float, args: argparse.Namespace, words: Words) -> Tuned:
    import json
    from importlib.util import find_spec

    from nanopace.cli.display.trial_progress import TrialProgress
    from nanopace.tune.results import trials_directory
    from nanopace.tune.search.tune import tune
    from nanopace.tune.search.tune_view import setting_name

    if find_spec("torch") is None:
        raise UsageError(
            "nanopace {command} needs {package}: pip install 'nanopace[train]'", command="tune", package="torch"
        )
    with (
        trials_directory(args.keep, json.dumps({"tune": given})) as folder,
        TrialProgress(None, words, budget_s) as trials,
    ):
        return tune(
            given,
            folder,
            budget_s,
            lambda each: trials.add(each.outcome, [setting_name(each.changed) or words.text("as given")]),
        )
