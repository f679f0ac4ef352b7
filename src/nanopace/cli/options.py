"""The flags that commands share, and their effects."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from nanopace.cli.html import check_target, open_in_browser, report_page, temporary_target, write_page
from nanopace.cli.language import LANGUAGE_HELP

if TYPE_CHECKING:
    from nanopace.diagnosis.comparison import Comparison
    from nanopace.diagnosis.result import Diagnosis
    from nanopace.views.terminal.writer import TerminalWriter
    from nanopace.wording.catalog import Words

N = TypeVar("N", int, float)


def bounded(read: Callable[[str], N], name: str, holds: Callable[[N], bool]) -> Callable[[str], N]:
    """A type for argparse: a number within bounds. For others, argparse reports "invalid {name}: '0'"."""

    def checked(text: str) -> N:
        number = read(text)
        if not holds(number):
            raise ValueError(text)
        return number

    checked.__name__ = name
    return checked


def add_language(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--lang", metavar="LANG", help=LANGUAGE_HELP)


def add_facts(parser: argparse.ArgumentParser, knob: str, card: str | None = None) -> None:
    """Flags for what the log of a run does not say. `knob`: an example; `card`: what it does, if it may be named."""
    group = parser.add_argument_group("facts missing from the log")
    group.add_argument("--config", metavar="FILE", help="the run's nanoGPT config file (read, never executed)")
    group.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help=f"set a knob, such as {knob}")
    if card is not None:
        group.add_argument(
            "--gpu", metavar="NAME", help=f'the card {card}, such as "4070" or "2x 4090" (see nanopace cards)'
        )
        add_pattern(group)


def add_pattern(parser: argparse._ActionsContainer, metavar: str = "REGEX") -> None:
    """For logs in an unknown format."""
    parser.add_argument(
        "--pattern",
        metavar=metavar,
        action="append",
        default=[],
        help="regex for a line of the log, such as 'iter (?P<iteration>\\d+).*time (?P<ms>[\\d.]+)'; repeat it for "
        "other kinds of lines, such as evaluations (docs/pattern.md)",
    )


def add_stage(parser: argparse.ArgumentParser) -> None:
    """Select one stage of a trainer with several."""
    parser.add_argument(
        "--stage", choices=("base", "mid", "sft", "rl"), help="use only this stage of a nanochat log that has several"
    )


def add_prices(parser: argparse.ArgumentParser, name: str = "") -> None:
    """Flags that turn time into money and CO2. `name`: in the metavar, what a price may be given for."""
    group = parser.add_argument_group("cost")
    group.add_argument(
        "--price",
        metavar=f"{name}PRICE",
        action="append",
        default=[],
        help="what a GPU hour costs, such as 0.35 or '$2.49/h', or a kWh, such as '0.30 EUR/kWh'; or one of each",
    )
    group.add_argument(
        "--co2",
        metavar=f"{name}GRAMS",
        action="append",
        default=[],
        help="grams of CO2 per kWh of electricity, such as 380",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Flags for how the answer is shown."""
    group = parser.add_argument_group("output")
    add_language(group)
    group.add_argument("--html", metavar="FILE", help="write one self-contained page, and print only the answer")
    group.add_argument(
        "--open", action="store_true", help="open the page in the browser; without --html, a temporary file"
    )
    group.add_argument("--json", action="store_true", help="print JSON, identical in every language")
    group.add_argument("-v", "--verbose", action="store_true", help="list every slow iteration and every known fact")
    add_layout(group)


def add_layout(parser: argparse._ActionsContainer) -> None:
    """The width and colours of a report."""
    parser.add_argument("--no-color", action="store_true", help="plain text (also: set NO_COLOR)")
    width = bounded(int, "number of columns", lambda width: width >= 1)
    parser.add_argument(
        "--width", type=width, metavar="N", help="width of the report in columns (default: the terminal's, or 80)"
    )


def writer_of(args: argparse.Namespace) -> TerminalWriter:
    """Standard output with the settings of --width and --no-color."""
    from nanopace.views.terminal.writer import TerminalWriter

    return TerminalWriter(sys.stdout, args.width, False if args.no_color else None)


def print_found(args: argparse.Namespace, found: object, write: Callable[[TerminalWriter], None]) -> None:
    """Print a record as JSON, or let `write` report on it."""
    if args.json:
        from nanopace.views.json import object_json

        sys.stdout.write(object_json(found))
        return
    writer = writer_of(args)
    write(writer)
    writer.finish()


def words_of(args: argparse.Namespace) -> Words:
    """The language of --lang, else of the locale."""
    from nanopace.wording.catalog import words
    from nanopace.wording.languages import pick_language

    return words(pick_language(args.lang, os.environ))


def check_output(args: argparse.Namespace) -> None:
    """Check the target before anything is read."""
    if args.html is not None:
        check_target(args.html)


def show(results: Sequence[Diagnosis] | Sequence[Comparison], args: argparse.Namespace, words: Words) -> None:
    if args.html is not None or args.open:
        show_page(results, args, words)
    if args.json:
        from nanopace.api import render

        sys.stdout.write(render(results, format="json"))
    elif args.html is None and not args.open:
        _print(results, args, words)


def _print(
    results: Sequence[Diagnosis] | Sequence[Comparison],
    args: argparse.Namespace,
    words: Words,
    *,
    only_answer: bool = False,
) -> None:
    from nanopace.views.terminal.report import print_report

    print_report(
        results,
        words,
        out=sys.stdout,
        verbose=args.verbose,
        width=args.width,
        color=False if args.no_color else None,
        only_answer=only_answer,
    )


def show_page(results: Sequence[Diagnosis] | Sequence[Comparison], args: argparse.Namespace, words: Words) -> None:
    """Write the page, print the answer and the page's path, and open it on request."""
    from nanopace.wording.printable import clean

    path = temporary_target() if args.html is None else args.html
    write_page(path, report_page(results, words, args.command_line))
    written = clean(words.text("Wrote {path}.", path=path))
    if args.json:
        print(written, file=sys.stderr)
    elif os.path.isfile(path):  # not /dev/stdout or a pipe: its reader wants only the page
        _print(results, args, words, only_answer=True)
        print("\n" + written)  # on one line, however long
    if args.open and not open_in_browser(path):
        print(clean(words.text("No browser could be opened. Open {path} yourself.", path=path)), file=sys.stderr)
