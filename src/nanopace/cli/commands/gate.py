"""Check a run in CI or cron: one exit status, and one sentence per check.

Exit status: 0 if every check passes, 1 if one fails, 3 if none fails but one is inconclusive, 2 on an error.

"Slower" takes the rows, the drift and the noise of both runs into account: the new run is certainly slower, and may be
slower by as much as --slower allows. "Not slower" means certainly below that.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from nanopace.cli.options import add_language, add_pattern, add_stage, bounded, words_of
from nanopace.cli.run_arguments import Settings, find_sources, of_stage, read_runs, settings_of
from nanopace.errors import UsageError

if TYPE_CHECKING:
    from nanopace.diagnosis.compare.gate import Gate, Limits
    from nanopace.run import Run, Stage
    from nanopace.wording.catalog import Words

EXIT = {"passed": 0, "failed": 1, "unknown": 3}

_SHARE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}) ?(%?)", re.ASCII)
_ratio = bounded(float, "ratio", lambda ratio: 0 < ratio <= 1000)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("new", metavar="NEW", help="the run to check: a log, a directory with one log, or -")
    parser.add_argument("base", metavar="BASE", nargs="?", help="the run to compare it with")
    group = parser.add_argument_group("checks")
    group.add_argument(
        "--slower",
        metavar="SHARE",
        type=_share("--slower"),
        help="fail if NEW is slower than BASE by this much, such as 1%% or 0.01",
    )
    group.add_argument(
        "--max-step-ratio", metavar="X", type=_ratio, help="fail if a step takes more than X times as long as in BASE"
    )
    group.add_argument(
        "--min-mfu",
        metavar="SHARE",
        type=_share("--min-mfu"),
        help="fail if the mfu of NEW, by the card that ran it, is below this, such as 40%%",
    )
    group.add_argument(
        "--max-overhead",
        metavar="SHARE",
        type=_share("--max-overhead"),
        help="fail if evaluations and checkpoints take more than this share of NEW's time, such as 5%%",
    )
    group = parser.add_argument_group("facts missing from the logs")
    group.add_argument("--config", metavar="FILE", help="the nanoGPT config file of both runs (read, never executed)")
    group.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="set a knob of both runs")
    group.add_argument("--gpu", metavar="NAME", help='the card that ran, such as "4070" or "2x 4090"')
    add_pattern(group)
    add_stage(parser)
    group = parser.add_argument_group("output")
    add_language(group)
    group.add_argument("--json", action="store_true", help="print JSON, identical in every language")


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    limits = _limits(args)
    settings = settings_of(args)
    runs = [_read(source, settings, args.stage, words) for source in (args.new, args.base) if source is not None]
    if len({run.stage for run in runs if run.stage is not None}) > 1:
        raise UsageError(
            "NEW and BASE are from different stages ({stages})", stages=", ".join(str(r.stage) for r in runs)
        )
    gate = _judged(runs, limits)
    if args.json:
        from nanopace.views.json import object_json

        sys.stdout.write(object_json(gate))
    else:
        from nanopace.views.compare.gate import sentences
        from nanopace.wording.printable import clean

        for sentence in sentences(gate, words):
            print(clean(sentence))
    return EXIT[gate.answer]


def _share(flag: str) -> Callable[[str], float]:
    """A type for argparse: 1%, 1 % or 0.01. A bare 5 is rejected, because it may mean 5% or five times."""

    def read(text: str) -> float:
        found = _SHARE.fullmatch(text.strip())
        share = float(found[1]) / (100 if found[2] else 1) if found is not None else 0.0
        if not 0 < share < 1:
            from nanopace.literals import shown

            raise UsageError("{flag} must be a share such as 1% or 0.01, not {value}", flag=flag, value=shown(text))
        return share

    return read


def _limits(args: argparse.Namespace) -> Limits:
    from nanopace.diagnosis.compare.gate import Limits

    limits = Limits(args.slower, args.min_mfu, args.max_overhead, args.max_step_ratio)
    if limits == Limits():
        raise UsageError("nothing to check; pass --slower 1%, --max-step-ratio, --min-mfu or --max-overhead")
    if args.base is None:
        for flag, limit in (("--slower", limits.slower), ("--max-step-ratio", limits.max_step_ratio)):
            if limit is not None:
                raise UsageError("{flag} needs two runs: nanopace gate NEW BASE", flag=flag)
    if args.new == args.base == "-":
        raise UsageError("-: standard input can be read only once")
    return limits


def _read(argument: str, settings: Settings, stage: Stage | None, words: Words) -> Run:
    """The single run that an argument names."""
    source, *others = find_sources([argument], words, settings.patterns)
    if others:
        raise UsageError("{path}: has {count} logs, but gate takes one", path=argument, count=1 + len(others))
    run, *more = of_stage(read_runs(source, settings), stage, source)
    if more:
        raise UsageError(
            "{path}: has {count} runs, but gate takes one; use --stage to pick a stage",
            path=argument,
            count=1 + len(more),
        )
    return run


def _judged(runs: list[Run], limits: Limits) -> Gate:
    from nanopace.diagnosis.compare.gate import judge
    from nanopace.diagnosis.compare.slowdown import sample
    from nanopace.diagnosis.time.rows import find_pace

    new, *base = ((run, sample(run, find_pace(run))) for run in runs)
    diagnosis = None
    if limits.min_mfu is not None or limits.max_overhead is not None:
        from nanopace.diagnosis.diagnose import diagnose

        diagnosis = diagnose(new[0])
    return judge(new, base[0] if base else None, limits, diagnosis)
