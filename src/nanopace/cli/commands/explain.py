"""Explain the slow iterations in a training log: what each one is, what it costs, and what to change."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nanopace.cli.main import complain
from nanopace.cli.options import add_facts, add_output, add_prices, add_stage, check_output, show, words_of
from nanopace.cli.run_arguments import Settings, find_sources, of_stage, read_runs, settings_of
from nanopace.errors import NanopaceError, UsageError

if TYPE_CHECKING:
    from nanopace.diagnosis.result import Diagnosis
    from nanopace.prices import Prices
    from nanopace.run import Stage
    from nanopace.wording.catalog import Words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "logs",
        nargs="+",
        metavar="LOG",
        help="a log, a directory of logs, a torch.profiler trace, or - for standard input",
    )
    add_facts(parser, "batch_size=8", "that ran")
    add_stage(parser)
    add_prices(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    settings = settings_of(args)
    prices = _prices(args)
    check_output(args)
    if any(name.removesuffix(".gz").endswith(".json") for name in args.logs):
        from nanopace.cli.traces import is_trace, show_traces  # logs rarely have that name, and need not wait for it

        if traces := [name for name in args.logs if is_trace(name)]:
            if args.open:
                raise UsageError("--open: a trace has no page; open {path} in https://ui.perfetto.dev", path=traces[0])
            if prices is not None:
                raise UsageError("--price and --co2: a trace has only a few steps of a run, so its cost is unknown")
            return show_traces(traces, [name for name in args.logs if name not in traces], args, words)
    diagnoses, failed = _diagnosed(find_sources(args.logs, words, args.pattern), settings, args.stage, words)
    if prices is not None:
        from nanopace.diagnosis.billing import billed

        diagnoses = [billed(diagnosis, prices) for diagnosis in diagnoses]
    if diagnoses:
        show(diagnoses, args, words)
    return 2 if failed else 0


def _prices(args: argparse.Namespace) -> Prices | None:
    if not args.price and not args.co2:
        return None
    from nanopace.price_text import shared_prices

    return shared_prices(args.price, args.co2)


def _diagnosed(
    sources: list[str], settings: Settings, stage: Stage | None, words: Words
) -> tuple[list[Diagnosis], bool]:
    """Diagnose all logs. A bad one is reported but does not keep the others from being explained."""
    from nanopace.diagnosis.diagnose import diagnose

    diagnoses: list[Diagnosis] = []
    failed = False
    for source in sources:
        try:
            diagnoses += map(diagnose, of_stage(read_runs(source, settings), stage, source))
        except NanopaceError as error:
            complain(error, words.lang)
            failed = True
    return diagnoses, failed
