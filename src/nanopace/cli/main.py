"""The `nanopace` command: finds the command that is asked for, and turns every error into one line.

Only the module of that command is imported, so that --help costs no more than argparse. Exit codes: 0, 2 for whatever
a person can mend, as an answer that could not be printed, 130 after Ctrl-C, 141 where the reader of a pipe has left,
and 1 where the last step of a training is not in its out_dir. `gate` has 1 and 3 as answers.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NoReturn, Protocol, cast

from nanopace.cli.ordered_flags import spelled_out
from nanopace.cli.streams import drop_what_is_lost, guard, lost_answer
from nanopace.errors import NanopaceError, UsageError
from nanopace.spelling import nearest

COMMANDS: Mapping[str, str] = {
    "explain": "what each slow row of a training log is, what it costs, and what to change",
    "compare": "two or more runs: which is better, at equal tokens and equal time, and why",
    "export": "a run for TensorBoard, Trackio, W&B and MLflow, as a table, or as a trace",
    "gate": "for CI: is a run slower than another, its mfu too low, its overhead too high",
    "watch": "a training while it runs: its lines, and under them slow rows, time left and alerts",
    "recommend": "what to train on a card, and how: what fits, how fast, how long, to which loss",
    "tune": "the fastest setting of a config on this machine, by short trials",
    "ablate": "which knob did it: what lies between two configs, measured",
    "train": "train a GPT as nanoGPT does, without its slow iterations",
    "profile": "what the GPU computes in some steps of a training, and what it waits for",
    "prepare": "turn text into the tokens that training reads",
    "sample": "let a trained model write",
    "convert": "weights to and from nanoGPT's and Hugging Face's forms",
    "verify": "check every checkpoint of a run: which are whole, and what is wrong with the others",
    "cards": "the graphics cards that are known, and their peaks",
    "doctor": "whether this machine is ready to train: card, driver, compiler, disk, memory",
    "completion": "completes commands and flags in bash, zsh and tcsh",
}

_LONGEST_MESSAGE = 300  # what a person typed, or a shell did for them, may be a page


class Command(Protocol):
    """What a module in commands/ has to have."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The command's own flags."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it, and return the exit code."""


class Parser(argparse.ArgumentParser):
    """argparse, but a mistake is one line like every other."""

    may_be_empty: frozenset[str] = frozenset()  # arguments to which "" says something

    def error(self, message: str) -> NoReturn:
        said = message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"
        raise UsageError("{message} ({prog} --help)", message=said + self._near(message), prog=self.prog)

    def _get_value(self, action: argparse.Action, arg_string: str) -> object:
        """An empty one is a shell variable that is not set: as a path it would mean the current directory."""
        if not arg_string and action.dest not in self.may_be_empty:
            raise argparse.ArgumentError(action, "is empty")
        return super()._get_value(action, arg_string)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> object:
        """Of `--flag=--`, argparse takes the dashes for the end of all flags, and hands on an empty list."""
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "expected one argument")
        return super()._get_values(action, arg_strings)

    def _near(self, message: str) -> str:
        """The flag that a mistyped one may have been meant for."""
        _, unrecognized, words = message.partition("unrecognized arguments: --")
        if not unrecognized:
            return ""
        near = nearest("--" + words.partition(" ")[0].partition("=")[0], self._option_string_actions)
        return f"; did you mean {near}?" if near else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. Without `argv` it is this process's, whose streams are ours."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        guard()
        os.environ["PYTHONSAFEPATH"] = "1"  # no process that we start imports from the current directory
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a name in another alphabet must not end a report
    try:
        return _printed(arguments)
    except NanopaceError as error:
        complain(error, _language(arguments))
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141
    except RuntimeError as error:
        if str(error) != "can't start new thread":
            raise
        said = UsageError("no thread can be started: too many run here; end some, or raise the limit (ulimit -u)")
        complain(said, _language(arguments))
        return 2
    finally:
        drop_what_is_lost()  # Python prints what is left when it ends, and has nobody to complain to


def _printed(arguments: Sequence[str]) -> int:
    """Run the command, and see that its whole answer was printed."""
    try:
        code = _dispatch(arguments)
    except SystemExit:  # --help and --version
        _see_to_the_answer()
        raise
    _see_to_the_answer()
    return code


def _see_to_the_answer() -> None:
    sys.stdout.flush()
    lost = lost_answer()
    if lost is not None:  # argparse has a deaf ear for that
        raise lost


def complain(error: NanopaceError, lang: str) -> None:
    """Say on stderr what is wrong, in one line."""
    from nanopace.wording.catalog import words

    print(f"nanopace: {words(lang).error(error)}", file=sys.stderr)


def _dispatch(arguments: Sequence[str]) -> int:
    top = _top_parser().parse_args(arguments)
    if top.command is None:
        _top_parser().print_help()
        return 0
    if top.command not in COMMANDS:
        raise _no_such_command(top.command)
    command = cast(Command, importlib.import_module(f"nanopace.cli.commands.{top.command}"))
    parser = Parser(prog=f"nanopace {top.command}", description=command.__doc__, allow_abbrev=False)
    command.add_arguments(parser)
    parser.set_defaults(lang=top.lang, command_line=tuple(arguments))
    parser.may_be_empty = frozenset(getattr(command, "MAY_BE_EMPTY", ()))
    word_flag = getattr(command, "WORDS_ARE", None)  # the flag that a word without one stands for
    return command.run(parser.parse_args([*spelled_out(top.rest, word_flag, parser)] if word_flag else top.rest))


def _top_parser() -> Parser:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:{width}}  {about}" for name, about in COMMANDS.items())
    parser = Parser(
        prog="nanopace",
        usage="nanopace [--lang LANG] COMMAND ...",
        description="Trains GPTs, reads the logs of training runs, and says where every millisecond goes.",
        epilog=f"commands:\n{listed}\n\n`nanopace COMMAND --help` tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"nanopace {_version()}")
    parser.add_argument("--lang", metavar="LANG", help="language of the answer: en, de, fr or es (else the locale's)")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.may_be_empty = frozenset(("rest",))  # its own parser sees to it
    return parser


def _version() -> str:
    from nanopace.version import __version__

    return __version__


def _no_such_command(word: str) -> UsageError:
    if os.path.exists(word):
        return UsageError("{word}: is no command; try nanopace explain {word}", word=word)
    near = nearest(word, COMMANDS, cutoff=0.6)
    if near is not None:
        return UsageError("unknown command {word}; did you mean nanopace {near}?", word=word, near=near)
    return UsageError("{word}: is no command; there are {commands}", word=word, commands=", ".join(COMMANDS))


def _language(arguments: Sequence[str]) -> str:
    """The language of an error, which may come before --lang is parsed, or be about it."""
    from nanopace.wording.catalog import pick_language

    flag: str | None = None
    for argument, following in pairwise([*arguments, ""]):
        if argument == "--lang":
            flag = following
        elif argument.startswith("--lang="):
            flag = argument.partition("=")[2]
    try:
        return pick_language(flag, os.environ)
    except NanopaceError:
        return pick_language(None, os.environ)
