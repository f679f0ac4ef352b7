"""`nanopace cards`."""

from __future__ import annotations

import pytest

from nanopace.cli.commands import cards
from nanopace.cli.main import main
from nanopace.hardware.cards import all_cards


def test_the_list_has_every_card_and_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(any(line.startswith(card.name) for line in lines) for card in all_cards())
    assert max(map(len, lines)) <= 80


def test_one_card_says_where_its_figures_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "3080", "12GB"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("NVIDIA GeForce RTX 3080\n")
    assert "61.3 TFLOP/s" in shown
    assert "source" in shown


def test_what_is_unknown_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "5090 laptop"]) == 0
    assert "unknown" in capsys.readouterr().out


def test_numbers_have_the_language_s_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "4070", "--lang", "de"]) == 0
    assert "58,3 TFLOP/s" in capsys.readouterr().out
    assert main(["cards", "4070", "--lang", "fr"]) == 0
    shown = capsys.readouterr().out
    assert "12 Go, 504 Go/s" in shown
    assert "46 SM, 2\u202f475 MHz" in shown


def test_how_far_figures_were_checked_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert {card.verified for card in all_cards()} <= cards._CHECKED.keys()
    assert main(["cards", "4070", "--lang", "es"]) == 0
    assert "calculadas a partir de datos publicados" in capsys.readouterr().out


def test_a_shared_name_shows_every_card(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "h100"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("H100 80GB HBM3\n", "H100 PCIe\n", "H100 NVL\n"))
    assert "756 TFLOP/s, bf16" in shown


def test_a_card_without_bf16_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cards", "T4"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "peak for mfu 65 TFLOP/s, fp16 bf16 none fp16 65 TFLOP/s" in shown
