"""Samples of the model's text: on the page and with --verbose, the newest first, and inert."""

from __future__ import annotations

import json

from nanopace.record import replace
from nanopace.run import Sample
from nanopace.views.json import explain_json
from nanopace.views.sections import MOST_SAMPLES, Explained
from nanopace.wording.catalog import words

from .cases import case_1, explain

SAMPLES = (Sample(0, "qq\x1b[2Jzz"), Sample(500, "the cat\nsat"), Sample(500, "the dog"))
RUN = replace(case_1(), samples=SAMPLES)


def rows(verbose: bool, run: object = RUN) -> list[list[str]]:
    blocks = Explained(run, words("en"), verbose=verbose).sections["samples"].blocks  # type: ignore[arg-type]
    return [[cell.text for cell in row] for row in blocks[0].rows] if blocks else []  # type: ignore[union-attr]


def test_the_newest_iteration_is_first_and_its_samples_in_their_order() -> None:
    assert rows(verbose=True) == [["500", "the cat\nsat"], ["500", "the dog"], ["0", "qq\x1b[2Jzz"]]
    assert rows(verbose=False) == []
    assert rows(verbose=True, run=case_1()) == []


def test_the_terminal_shows_them_if_asked_and_none_steers_it() -> None:
    shown = explain(verbose=True, samples=SAMPLES)
    assert "\nSamples\n" in shown
    assert "the cat sat" in shown
    assert "\x1b[2J" not in shown
    assert "Samples" not in explain(samples=SAMPLES)


def test_of_many_the_newest_are_shown_and_the_others_counted() -> None:
    many = replace(RUN, samples=tuple(Sample(n, "x") for n in range(MOST_SAMPLES + 5)))
    table, more = Explained(many, words("en"), verbose=True).sections["samples"].blocks
    assert table.rows[0][0].text == str(MOST_SAMPLES + 4)  # type: ignore[union-attr]
    assert len(table.rows) == MOST_SAMPLES  # type: ignore[union-attr]
    assert more == "5 more are in the JSON."


def test_the_json_has_them_as_they_came() -> None:
    found = json.loads(explain_json([RUN]))
    assert found["samples"][0] == {"iteration": 0, "text": "qq\x1b[2Jzz"}
    assert [each["iteration"] for each in found["samples"]] == [0, 500, 500]
