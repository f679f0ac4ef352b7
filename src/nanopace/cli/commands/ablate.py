"""Find out which knob makes the difference between two configs: what each does to the speed, and to the loss.

Every combination of the knobs in which they differ is trained briefly, several times, in a shuffled order. With --try
instead of B, each change to A is trained by itself.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nanopace.cli.html import write_page
from nanopace.cli.options import add_language, add_layout, bounded, check_output, print_found, words_of
from nanopace.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nanopace.literals import Value
    from nanopace.tune.ablate.trials import Trial, Tried
    from nanopace.views.terminal.writer import TerminalWriter
    from nanopace.wording.catalog import Words

_count = bounded(int, "number", lambda count: 0 < count < 10**9)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a config file (.py), or a run whose log has its config")
    parser.add_argument("b", metavar="B", nargs="?", help="the one to compare it with")
    group = parser.add_argument_group("runs")
    group.add_argument(
        "--try",
        dest="tries",
        action="append",
        default=[],
        metavar="KNOB=VALUE,...",
        help="a change to A, such as matrix_lr=0.02,cooldown=0.6; repeat it for others",
    )
    group.add_argument("--steps", type=_count, default=20, metavar="N", help="steps per run (default: 20)")
    group.add_argument(
        "--repeats",
        type=_count,
        default=3,
        metavar="N",
        help="runs per combination, each with another seed (default: 3)",
    )
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
    check_output(args)
    if (args.b is None) == (not args.tries):
        raise UsageError("pass either a second config, B, or changes to the first: --try matrix_lr=0.02")
    if args.tries and args.together:
        raise UsageError("--together: only with a second config, B; the knobs of one --try change together anyway")
    found, page, write = _which_made_it(args, words) if args.b is not None else _what_each_does(args, words)
    if args.html is not None:
        write_page(args.html, page())
    if args.json or args.html is None:
        print_found(args, found, write)
    return 0


# What was found, its page, and what writes it to a terminal.
Answer = tuple[object, "Callable[[], str]", "Callable[[TerminalWriter], None]"]


def _which_made_it(args: argparse.Namespace, words: Words) -> Answer:
    from nanopace.config import KNOBS
    from nanopace.tune.ablate.ablate import conclude, make_plan
    from nanopace.tune.ablate.ablate_view import page, write

    together = [[name.strip() for name in each.split(",")] for each in args.together]
    unknown = [name for each in together for name in each if name not in KNOBS]
    if unknown:
        raise UsageError("--together: unknown knob {knob}", knob=unknown[0])
    plan = make_plan(
        _knobs(args.a),
        _knobs(args.b),
        steps=args.loss or args.steps,
        repeats=args.repeats,
        evaluates=args.loss is not None,
        orders=args.orders,
        together=together,
    )
    found = conclude(plan, _measured(plan.trials, args, words, all_needed=True))
    return found, lambda: page(found, f"{args.a} → {args.b}", words), lambda writer: write(found, words, writer)


def _what_each_does(args: argparse.Namespace, words: Words) -> Answer:
    from nanopace.config_text import read_override, split_overrides
    from nanopace.tune.ablate.variants import conclude_variants, make_variants
    from nanopace.tune.ablate.variants_view import page, write

    tries = [split_overrides(text) for text in args.tries]
    plan = make_variants(
        _knobs(args.a),
        {", ".join(each): dict(read_override(setting, "--try") for setting in each) for each in tries},
        steps=args.loss or args.steps,
        repeats=args.repeats,
        evaluates=args.loss is not None,
    )
    found = conclude_variants(plan, _measured(plan.trials, args, words, all_needed=False))
    return found, lambda: page(found, args.a, words), lambda writer: write(found, words, writer)


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


def _measured(trials: Sequence[Trial], args: argparse.Namespace, words: Words, *, all_needed: bool) -> list[Tried]:
    from nanopace.cli.display.trial_progress import TrialProgress
    from nanopace.tune.ablate.trials import measure, plan_text
    from nanopace.tune.results import trials_directory

    with trials_directory(args.keep, plan_text(trials)) as folder, TrialProgress(len(trials), words) as progress:

        def show(each: Tried) -> None:
            progress.add(each.outcome, sorted(each.changed))
            if not each.outcome.worked and not all_needed:
                progress.drop(sum(trial.changed == each.changed and trial.repeat > each.repeat for trial in trials))

        tried = measure(trials, folder, args.timeout, show, all_needed=all_needed)
    for each in tried:
        if not each.outcome.worked and (all_needed or not each.changed):
            raise _without_answer(each, args.timeout)
    return tried


def _without_answer(failed: Tried, timeout_s: int) -> UsageError:
    failure, said, knobs = failed.outcome.failure, failed.outcome.said, ", ".join(sorted(failed.changed))
    if not knobs:
        if failure == "memory":
            return UsageError("the run with A's settings ran out of memory; without it there is no answer")
        if failure == "time":
            return UsageError("the run with A's settings took longer than --timeout {seconds} s", seconds=timeout_s)
        return UsageError("the run with A's settings failed: {said}", said=said)
    if failure == "memory":
        return UsageError("the run with B's {knobs} ran out of memory; without it there is no answer", knobs=knobs)
    if failure == "time":
        return UsageError(
            "the run with B's {knobs} took longer than --timeout {seconds} s", knobs=knobs, seconds=timeout_s
        )
    return UsageError("the run with B's {knobs} failed: {said}", knobs=knobs, said=said)
