"""Every reason and note that `recommend` can give has a sentence, and there are no others."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from nanopace.tune.recommend import budget, choices, notes
from nanopace.tune.recommend.several_cards import _LINKS
from nanopace.wording.catalog import words
from nanopace.wording.numbers import LANGUAGES
from nanopace.wording.reasons import LINKS, NOTES, REASONS
from nanopace.wording.template import placeholders


def texts_in(module: object) -> set[str]:
    """Every string in a module's source."""
    tree = ast.parse(Path(str(vars(module)["__file__"])).read_text(encoding="utf-8"))
    return {
        str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_no_sentence_is_without_its_code() -> None:
    assert set(REASONS) <= texts_in(choices) | texts_in(budget)
    assert set(NOTES) <= texts_in(notes)
    assert set(LINKS) == set(_LINKS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_is_said_with_its_numbers(language: str) -> None:
    said = words(language)
    for table, say in ((REASONS, said.reason), (NOTES, said.note)):
        for code, sentence in table.items():
            names = {name for template in sentence.templates for name in placeholders(template.many or template.one)}
            text = say(code, dict.fromkeys(names, 3.0))
            assert text
            assert "{" not in text
    assert all(said.link(code) for code in LINKS)


def test_a_size_is_written_in_short() -> None:
    assert words().reason("shape", {"weights": 123_551_232}) == "123.6M parameters in all"
    assert words().reason("save_interval", {"lost_s": None}) == "with every evaluation; written in the background"
