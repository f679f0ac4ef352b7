"""Say what each slow row of a training log is, what it costs, and what to change."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from nanopace.cli.main import complain
from nanopace.cli.options import add_output, add_stage, check_output, show, words_of
from nanopace.cli.run_arguments import Settings, find_sources, of_stage, override, read_runs
from nanopace.errors import NanopaceError

if TYPE_CHECKING:
    from nanopace.diagnosis.result import Diagnosis
    from nanopace.run import Run, Stage
    from nanopace.wording.catalog import Words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", nargs="+", metavar="LOG", help="a log, a directory of logs, or - for standard input")
    group = parser.add_argument_group("what the log does not say")
    group.add_argument("--config", metavar="FILE", help="the run's nanoGPT config file; it is read, never executed")
    group.add_argument("--set", metavar="KNOB=VALUE", action="append", default=[], help="a knob, such as batch_size=8")
    group.add_argument(
        "--gpu", metavar="NAME", help='the card that ran, such as "4070" or "2x 4090" (nanopace cards lists them)'
    )
    add_stage(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    settings = Settings(args.config, dict(map(override, args.set)), args.gpu)
    settings.check()
    check_output(args)
    diagnoses, failed = _diagnosed(find_sources(args.logs, words), settings, args.stage, words)
    if diagnoses:
        show(diagnoses, args, words)
    return 2 if failed else 0


def _diagnosed(
    sources: list[str], settings: Settings, stage: Stage | None, words: Words
) -> tuple[list[Diagnosis], bool]:
    """One bad log of several is reported, and does not keep the others from being explained."""
    from nanopace.diagnosis.diagnose import diagnose

    diagnoses: list[Diagnosis] = []
    failed = False
    for source in sources:
        try:
            runs = of_stage(read_runs(source, settings), stage, source)
            diagnoses += [_with_measured_peak(run, diagnose(run)) for run in runs]
        except NanopaceError as error:
            complain(error, words.lang)
            failed = True
    return diagnoses, failed


def _with_measured_peak(run: Run, diagnosis: Diagnosis) -> Diagnosis:
    """Where a card of exactly that name was measured on this machine. What the run says of its own card comes first,
    and what was measured in 16 bits says nothing of a run in 8."""
    gpu, dtype = run.value("gpu"), run.value("dtype")
    if not isinstance(gpu, str) or not isinstance(dtype, str) or run.value("fp8"):
        return diagnosis
    if run.number("measured_tflops") is not None:
        return diagnosis
    from nanopace.diagnosis.mfu.mfu_findings import against_measured
    from nanopace.hardware.calibration import measured_tflops

    peak = measured_tflops(gpu, dtype)
    return diagnosis if peak is None else against_measured(diagnosis, gpu, peak)
