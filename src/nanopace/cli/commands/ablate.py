"""Find out which knob makes the difference between two configs: what each does to the speed, and to the loss.

Every combination of the knobs in which they differ is trained briefly, several times, in a shuffled order.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from nanopace.cli.html import check_target, write_page
from nanopace.cli.options import add_language, add_layout, bounded, words_of, writer_of
from nanopace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nanopace.literals import Value
    from nanopace.tune.ablate.ablate import Plan, Tried
    from nanopace.wording.catalog import Words

_count = bounded(int, "number", lambda count: 0 < count < 10**9)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a config file (.py), or a run whose log has its config")
    parser.add_argument("b", metavar="B", help="the one to compare it with")
    group = parser.add_argument_group("runs")
    group.add_argument("--steps", type=_count, default=20, metavar="N", help="steps per run (default: 20)")
    group.add_argument("--repeats", type=_count, default=3, metavar="N", help="runs per combination (default: 3)")
    group.add_argument("--loss", type=_count, metavar="N", help="also measure the validation loss after N steps")
    group.add_argument(
        "--orders", type=_count, default=8, metavar="N", help="orders to draw with five knobs or more (default: 8)"
    )
    group.add_argument(
        "--together",
        action="append",
        default=[],
        metavar="KNOB,KNOB",
        help="change these knobs together; may be repeated",
    )
    group.add_argument("--timeout", type=_count, default=600, metavar="S", help="seconds a run may take (default: 600)")
    group.add_argument("--keep", metavar="DIR", help="keep the runs here, and continue from those already there")
    group = parser.add_argument_group("output")
    group.add_argument("--html", metavar="FILE", help="write one self-contained page instead of printing a report")
    group.add_argument("--json", action="store_true", help="print JSON, identical in every language")
    add_language(group)
    add_layout(group)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    if args.html is not None:
        check_target(args.html)
    plan = _plan(args)
    from nanopace.tune.ablate.ablate import conclude
    from nanopace.tune.ablate.ablate_view import page, write

    tried = _measured(plan, args, words)
    found = conclude(plan, tried)
    if args.html is not None:
        write_page(args.html, page(found, f"{args.a} → {args.b}", words))
    if args.json:
        from nanopace.views.json import object_json

        sys.stdout.write(object_json(found))
    if args.json or args.html is not None:
        return 0
    writer = writer_of(args)
    write(found, words, writer)
    writer.finish()
    return 0


def _plan(args: argparse.Namespace) -> Plan:
    from nanopace.config import KNOBS
    from nanopace.tune.ablate.ablate import make_plan

    together = [[name.strip() for name in each.split(",")] for each in args.together]
    unknown = [name for each in together for name in each if name not in KNOBS]
    if unknown:
        raise UsageError("--together: unknown knob {knob}", knob=unknown[0])
    return make_plan(
        _knobs(args.a),
        _knobs(args.b),
        steps=args.loss or args.steps,
        repeats=args.repeats,
        evaluates=args.loss is not None,
        orders=args.orders,
        together=together,
    )


def _knobs(path: str) -> Mapping[str, Value]:
    """The knobs of a config file, or of a run whose log or ledger has its config."""
    from nanopace.config import KNOBS
    from nanopace.config_text import read_config

    if path.endswith(".py"):
        return read_config(path, to_train=True)
    from nanopace.api import open_run

    run = open_run(path)
    known = {name: fact.value for name, fact in run.facts.items() if name in KNOBS and fact.origin != "inferred"}
    if not {"batch_size", "block_size", "n_layer", "n_embd"} <= known.keys():
        raise UsageError("{path}: does not contain its config; pass the config file (.py) instead", path=path)
    return known


def _measured(plan: Plan, args: argparse.Namespace, words: Words) -> list[Tried]:
    from nanopace.cli.display.trial_progress import TrialProgress
    from nanopace.tune.ablate.ablate import measure, plan_text
    from nanopace.tune.results import trials_directory

    with trials_directory(args.keep, plan_text(plan)) as folder, TrialProgress(len(plan.trials), words) as trials:
        tried = measure(plan, folder, args.timeout, lambda each: trials.add(each.outcome, sorted(each.changed)))
    failed = tried[-1].outcome
    if not failed.worked:
        changed = ", ".join(sorted(tried[-1].changed)) or "A.py"
        if failed.failure == "memory":
            raise UsageError("the run with B's {knobs} ran out of memory; without it there is no answer", knobs=changed)
        if failed.failure == "time":
            raise UsageError(
                "the run with B's {knobs} took longer than --timeout {seconds} s", knobs=changed, seconds=args.timeout
            )
        raise UsageError("the run with B's {knobs} failed: {said}", knobs=changed, said=failed.said)
    return tried
