"""The catalogues: complete, compiled, and chosen as users expect."""

from __future__ import annotations

import ast
import importlib.util
import io
import re
from pathlib import Path
from types import ModuleType

import pytest
from babel.messages.mofile import write_mo

from nanopace.errors import InputError, Message, UsageError
from nanopace.wording.catalog import words
from nanopace.wording.languages import pick_language
from nanopace.wording.numbers import LANGUAGES
from nanopace.wording.template import placeholders

MANY_WORDS = 3
_WORD = re.compile(r"(?<![{\w.-])[^\W\d_]{2,}(?![}\w])")  # not the name of a value, nor a flag
OTHERS = [language for language in LANGUAGES if language != "en"]


@pytest.fixture(scope="module")
def catalogs() -> ModuleType:
    """The tool that `make catalogs` runs."""
    path = Path(__file__).resolve().parents[2] / "tools" / "catalogs.py"
    spec = importlib.util.spec_from_file_location("catalogs", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("flag", "environ", "language"),
    [
        (None, {}, "en"),
        (None, {"LANG": "de_DE.UTF-8"}, "de"),
        (None, {"LANG": "de_DE.UTF-8", "LC_ALL": "fr_CH"}, "fr"),
        (None, {"LANG": "de_DE.UTF-8", "LC_ALL": "", "LC_MESSAGES": "es_MX.UTF-8"}, "es"),
        (None, {"LANG": "C.UTF-8"}, "en"),
        (None, {"LANG": "POSIX"}, "en"),
        (None, {"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, "en"),
        (None, {"LANG": "ja_JP.UTF-8"}, "en"),
        (None, {"LANG": "fr@euro"}, "fr"),
        ("fr", {"LANG": "de_DE.UTF-8"}, "fr"),
        ("DE", {}, "de"),
        ("es-MX", {}, "es"),
    ],
)
def test_the_language_is_the_flag_s_then_the_locale_s(flag: str | None, environ: dict[str, str], language: str) -> None:
    assert pick_language(flag, environ) == language


@pytest.mark.parametrize("flag", ["xx", "", "english"])
def test_an_unknown_flag_names_those_known(flag: str) -> None:
    with pytest.raises(UsageError, match=r"--lang .*: unknown language; choose from en, de, fr, es"):
        pick_language(flag, {})


@pytest.fixture(scope="module")
def wanted(catalogs: ModuleType) -> set[object]:
    return {message.id for message in catalogs.collect() if message.id}


@pytest.mark.slow
@pytest.mark.parametrize("language", OTHERS)
def test_each_catalogue_has_every_text_and_no_other(catalogs: ModuleType, wanted: set[object], language: str) -> None:
    catalog = catalogs.read(language)
    assert {message.id for message in catalog if message.id} == wanted, "run `make catalogs`"
    assert not catalog.obsolete
    for message in catalog:
        if message.id:
            texts = [message.string] if isinstance(message.string, str) else list(message.string)
            assert all(text.strip() for text in texts), f"{language}: {message.id!r} has no translation"
            assert not message.fuzzy


@pytest.mark.slow
def test_no_text_is_overlooked_where_texts_are_collected(catalogs: ModuleType, wanted: set[object]) -> None:
    """Such as one inside of an f-string."""
    known = {text[0] if isinstance(text, tuple) else text for text in wanted}
    for path in catalogs.SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(ast.Attribute(ast.Name("words"), "text" | "plural"), [ast.Constant(text), *_]):
                    assert text in known, f"{path}: {text!r}"


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_names_the_values_of_its_text(catalogs: ModuleType, language: str) -> None:
    for message in catalogs.read(language):
        if isinstance(message.id, str):
            assert placeholders(message.string) == placeholders(message.id), message.id
        else:
            assert placeholders(message.string[1]) == placeholders(message.id[1]), message.id


def test_no_sentence_is_the_same_in_two_languages(catalogs: ModuleType) -> None:
    """Words and units may be; equal sentences would be in the wrong language."""
    said: dict[str, tuple[str, str]] = {}
    for language in OTHERS:
        for message in catalogs.read(language):
            texts = [message.string] if isinstance(message.string, str) else list(message.string)
            for text in (each for each in texts if message.id and len(_WORD.findall(each)) > MANY_WORDS):
                assert said.setdefault(text, (language, text))[0] == language, (message.id, text)
                assert text not in message.id


@pytest.mark.parametrize("language", OTHERS)
def test_what_is_compiled_is_what_is_written(catalogs: ModuleType, language: str) -> None:
    compiled = io.BytesIO()
    write_mo(compiled, catalogs.read(language))
    assert catalogs.po_file(language).with_suffix(".mo").read_bytes() == compiled.getvalue(), "run `make catalogs`"


def test_a_text_is_translated_and_its_numbers_have_the_language_s_form() -> None:
    assert words().text("iteration {iteration}", iteration=20_000) == "iteration 20,000"
    assert words("de").text("iteration {iteration}", iteration=20_000) == "Iteration 20.000"
    assert words("fr").plural("{n} row", "{n} rows", 0) == "0 ligne"
    assert words("de").plural("{n} row", "{n} rows", 0) == "0 Zeilen"


def test_an_error_is_said_in_the_language_on_one_line() -> None:
    error = InputError("{path}: permission denied", path="a\nb\x1b[2J.log")
    assert words("en").error(error) == "a b [2J.log: permission denied"
    assert words("de").error(error) == "a b [2J.log: Zugriff verweigert"


def test_a_number_that_a_message_rounds_or_groups_has_the_language_s_form() -> None:
    message = Message(
        "{path}: {n:,} of {limit:g}, {ms:,.1f} ms, {share:.0%}", path="a.b", n=1234, limit=1.5, ms=12345.67, share=0.5
    )
    assert message == "a.b: 1,234 of 1.5, 12,345.7 ms, 50%"
    assert words("en").message(message) == message
    assert words("de").message(message) == "a.b: 1.234 of 1.5, 12.345,7 ms, 50 %"
    assert words("fr").message(message) == "a.b: 1 234 of 1.5, 12 345,7 ms, 50 %"
    assert words("es").message(message) == "a.b: 1234 of 1.5, 12.345,7 ms, 50 %"
    assert words("de").error(InputError("{x:.2f} {y:,}", x=float("nan"), y=-1000)) == "nan -1.000"


def test_an_error_that_no_catalogue_has_is_said_in_english() -> None:
    assert words("de").error(InputError("{path}: never heard of", path="x")) == "x: never heard of"
