"""The language of --help and of argparse's own messages."""

from __future__ import annotations

import argparse
import ast
import gettext
import inspect
import os
import re
import subprocess
import sys

import pytest

from nanopace.cli import main as main_module
from nanopace.cli.language import OF_ARGPARSE, HelpFormatter, asked_language, help_texts
from nanopace.cli.main import COMMANDS, main, make_parser, make_top_parser
from nanopace.wording.catalog import LOCALE
from nanopace.wording.numbers import LANGUAGES

OTHERS = [language for language in LANGUAGES if language != "en"]
# Messages that only a bug of ours could cause, or that need what our parsers lack: subparsers, files, value counts.
NOT_FOR_USERS = (
    "not defined|required' is|mutually exclusive|not callable|conflicting|cannot |dest=|string %|prog|parser|mode %r"
    "|can't open|unrecognized|ambiguous|expected %s|positionals|subcommands|unexpected|deprecated|heading|conflict_"
)


@pytest.fixture(params=[None, *COMMANDS])
def texts(request: pytest.FixtureRequest) -> list[str]:
    """The texts in the help of one command, or of nanopace itself."""
    return help_texts(make_top_parser() if request.param is None else make_parser(request.param)[0])


@pytest.mark.parametrize("language", OTHERS)
def test_every_help_text_is_in_every_catalogue(texts: list[str], language: str) -> None:
    catalogue = gettext.translation("nanopace", LOCALE, languages=[language])
    untranslated = catalogue._catalog.keys()  # type: ignore[attr-defined]
    assert [text for text in (*texts, *OF_ARGPARSE) if text not in untranslated] == []


def test_every_message_of_argparse_is_known() -> None:
    called = (each for each in ast.walk(ast.parse(inspect.getsource(argparse))) if isinstance(each, ast.Call))
    looked_up = (each.args[0] for each in called if getattr(each.func, "id", "") in ("_", "ngettext"))
    messages = {each.value for each in looked_up if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    assert "the following arguments are required: %s" in messages
    assert {each for each in messages if not re.search(NOT_FOR_USERS, each)} <= {*OF_ARGPARSE}


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A made-up language that puts translated texts in brackets."""
    monkeypatch.setattr(main_module, "translator", lambda lang: lambda text: f"<{lang}|{text}>")
    monkeypatch.setattr(argparse, "_", str)  # as it was, afterwards
    monkeypatch.setenv("COLUMNS", "1000")


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_help_is_translated_as_a_whole(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main_module, "translator", lambda lang: str if lang == "en" else str.upper)
    monkeypatch.setattr(argparse, "_", str)  # as it was, afterwards
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        main([command, "--help", "--lang", "de"])
    shown = capsys.readouterr().out
    assert shown.startswith("USAGE: ")
    texts = {text.upper() for text in help_texts(make_parser(command)[0])} - {"POSITIONAL ARGUMENTS"}  # some have none
    assert [text for text in texts if text.replace("%%", "%") not in shown] == []
    after_usage = shown[shown.index("\n\n") :]
    assert not [line for line in after_usage.splitlines() if re.match(r"[a-z]|.*  (?!nanopace )[a-z]+ [a-z]", line)]


@pytest.mark.parametrize("language", OTHERS)
def test_a_message_names_a_value_as_the_help_does(language: str) -> None:
    """--gpu NOM in one and --gpu NAME in the other would be two things."""
    catalogue = gettext.translation("nanopace", LOCALE, languages=[language])
    texts = catalogue._catalog  # type: ignore[attr-defined]
    metavars = {text for command in COMMANDS for text in help_texts(make_parser(command)[0]) if text.isupper()}
    assert {"FILE", "NAME", "VALUE", "COMMAND", "TARGET"} <= metavars
    for english, said in texts.items():
        if not isinstance(english, str):
            continue
        for metavar in metavars & {*re.findall(r"\b[A-Z]{2,}\b(?!:)", english)}:  # FILE:prompt.txt is typed like that
            translated = texts[metavar]
            assert re.search(rf"\b{translated}\b", said), (english, said)
            assert translated == metavar or not re.search(rf"\b{metavar}\b", said), (english, said)


@pytest.mark.usefixtures("marked")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain"], "<en|the following arguments are required: <en|LOG>>"),
        (["explain", "x", "--lang", "de", "--width"], "<de|argument --width: <de|expected one argument>>"),
        (["--lang=fr", "explain", "x", "--stage=y"], "<fr|argument --stage: <fr|invalid choice: 'y' (choose from "),
        (["explain", "x", "--gpu=", "--lang=es"], "<es|argument --gpu: <es|must not be empty>>"),
        (["explain", "x", "--json=1"], "<en|argument --json: <en|ignored explicit argument '1'>>"),
    ],
)
def test_argparse_speaks_it_too(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"nanopace: {said}")


@pytest.mark.parametrize(
    ("arguments", "locale", "language"),
    [
        (["explain", "--help", "--lang", "de"], "", "de"),
        (["explain", "--help", "--lang=fr"], "de_DE.UTF-8", "fr"),
        (["--lang", "es", "explain", "--help"], "de_DE.UTF-8", "es"),
        (["explain", "--help"], "de_AT.UTF-8", "de"),
        (["explain", "--help"], "en_US.UTF-8", "en"),
        (["explain", "--lang", "en"], "de_DE.UTF-8", "en"),
        (["explain", "--lang", "tlh"], "fr_FR", "fr"),
        (["watch", "--log=x", "--", "trainer", "--lang", "fr"], "C.UTF-8", "en"),
        (["explain", "--lang"], "", "en"),
    ],
)
def test_lang_counts_wherever_it_stands(arguments: list[str], locale: str, language: str) -> None:
    assert asked_language(arguments, {"LANG": locale}) == language


@pytest.mark.parametrize("lang", ["en_US.UTF-8", "C.UTF-8", "POSIX"])
def test_english_help_loads_no_catalogue(lang: str) -> None:
    probe = "import sys; from nanopace.cli.main import main\ntry: main(['--help'])\nfinally: print([*sys.modules])"
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE", "LC_"))}
    environment = bare | {"LANG": lang}
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, env=environment)
    assert "nanopace.cli.main" in done.stdout
    assert "nanopace.wording" not in done.stdout


def test_paragraphs_and_lists_are_wrapped_by_themselves() -> None:
    parser = argparse.ArgumentParser(prog="x", formatter_class=lambda prog: HelpFormatter(prog, width=40))
    parser.description = """A sentence that is longer than
a line.

list:
  term   meaning of the term in a few words
  x --long=example
"""
    shown = parser.format_help().split("\n\n")[1:3]
    assert shown == [
        "A sentence that is longer than a line.",
        "list:\n  term   meaning of the term in a few\n         words\n  x --long=example",
    ]


def test_python_m_nanopace_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nanopace", "explain", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("usage: nanopace explain ")
