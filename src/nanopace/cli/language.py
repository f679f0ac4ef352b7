"""The language of the command line itself: help texts and argparse's own messages.

Help is written in English, in paragraphs. An indented line in a description is an example or a list entry: a term, at
least two spaces, and its meaning. English loads no catalogue, because --help must be fast.
"""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise

from nanopace.errors import NanopaceError

Translate = Callable[[str], str]

LANGUAGE_HELP = "output language: en, de, fr or es (default: your locale's)"

# Argparse's messages to the user, by the texts that it looks up, and our own in the same style.
OF_ARGPARSE = (
    "usage: ",
    "positional arguments",
    "options",
    "show this help message and exit",
    "argument %(argument_name)s: %(message)s",
    "the following arguments are required: %s",
    "expected one argument",
    "expected at most one argument",
    "expected at least one argument",
    "ignored explicit argument %r",
    "invalid choice: %(value)r (choose from %(choices)s)",
    "invalid %(type)s value: %(value)r",
    "not allowed with argument %s",
    "one of the arguments %s is required",
    "must not be empty",
)
_BETTER = {"invalid %(type)s value: %(value)r": "invalid %(type)s: %(value)r"}  # our types have names of several words
_ENTRY = re.compile(r"(  +\S+(?: \S+)*  +)(\S.*)")
_ENGLISH = ("", "c", "posix", "en")
_METAVAR = re.compile(r"\b[A-Z]{2,}\b|(?<=\[)options(?=\])")
_NOT_WORDS = frozenset(("STR", "INT", "FLOAT", "BOOL", "URL", "REGEX"))


def asked_language(arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    """The language of --lang, wherever it is, else of the locale. An unknown one is reported elsewhere."""
    flag: str | None = None
    ours = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for argument, following in pairwise([*ours, ""]):
        if argument == "--lang":
            flag = following
        elif argument.startswith("--lang="):
            flag = argument.partition("=")[2]
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := environ.get(name))), "")
    if flag in (None, "en") and (flag or re.split(r"[_.@-]", locale.lower())[0]) in _ENGLISH:
        return "en"
    from nanopace.wording.languages import pick_language

    try:
        return pick_language(flag, environ)
    except NanopaceError:
        return pick_language(None, environ)


def translator(lang: str) -> Translate:
    """Returns the function that translates help texts from English."""
    if lang == "en":
        return lambda text: _BETTER.get(text, text)
    from nanopace.wording.catalog import words

    return words(lang).help


def speak(translate: Translate) -> None:
    """Make argparse look up its own messages here. By default, it asks gettext, which only knows the locale's
    language."""
    argparse._ = translate  # type: ignore[attr-defined]


def translate_help(parser: argparse.ArgumentParser, translate: Translate) -> None:
    parser.description = _said(parser.description, translate)
    parser.epilog = _said(parser.epilog, translate)
    if parser.usage is not None:  # its lines begin below each other
        parser.usage = _metavars(parser.usage, translate).replace("\n       ", "\n" + " " * len(translate("usage: ")))
    for group in parser._action_groups:
        group.title = _said(group.title, translate)
    for action in parser._actions:
        action.help = _said(action.help, translate)
        if isinstance(action.metavar, str):
            action.metavar = _metavars(action.metavar, translate)


def help_texts(parser: argparse.ArgumentParser) -> list[str]:
    """The texts that `translate_help` looks up."""
    found: list[str] = []
    translate_help(parser, lambda text: found.append(text) or text)  # type: ignore[func-returns-value]
    return found


class HelpFormatter(argparse.HelpFormatter):
    """Wraps every paragraph and list entry separately; argparse would join all of them."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002
        return "\n".join(
            textwrap.fill(
                body,
                max(width, len(term) + 20),
                initial_indent=term,
                subsequent_indent=" " * len(term),
                break_long_words=False,
                break_on_hyphens=False,
            )
            if body
            else term
            for term, body in _blocks(text)
        )


def _said(text: str | None, translate: Translate) -> str | None:
    if not text or text == argparse.SUPPRESS:
        return text
    return "\n".join(term + (body and translate(body)) for term, body in _blocks(text))


def _metavars(text: str, translate: Translate) -> str:
    """The words that stand for a value, such as FILE in --html FILE; what is typed as it is has small letters."""
    return _METAVAR.sub(lambda found: found[0] if found[0] in _NOT_WORDS else translate(found[0]), text)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Paragraphs, blank lines and entries, each as the part that stays unchanged and the text after it."""
    for verbatim, lines in groupby(text.strip().splitlines(), lambda line: not line.strip() or line.startswith("  ")):
        if not verbatim:
            yield "", " ".join(" ".join(lines).split())
            continue
        for line in lines:
            entry = _ENTRY.fullmatch(line)
            yield (line, "") if entry is None else (entry[1], entry[2])
