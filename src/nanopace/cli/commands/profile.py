"""Profile a few steps of a training run, and show what the GPU computed and what it waited for.

  nanopace profile config/train_gpt2.py --batch_size=8 --steps 10

The trace is kept, for https://ui.perfetto.dev. `nanopace explain` can read it again, or any other torch.profiler trace.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from nanopace.cli.commands import train
from nanopace.cli.needs_torch import needs_torch
from nanopace.cli.options import add_layout, bounded, words_of
from nanopace.config import Asked
from nanopace.errors import InputError

MAY_BE_EMPTY = train.MAY_BE_EMPTY
WORDS_ARE = train.WORDS_ARE

_NEVER = 1 << 40  # iterations
_AFTER = 3  # steps after the window: the card still works on some while they are reported


def add_arguments(parser: argparse.ArgumentParser) -> None:
    count = bounded(int, "number of steps", lambda steps: 1 <= steps <= 1000)
    parser.add_argument("--steps", type=count, default=10, metavar="N", help="steps to profile (default: 10)")
    parser.add_argument("--skip", type=count, default=10, metavar="N", help="steps to run first (default: 10)")
    parser.add_argument(
        "--trace",
        type=Path,
        default=Path("trace.json.gz"),
        metavar="FILE",
        help="where to write the trace (default: trace.json.gz)",
    )
    add_layout(parser)
    train.add_knobs(parser)
    parser.usage = "nanopace profile [CONFIG ...] [KNOBS] [--steps N]"


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    asked = train.read_asked(args)
    if args.trace.suffix not in (".json", ".gz"):
        raise InputError("--trace {path}: must end in .json or .json.gz", path=args.trace)
    if not args.trace.absolute().parent.is_dir():
        raise InputError("--trace {path}: no such directory", path=args.trace)
    with tempfile.TemporaryDirectory() as out_dir:
        last = args.skip + args.steps + _AFTER
        forced = {"out_dir": out_dir, "max_iters": last, "eval_interval": _NEVER, "eval_iters": 1, "save_interval": -1}
        given = {**asked.given, **forced, "always_save_checkpoint": False, "init_from": "scratch"}
        _train(replace(asked, given=given), args)
    from nanopace.cli.traces import show_traces

    return show_traces([str(args.trace)], [], args, words)


def _train(asked: Asked, args: argparse.Namespace) -> None:
    from nanopace.cli.display.display import display_for
    from nanopace.cli.display.prepare_progress import PrepareProgress

    words = words_of(args)
    with needs_torch("profile"), PrepareProgress(words) as preparing, display_for(sys.stderr, words) as display:
        display.waiting(words.text("Loading PyTorch ..."))
        from nanopace.train.profiling import Profiled
        from nanopace.train.run import train as train_model

        preparing.before = lambda: display.waiting("")
        train_model(asked, listener=Profiled(display, args.trace, args.skip, args.steps), preparing=preparing)
