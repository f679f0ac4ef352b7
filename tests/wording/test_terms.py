"""One term per thing in every language, as listed in docs/terms.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

from nanopace.wording.catalog import LOCALE

PAGE = (Path(__file__).parents[2] / "docs" / "terms.md").read_text(encoding="utf-8")
LANGUAGES = {"de": 1, "fr": 2, "es": 3}
NAMES = {"de": "German", "fr": "French", "es": "Spanish"}
FIXED = "\u00a0"


def table(head: str) -> list[list[str]]:
    """The rows of the page's table whose first heading is this."""
    lines = PAGE.split(f"| {head} |")[1].splitlines()[2:]
    ends = next(number for number, line in enumerate(lines) if not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:ends]]


TERMS = {row[0]: row for row in table("English")}
FORBIDDEN = {row[0]: re.split(r"\s*, (?=\S)", row[1]) for row in table("language")}


def prose(text: str) -> str:
    """The text without what is typed literally: placeholders, flags, knobs and paths."""
    typed = (
        r"\{[^{}]*\}\w*|--[\w-]+|\S*[_=]\S*|https?://\S+|\(\?P<\S+|\w+\.(?:pkl|pt|json\w*|log|compile)\b"
        r"|val loss|nanopace \w+|named \w+"
    )
    return re.sub(typed, " ", text)


def has(term: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(term)}(?:s|es)?(?![\w-])", text, re.IGNORECASE) is not None


@pytest.fixture(scope="module", params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def messages(language: str) -> list[tuple[str, str]]:
    with (LOCALE / language / "LC_MESSAGES" / "nanopace.po").open("rb") as file:
        catalog = read_po(file, locale=language)
    pairs: list[tuple[str, str]] = []
    for message in catalog:
        if isinstance(message.id, str):
            pairs += [(message.id, str(message.string))] if message.id else []
        else:
            pairs += zip(message.id, message.string, strict=True)
    return pairs


def test_terms_are_those_of_the_page(messages: list[tuple[str, str]], language: str) -> None:
    assert len(TERMS) > 40
    wrong = []
    for english, translated in messages:
        plain, said = prose(english), prose(translated).casefold()
        for term, row in TERMS.items():
            if any(has(form.strip(), plain) for form in term.split("/")):
                words = [word.strip().casefold() for word in row[LANGUAGES[language]].split("/")]
                if not any(word in said for word in words):
                    wrong.append(f"{term}: {english!r} is {translated!r}")
    assert not wrong, "\n".join(wrong)


def test_what_misleads_is_nowhere(messages: list[tuple[str, str]], language: str) -> None:
    for word in FORBIDDEN[NAMES[language]]:
        found = re.compile(rf"(?<![\w{{]){re.escape(word)}")  # {used} is no Spanish word
        assert [text for _, text in messages if found.search(text.replace(FIXED, " "))] == [], word


def test_advice_is_given_in_the_infinitive(messages: list[tuple[str, str]], language: str) -> None:
    """FORBIDDEN has the Spanish orders, which have no form of their own."""
    orders = {"de": r"[a-zäöüß,] (?:Sie|Ihnen|Ihre?[mnrs]?|du|dein\w*)\b", "fr": r"\b(?!assez|chez)\w+ez\b"}
    if language in orders:
        assert [text for _, text in messages if re.search(orders[language], text)] == []


def test_french_does_not_break_before_its_punctuation(messages: list[tuple[str, str]], language: str) -> None:
    if language == "fr":
        breaking = re.compile(r"[ \u202f][:;?!%](?:\s|$)|\w[;?!](?:\s|$)|« | »|\d[ \u202f]%")
        assert [text for _, text in messages if breaking.search(text)] == []
