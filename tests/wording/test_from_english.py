"""What a ledger says in English is said again in the user's language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages.extract import extract_from_dir
from hypothesis import given
from hypothesis import strategies as st

import nanopace
from nanopace.errors import Message
from nanopace.wording.catalog import words
from nanopace.wording.from_english import _TELLING
from nanopace.wording.numbers import LANGUAGES

SOURCE = Path(nanopace.__file__).parent
VALUES = {
    "path": "out/step-00000020", "dtype": "bfloat16", "reason": "No space left on device", "rates": "min_lr=6e-05",
    "error": Message("{path}: permission denied", path="x"), "kernel": "flash", "tracker": "wandb",
    "others": Message("{kernel} {ms:.2f} ms", kernel="cudnn", ms=1.5), "has": "amx", "last": "hidden",
    "faster": Message("{product} ×{speed:.2f}", product="qkv", speed=1.57),
    "slower": Message("{product} not possible", product="head"),
}  # fmt: skip


def filled(template: str) -> Message:
    values: dict[str, object] = {}
    for name, spec in re.findall(r"\{(\w+)(?::([^{}]*))?\}", template):
        values[name] = (1234 if "f" not in spec else 12.75) if {",", "."} & {*spec} else VALUES.get(name, "17")
    return Message(template, **values)


@pytest.fixture(scope="module")
def templates() -> list[str]:
    """Of what the trainer reports."""
    texts = [
        message
        for room in ("train", "ledger", "trackers")
        for _, _, message, _, _ in extract_from_dir(SOURCE / room, [("**.py", "python")], keywords={"Message": None})
    ]
    assert len(texts) > 100
    return [text for text in texts if len(re.sub(r"\{[^{}]*\}| ", "", text)) >= _TELLING]


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_the_trainer_reports_is_found_again(templates: list[str], language: str) -> None:
    says = words(language)
    for template in templates:
        message = filled(template)
        assert " ".join(says.from_english(str(message)).split()) == says.message(message)


def test_what_is_not_finite_and_what_is_no_path() -> None:
    says = words("de")
    skipped = "step 1: loss nan, gradient norm -inf: skipped, the weights stay as they were (skipped so far: 1)"
    assert says.from_english(skipped).startswith("Schritt 1: Loss nan, Gradientennorm -inf: übersprungen")
    back = "step 3: 3 steps in a row were NaN or infinite; going back to {path}, and on with the data in another order"
    assert "auf den Anfang, dann" in says.from_english(back.format(path="the beginning"))
    assert "auf out/a, dann" in says.from_english(back.format(path="out/a"))


def test_a_choice_is_its_value_and_its_reason() -> None:
    says = words("de")
    assert says.from_english("eager: nothing is compiled") == "eager: nichts wird kompiliert"
    assert says.from_english(
        "speed relative to bf16: qkv ×1.57; left in bf16: head not possible, measured earlier"
    ) == ("Tempo gegenüber bf16: qkv ×1,57; weiterhin in bf16: head nicht möglich, früher gemessen")


@pytest.mark.parametrize(
    "text", ["", "data", "loss", "my own note", "step x: loss nan, gradient norm inf: skipped", "step 1: " * 100_000]
)
def test_what_is_none_of_ours_stays_as_it_is(text: str) -> None:
    assert words("fr").from_english(text) == text


@given(st.text())
def test_whatever_it_says(text: str) -> None:
    assert isinstance(words("es").from_english(text), str)
