"""The `nanopace` command: finds the requested command and turns every error into one line.

Only that command's module is imported, so that --help costs no more than argparse. Exit codes: 0; 2 for anything that
the user can fix, including output that could not be printed; 130 after Ctrl-C; 141 if the reader of a pipe has gone;
and 1 if the last step of a training is not in its out_dir. For `gate`, 1 and 3 are answers.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn, Protocol, cast

from nanopace.cli.language import (
    LANGUAGE_HELP,
    HelpFormatter,
    Translate,
    asked_language,
    speak,
    translate_help,
    translator,
)
from nanopace.cli.ordered_flags import spelled_out
from nanopace.cli.streams import drop_what_is_lost, guard, lost_answer
from nanopace.errors import NanopaceError, UsageError
from nanopace.spelling import nearest
from nanopace.version import __version__

COMMANDS: Mapping[str, str] = {
    "explain": "explain the slow iterations in a training log: the cause, the cost, and what to change",
    "compare": "compare two or more runs at equal tokens and equal time: which is better, and why",
    "export": "export a run to TensorBoard, Trackio, W&B or MLflow, as a table, or as a trace",
    "gate": "for CI: fail if a run is slower than another, its mfu too low, or its overhead too high",
    "watch": "watch a run while it trains: its log, plus slow iterations, time left and alerts",
    "recommend": "recommend what to train on a card and how: what fits, how fast, how long, to what loss",
    "tune": "find the fastest settings for a config on this machine with short trials",
    "ablate": "find out which knob makes the difference between two configs",
    "train": "train a GPT the way nanoGPT does, without the slow iterations",
    "profile": "profile a few training steps: what the GPU computes, and what it waits for",
    "prepare": "turn text into the tokens that training reads",
    "sample": "generate text with a trained model",
    "convert": "convert weights to and from nanoGPT and Hugging Face formats",
    "verify": "check every checkpoint of a run: which are intact, and what is wrong with the others",
    "cards": "list the graphics cards nanopace knows, with their peaks",
    "doctor": "check whether this machine is ready to train: card, driver, compiler, disk, memory",
    "completion": "print shell completions for bash, zsh and tcsh",
}

_LONGEST_MESSAGE = 300  # what was typed, or expanded by a shell, may be very long


class Command(Protocol):
    """What a module in commands/ must provide."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own flags."""

    def run(self, args: argparse.Namespace) -> int:
        """Run the command and return the exit code."""


class Parser(argparse.ArgumentParser):
    """argparse, but every mistake is reported in one line like other errors."""

    may_be_empty: frozenset[str] = frozenset()  # arguments for which "" has a meaning

    def __init__(self, prog: str, description: str | None = None) -> None:
        super().__init__(prog=prog, description=description, formatter_class=HelpFormatter, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise UsageError("{message} ({prog} --help)", message=_shortened(message), prog=self.prog)

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Like parse_args, but suggests a similar flag if one is unknown."""
        found, unknown = self.parse_known_args(arguments)
        if not unknown:
            return found
        said = {"arguments": _shortened(" ".join(unknown)), "prog": self.prog}
        flag = next((each.partition("=")[0] for each in unknown if each.startswith("--")), "")
        near = nearest(flag, self._option_string_actions) if flag else None
        if near is None:
            raise UsageError("unrecognized arguments: {arguments} ({prog} --help)", **said)
        raise UsageError("unrecognized arguments: {arguments}; did you mean {near}? ({prog} --help)", near=near, **said)

    def _get_value(self, action: argparse.Action, arg_string: str) -> object:
        """Reject an empty value: it usually comes from an unset shell variable, and as a path it would mean the current
        directory."""
        if not arg_string and action.dest not in self.may_be_empty:
            raise argparse.ArgumentError(action, argparse._("must not be empty"))  # type: ignore[attr-defined]
        return super()._get_value(action, arg_string)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> object:
        """Reject `--flag=--`: argparse takes the dashes for the end of all flags and passes on an empty list."""
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, argparse._("expected one argument"))  # type: ignore[attr-defined]
        return super()._get_values(action, arg_strings)


def _shortened(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. Without `argv`, use this process's arguments and streams."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        guard()
        os.environ["PYTHONSAFEPATH"] = "1"  # no process that we start imports from the current directory
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a name in another alphabet must not end a report
    lang = asked_language(arguments, os.environ)
    try:
        return _printed(arguments, lang)
    except NanopaceError as error:
        complain(error, lang)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141
    except RuntimeError as error:
        if str(error) != "can't start new thread":
            raise
        complain(UsageError("cannot start a thread: too many are running; stop some, or raise ulimit -u"), lang)
        return 2
    finally:
        drop_what_is_lost()  # Python prints what is left at exit and cannot report a failure


def _printed(arguments: Sequence[str], lang: str) -> int:
    """Run the command, and make sure that its whole answer was printed."""
    try:
        code = _dispatch(arguments, lang)
    except SystemExit:  # --help and --version
        _see_to_the_answer()
        raise
    _see_to_the_answer()
    return code


def _see_to_the_answer() -> None:
    sys.stdout.flush()
    lost = lost_answer()
    if lost is not None:  # argparse ignores such failures
        raise lost


def complain(error: NanopaceError, lang: str) -> None:
    """Report an error in one line on stderr."""
    from nanopace.wording.catalog import words

    said = f"nanopace: {words(lang).error(error)}"
    if sys.stderr.isatty():
        from nanopace.cli.display.log_lines import wrapped

        said = wrapped(said, os.get_terminal_size(sys.stderr.fileno()).columns - 1)
    print(said, file=sys.stderr)


def _dispatch(arguments: Sequence[str], lang: str) -> int:
    translate = translator(lang)
    speak(translate)
    top_parser = make_top_parser(translate)
    top = top_parser.parse(arguments)
    if top.command is None:
        top_parser.print_help()
        return 0
    if top.command not in COMMANDS:
        raise _no_such_command(top.command)
    parser, command = make_parser(top.command, translate)
    parser.set_defaults(lang=top.lang, command_line=tuple(arguments))
    word_flag = getattr(command, "WORDS_ARE", None)  # the flag that a bare word stands for
    return command.run(parser.parse([*spelled_out(top.rest, word_flag, parser)] if word_flag else top.rest))


def make_parser(name: str, translate: Translate = str) -> tuple[Parser, Command]:
    """A command and its parser, with translated help."""
    command = cast(Command, importlib.import_module(f"nanopace.cli.commands.{name}"))
    parser = Parser(f"nanopace {name}", command.__doc__)
    command.add_arguments(parser)
    parser.may_be_empty = frozenset(getattr(command, "MAY_BE_EMPTY", ()))
    translate_help(parser, translate)
    return parser, command


def make_top_parser(translate: Translate = str) -> Parser:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:{width}}  {about}" for name, about in COMMANDS.items())
    parser = Parser("nanopace", "Trains GPTs, reads training logs, and shows where every millisecond goes.")
    parser.usage = "nanopace [--lang LANG] COMMAND ..."
    parser.epilog = f"commands:\n{listed}\n\nFor more, run: nanopace COMMAND --help"
    parser.add_argument(
        "--version", action="version", version=f"nanopace {__version__}", help="print the version and exit"
    )
    parser.add_argument("--lang", metavar="LANG", help=LANGUAGE_HELP)
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.may_be_empty = frozenset(("rest",))  # the command's own parser checks it
    translate_help(parser, translate)
    return parser


def _no_such_command(word: str) -> UsageError:
    if os.path.exists(word):
        return UsageError('"{word}" is not a command; try: nanopace explain {word}', word=word)
    near = nearest(word, COMMANDS, cutoff=0.6)
    if near is not None:
        return UsageError('unknown command "{word}"; did you mean {near}?', word=word, near=near)
    return UsageError('unknown command "{word}"; the commands are {commands}', word=word, commands=", ".join(COMMANDS))
