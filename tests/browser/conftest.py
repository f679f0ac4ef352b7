"""A real browser for all of these tests, and the pages of the examples."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.sources.runs import open_runs
from nanopace.views.page import compare_page, explain_page
from nanopace.wording.catalog import words

if TYPE_CHECKING:
    from playwright import sync_api as playwright

CHROMIUM = shutil.which("chromium")
EXAMPLES = Path(__file__).parents[2] / "examples"
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

Open = Callable[..., "playwright.Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with pytest.importorskip("playwright.sync_api").sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: playwright.Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a page, and holds it to its promise at the end: no error, no request, no dialog."""
    trouble: list[str] = []
    contexts = []

    def opened(content: str, *, width: int = 1100, scheme: str = "light") -> playwright.Page:
        file = tmp_path / "report.html"
        file.write_text(content, "utf-8")
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: trouble.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (trouble.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: trouble.append(request.url) if request.url != file.as_uri() else None)
        page.goto(file.as_uri())
        page.wait_for_selector(".uplot canvas")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert trouble == []


@pytest.fixture(scope="module")
def run() -> Diagnosis:
    return diagnose(open_runs(EXAMPLES / "slow-rows.log")[0])


@pytest.fixture(scope="module")
def pages(run: Diagnosis) -> dict[str, str]:
    narrow = diagnose(open_runs(EXAMPLES / "narrow.log", config=EXAMPLES / "narrow.py", gpu="RTX 4070")[0])
    wide = diagnose(open_runs(EXAMPLES / "wide-header.log", gpu="RTX 4070")[0])
    english = words("en")
    return {"explain": explain_page([run], english), "compare": compare_page([compare(narrow, wide)], english)}


def wait_until(page: playwright.Page, holds: str) -> None:
    """Asked from here: playwright's own way evaluates strings inside the page, which the page does not allow."""
    end = time.monotonic() + 30
    while not page.evaluate(holds):
        assert time.monotonic() < end, holds
        page.wait_for_timeout(20)
