"""A real browser for all these tests, and the pages of the examples."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Diagnosis
from nanopace.sources.runs import open_runs
from nanopace.views.page.page import compare_page, explain_page
from nanopace.wording.catalog import words

if TYPE_CHECKING:
    from playwright import sync_api as playwright

CHROMIUM = shutil.which("chromium")
EXAMPLES = Path(__file__).parents[2] / "examples"
QUIET = (
    *("--no-sandbox", "--disable-gpu", "--in-process-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
# Texts drawn on each canvas since it was last cleared, and their positions. Rotated ones are titles.
LISTEN = """
const pen = CanvasRenderingContext2D.prototype, {fillText, clearRect} = pen;
pen.fillText = function (text, x, y, ...more) {
    (this.canvas.texts ??= []).push([text, Math.round(x), Math.round(y), this.getTransform().b === 0]);
    return fillText.call(this, text, x, y, ...more);
};
pen.clearRect = function (...where) { this.canvas.texts = []; return clearRect.apply(this, where); };
"""

Open = Callable[..., "playwright.Page"]


_browser = pytest.StashKey[tuple["playwright.Browser", ExitStack]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """The browser lives as long as these tests follow each other: its event loop is in the way of asyncio in others."""
    result = yield
    if _browser in item.session.stash and (nextitem is None or Path(__file__).parent not in nextitem.path.parents):
        item.session.stash[_browser][1].close()
        del item.session.stash[_browser]
    return result


@pytest.fixture(scope="module")
def page(request: pytest.FixtureRequest) -> Iterator[playwright.Page]:
    """One page for all tests of a module: a new one takes five times as long as opening another file in an old one.

    Nothing scrolls smoothly in it: a click waits until its target stands still.
    """
    stash = request.session.stash
    if _browser not in stash:
        stack = ExitStack()
        engine = stack.enter_context(pytest.importorskip("playwright.sync_api").sync_playwright())
        browser = engine.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        stack.callback(browser.close)
        stash[_browser] = browser, stack
    with stash[_browser][0].new_context(reduced_motion="reduce") as context:
        page = context.new_page()
        page.add_init_script(LISTEN)
        yield page


@pytest.fixture
def trouble(page: playwright.Page, tmp_path: Path) -> Iterator[list[str]]:
    """What a page must not do in a test: log errors, fail, open a dialog, or request anything but the report."""
    happened: list[str] = []
    listeners = {
        "console": lambda message: happened.append(f"console: {message.text}"),
        "pageerror": lambda error: happened.append(f"error: {error}"),
        "dialog": lambda dialog: (happened.append(f"dialog: {dialog.message}"), dialog.dismiss()),
        "request": lambda request: happened.append(request.url) if request.url != report(tmp_path).as_uri() else None,
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    yield happened
    for event, listener in listeners.items():
        page.remove_listener(event, listener)


@pytest.fixture
def open_page(page: playwright.Page, trouble: list[str], tmp_path: Path) -> Iterator[Open]:
    """Opens a page, and checks at the end that there was no error, request or dialog."""

    def opened(content: str, *, width: int = 1100, scheme: str = "light") -> playwright.Page:
        report(tmp_path).write_text(content, "utf-8")
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        page.mouse.move(0, 0)
        page.goto(report(tmp_path).as_uri())
        page.wait_for_selector(".uplot canvas")
        return page

    yield opened
    page.goto("about:blank")  # once this has loaded, all events of the report have arrived
    assert [each for each in trouble if each != "about:blank"] == []


def picture(page: playwright.Page, name: str, *, whole: bool = False) -> None:
    """Take a screenshot into $NANOPACE_SCREENSHOTS, for anyone who wants to look at the pages."""
    if folder := os.environ.get("NANOPACE_SCREENSHOTS"):
        page.screenshot(path=Path(folder, f"{name}.png"), full_page=whole)


def report(folder: Path) -> Path:
    return folder / "report.html"


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
    """Polls from here: playwright's own way evaluates strings inside the page, which the page's policy forbids."""
    from playwright.sync_api import Error

    end = time.monotonic() + 30
    while True:
        try:
            if page.evaluate(holds):
                return
        except Error:  # the page is being replaced by another, and has no document for a moment
            if time.monotonic() > end:
                raise
        assert time.monotonic() < end, holds
        page.wait_for_timeout(20)
