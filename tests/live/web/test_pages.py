"""The bill of a run on its live page: at its head, and in its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("starlette")

from nanopace.live.web.library import Library
from nanopace.live.web.pages import Pages
from nanopace.prices import Prices
from nanopace.sources.runs import open_runs
from nanopace.views.page.render import Page
from nanopace.wording.catalog import words

from ..made_up import HEADER, rows


def page(tmp_path: Path, prices: Prices | None) -> Page:
    log = tmp_path / "train.log"
    log.write_text(HEADER + "\n".join(rows(0, 60)) + "\n")
    library = Library([str(log)], open_runs)
    library.look()
    return Pages(library, prices).page((), words("en"))


def facts(shown: Page) -> dict[str, str]:
    """What is at the head."""
    bar = cast(dict[str, Any], shown.content["bar"])
    return {each["name"]: each["value"].replace("\u00a0", " ") for each in bar["run"]["facts"]}


def test_the_cost_is_at_the_head_and_in_the_report(tmp_path: Path) -> None:
    shown = page(tmp_path, Prices(3600.0, currency="EUR"))
    assert facts(shown)["cost"].startswith("~EUR ")  # the number of GPUs is inferred
    assert "What it costs" in shown.html()


def test_without_a_price_there_is_none(tmp_path: Path) -> None:
    shown = page(tmp_path, None)
    assert "cost" not in " ".join(facts(shown))
    assert "What it costs" not in shown.html()


def test_unknown_energy_has_no_cost(tmp_path: Path) -> None:
    assert "cost" not in " ".join(facts(page(tmp_path, Prices(kwh=0.3))))
