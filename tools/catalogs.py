"""Collect all texts from the source, update the catalogues, and compile them: `make catalogs`.

A new text appears in each .po with an empty translation; fill it in and run this again. Texts that are no longer in the
source are dropped. The compiled .mo files are committed, so that installing nanopace needs nothing but Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from nanopace.cli.language import OF_ARGPARSE, help_texts
from nanopace.cli.main import COMMANDS, make_parser, make_top_parser
from nanopace.wording import numbers

SOURCE = Path(__file__).resolve().parents[1] / "src" / "nanopace"
LOCALE = SOURCE / "wording" / "locale"
LANGUAGES = tuple(language for language in numbers.LANGUAGES if language != "en")

UNDATED = datetime(2026, 1, 1, tzinfo=UTC)  # fixed, so that files only change when a text does

ERRORS = (
    "NanopaceError", "UsageError", "InputError", "NotALog", "ConfigError", "OutputError",
    "CardError", "UnknownCard", "AmbiguousCard", "Message",
)  # fmt: skip
KEYWORDS = {
    **dict.fromkeys(("text", "label", "say", *ERRORS)),  # the first argument is the text
    **dict.fromkeys(("plural", "say_n"), (1, 2)),
}


def collect() -> Catalog:
    """All texts that the source passes to one of the keywords."""
    catalog = Catalog(project="nanopace", charset="utf-8")
    found = extract_from_dir(SOURCE, method_map=[("**.py", "python")], keywords=KEYWORDS)
    for filename, _, text, _, _ in sorted(found, key=lambda message: (message[0], message[1])):
        catalog.add(text, locations=[(filename, 0)])
    for filename, text in help_of_commands():
        catalog.add(text, locations=[(filename, 0)])
    return catalog


def help_of_commands() -> Iterator[tuple[str, str]]:
    """All texts of every --help, from the parsers themselves, and argparse's own."""
    for name in COMMANDS:
        yield from ((f"cli/commands/{name}.py", text) for text in help_texts(make_parser(name)[0]))
    yield from (("cli/main.py", text) for text in help_texts(make_top_parser()))
    yield from (("cli/language.py", text) for text in OF_ARGPARSE)


def po_file(language: str) -> Path:
    return LOCALE / language / "LC_MESSAGES" / "nanopace.po"


def read(language: str) -> Catalog:
    """A language's catalogue in the repository."""
    with po_file(language).open("rb") as file:
        return read_po(file, locale=language, domain="nanopace")


def update(language: str, template: Catalog) -> Catalog:
    """The language's catalogue with exactly the texts of the template."""
    path = po_file(language)
    catalog = read(language) if path.exists() else Catalog(locale=language, project="nanopace", fuzzy=False)
    catalog.update(template, no_fuzzy_matching=True, update_header_comment=False)
    catalog.obsolete.clear()
    catalog.fuzzy = False
    catalog.creation_date = catalog.revision_date = UNDATED
    catalog.header_comment = f"# nanopace in {catalog.locale.english_name}." if catalog.locale else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        write_po(file, catalog, width=0, include_lineno=False, ignore_obsolete=True)
    with path.with_suffix(".mo").open("wb") as file:
        write_mo(file, catalog)
    return catalog


def main() -> int:
    template = collect()
    empty = 0
    for language in LANGUAGES:
        for message in update(language, template):
            texts = message.string if isinstance(message.string, (tuple, list)) else (message.string,)
            if message.id and not all(texts):
                empty += 1
                print(f"{language}: no translation for {message.id!r}", file=sys.stderr)
    return 1 if empty else 0


if __name__ == "__main__":
    sys.exit(main())
