"""axe-core finds no problem on any page, light or dark, with everything unfolded."""

from __future__ import annotations

import pytest

from nanopace.diagnosis.result import Diagnosis
from nanopace.views.page.page import Made, explain_page
from nanopace.wording.catalog import words

from .axe import axe_source
from .conftest import CHROMIUM, Open

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no chromium")]

COMPLAINTS = """async () => {
    const {violations} = await axe.run(document, {resultTypes: ["violations"]});
    return violations.flatMap(({id, nodes}) => nodes.map(({html}) => `${id}: ${html.slice(0, 200)}`));
}"""


@pytest.mark.parametrize("kind", ["explain", "several", "compare"])
def test_axe_finds_nothing(open_page: Open, pages: dict[str, str], run: Diagnosis, kind: str) -> None:
    axe = axe_source()
    made = Made("2026-11-17T23:40:00+00:00", "2026-11-17 23:40", "nanopace explain train.log --html report.html")
    several = explain_page([run, run], words("en"), made)
    page = open_page({**pages, "several": several}[kind])
    page.locator("details").evaluate_all("all => all.forEach(each => each.open = true)")
    page.locator("form.find input").first.fill("500")
    page.keyboard.press("Enter")
    page.locator(".u-legend .entry").first.click()  # hidden ones are legible, too
    page.evaluate(axe)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(COMPLAINTS) == [], scheme
