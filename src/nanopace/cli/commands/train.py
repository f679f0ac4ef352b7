"""Train a GPT, and finish with a report of where the time went.

nanoGPT's configs and flags work unchanged, and whatever they leave open gets nanoGPT's defaults:

  nanopace train config/train_gpt2.py --batch_size=8

If no config and no knob sets the model, the batch or the schedule, nanopace chooses them for this machine and gives its
reasons. With --auto, it also chooses whatever configs and knobs leave open.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from nanopace.cli.needs_torch import needs_torch
from nanopace.cli.options import add_language, words_of
from nanopace.cli.ordered_flags import KeepOrder
from nanopace.config import KNOBS, Asked
from nanopace.config_program import Program
from nanopace.config_text import check_together, follow_config, read_knob
from nanopace.errors import NanopaceError, UsageError
from nanopace.literals import Value

if TYPE_CHECKING:
    from nanopace.train.listener import Listener
    from nanopace.wording.catalog import Words

MAY_BE_EMPTY = tuple(KNOBS)  # each knob checks its own values
WORDS_ARE = "--config"
NOT_SAVED = 1  # also if interrupted: resuming from out_dir would not continue from the last step


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "nanopace train [CONFIG ...] [KNOBS]"
    parser.add_argument("--download", action="store_true", help="download the GPT-2 that --init_from names, if needed")
    parser.add_argument(
        "--gpus", metavar="N", help="train on N cards of this machine (with --device=cpu: in N processes)"
    )
    parser.add_argument(
        "--log_to",
        metavar="TRACKERS",
        help="also send metrics to wandb, tensorboard, trackio or mlflow (separate several by commas)",
    )
    parser.add_argument("--no-report", action="store_true", help="skip the report at the end")
    add_knobs(parser)


def add_knobs(parser: argparse.ArgumentParser) -> None:
    """Configs and knobs in nanoGPT's syntax; `read_asked` reads them."""
    parser.add_argument(
        "--config",
        action=KeepOrder,
        metavar="CONFIG",
        help="a nanoGPT config file (read, never executed); --config may be left out; later files and flags win",
    )
    parser.set_defaults(in_order=())
    add_language(parser)
    parser.add_argument("--auto", action="store_true", help="let nanopace choose whatever configs and knobs leave open")
    knobs = parser.add_argument_group("knobs")
    for knob in KNOBS.values():
        shown = knob.why.replace("%", "%%")
        knobs.add_argument(f"--{knob.name}", action=KeepOrder, metavar=str(knob.default), help=shown)


def run(args: argparse.Namespace) -> int:
    speaks = os.environ.get("RANK", "0") == "0"  # of several torchrun processes, only the first prints
    try:
        words = words_of(args)
        asked = read_asked(args)
        given = asked.given
    except NanopaceError:
        if speaks:
            raise
        return 2
    if args.download and os.environ.get("LOCAL_RANK", "0") == "0":  # the others wait for this one
        _download(str(given.get("init_from", KNOBS["init_from"].default)))
    if args.gpus is not None:
        return _on_several(args, given)
    from nanopace.cli.display.display import display_for
    from nanopace.cli.display.prepare_progress import PrepareProgress
    from nanopace.cli.streams import drop_what_is_lost

    drop_what_is_lost()  # the exit code is that of the training; the results are on disk
    out = sys.stdout if speaks else open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, to the end of the process
    with needs_torch("train"), PrepareProgress(words) as preparing, display_for(out, words) as display:
        display.waiting(words.text("Loading PyTorch ..."))
        from nanopace.train.run import train

        display.waiting(words.text("Preparing the run ..."))
        preparing.before = lambda: display.waiting("")
        listener = _tracked(display, args.log_to, given) if speaks else display
        for note in asked.notes:
            listener.note(note)
        outcome = train(asked, listener=listener, preparing=preparing)
    embedded = asked.machine_decides and "dataset" not in given
    if speaks and embedded and outcome.reason == "finished" and outcome.checkpoint and outcome.failure is None:
        _let_it_write(outcome.checkpoint)
    if speaks and not args.no_report and not given.get("eval_only"):
        _report(outcome.ledger, words)
    if outcome.failure is not None:
        return NOT_SAVED
    return 130 if outcome.reason == "interrupted" else 0


def _report(ledger: str, words: Words) -> None:
    """Print the report. A run that ended before its first row has none, which is not an error."""
    from nanopace.api import diagnose, open_run
    from nanopace.views.terminal.report import print_report

    print(flush=True)
    try:
        diagnosis = diagnose(open_run(ledger))
    except NanopaceError as error:
        print(words.text("no report: {reason}", reason=words.error(error)), flush=True)
    else:
        print_report([diagnosis], words, out=sys.stdout)


def _on_several(args: argparse.Namespace, given: Mapping[str, Value]) -> int:
    """Run the same command without --gpus in several processes."""
    if not re.fullmatch(r"[1-9][0-9]{0,3}", args.gpus):
        raise UsageError("--gpus={count}: must be a number of cards, such as 2", count=args.gpus)
    flags = [f"--{name}={written}" for name, written in args.in_order]
    flags += [f"--log_to={args.log_to}"] if args.log_to else []
    flags += ["--auto"] * args.auto + ["--no-report"] * args.no_report + ([f"--lang={args.lang}"] if args.lang else [])
    with needs_torch("train"):
        from nanopace.train.launch import launch

        device = given.get("device")
        return launch(int(args.gpus), None if device is None else str(device), ["train", *flags])


def _tracked(listener: Listener, log_to: str | None, given: Mapping[str, Value]) -> Listener:
    """The listener, plus the trackers of --log_to and nanoGPT's wandb_log."""
    flags = {name.strip(): f"--log_to {name.strip()}" for name in (log_to or "").split(",") if log_to is not None}
    if given.get("wandb_log"):
        flags.setdefault("wandb", "--wandb_log")
    if not flags:
        return listener
    from nanopace.cli.display.tracked import Tracked
    from nanopace.trackers.libraries import make_tracker

    project, name = (str(given.get(knob, KNOBS[knob].default)) for knob in ("wandb_project", "wandb_run_name"))
    trackers = {each: make_tracker(each, flag) for each, flag in flags.items()}
    return Tracked(listener, trackers, given, project, name)


def _let_it_write(checkpoint: str) -> None:
    """Print a sample from the model trained on the embedded corpus: people who try nanopace want to see text."""
    from nanopace.cli.commands import sample

    parser = argparse.ArgumentParser()
    sample.add_arguments(parser)
    print(flush=True)
    sample.run(parser.parse_args([f"--model={checkpoint}", "--start=def ", "--num_samples=2", "--max_new_tokens=120"]))


def _download(init_from: str) -> None:
    with needs_torch("train"):
        from nanopace.train.formats.hub import find_model, is_of_the_hub

        if not is_of_the_hub(init_from):
            raise UsageError("--download: init_from={init_from} is not something to download", init_from=init_from)
        find_model(init_from, download=True)


def read_asked(args: argparse.Namespace) -> Asked:
    """What files and flags set, in the order given."""
    program = Program.with_defaults()
    files: list[str] = []
    flags: set[str] = set()
    overruled: dict[str, Value] = {}
    for name, written in args.in_order:
        if name == "config":
            files.append(written)
            follow_config(program, written)
            flags -= program.lines.keys()
        else:
            if name not in flags and name in program.values:
                overruled[name] = cast(Value, program.values[name])
            program.set(name, read_knob(name, written, flag=f"--{name}"))
            flags.add(name)
    given = {name: cast(Value, value) for name, value in program.values.items() if name in KNOBS}
    check_together(given)
    return Asked(
        given=given,
        files=tuple(files),
        flags=frozenset(flags),
        overruled={name: value for name, value in overruled.items() if name in flags},
        auto=args.auto,
        notes=program.notes,
    )
