"""Reports of hostile logs in a real browser, as `nanopace explain --html` and `compare --html` write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from nanopace.cli.main import main
from nanopace.views.page.render import SCRIPTS

from ..hostile.evil import HTML, write_all
from .conftest import CHROMIUM, report

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no chromium")]

KNOWN = {
    *("html", "head", "meta", "title", "style", "body", "script", "noscript", "header", "main", "footer", "nav"),
    *("article", "section", "div", "span", "p", "h1", "h2", "h3", "a", "strong", "code", "ul", "li", "dl", "dt", "dd"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary", "figure", "figcaption"),
    *("svg", "rect", "path", "canvas", "form", "label", "input", "select", "option", "button", "output", "time"),
}
FOREIGN = """() => [...document.querySelectorAll("*")].filter(each =>
    [...each.attributes].some(({name, value}) => name.startsWith("on") || /javascript:|evil/.test(
        name === "aria-label" || name === "title" || name === "data-head" ? "" : value))
).map(each => each.outerHTML.slice(0, 200))"""


@pytest.mark.parametrize("command", ["explain", "compare"])
def test_nothing_of_a_hostile_log_acts(
    command: str, page: playwright.Page, trouble: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([command, *write_all(tmp_path), "--html=report.html"]) == 0
    page.goto(report(tmp_path).as_uri())
    page.wait_for_selector(".uplot canvas", state="attached")
    for details in page.locator("details").all():
        details.evaluate("each => each.open = true")
    for link in page.locator("a").all():
        assert (link.get_attribute("href") or "").startswith("#")
        link.focus()  # brings the skip link into view
        link.click()
    for place in page.locator("h1, th, td, .u-over").all()[:60]:
        place.dispatch_event("mouseover")
    page.mouse.wheel(0, 3000)
    assert page.evaluate("window.ran") is None
    tags = page.evaluate("[...new Set([...document.querySelectorAll('*')].map(each => each.localName))]")
    assert set(tags) <= KNOWN
    assert page.evaluate(FOREIGN) == []
    assert page.locator("script").count() == 1 + len(SCRIPTS)  # the data, too
    assert "<script>window.ran=1" in page.locator("body").inner_text()  # all of it is there as text
    content = page.content()
    assert all(character.isprintable() or character in "\n\t\u00a0\u202f" for character in content)
    page.goto("about:blank")
    assert [each for each in trouble if each != "about:blank"] == []


def test_even_a_script_that_got_into_the_page_would_not_run(
    page: playwright.Page, trouble: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's policy allows our scripts by their hashes, and lets nothing else run, load or be sent."""
    monkeypatch.chdir(tmp_path)
    names = write_all(tmp_path)
    assert main(["explain", names[0], "--html=report.html"]) == 0
    file = report(tmp_path)
    injected = f"{HTML}--><form action=//evil.example><input autofocus onfocus=window.ran=7></form>"
    file.write_text(file.read_text("utf-8").replace('<main id="main"', f'{injected}<main id="main"', 1), "utf-8")
    loaded: list[str] = []
    page.on("requestfinished", lambda request: loaded.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_selector(".uplot canvas", state="attached")
    page.locator("a", has_text="click").first.dispatch_event("click")
    assert page.locator("img").count() == 1  # it did get in
    assert page.evaluate("window.ran") is None
    assert loaded == [file.as_uri()]
    assert any("Content Security Policy" in each for each in trouble)
    assert not any(each.startswith(("dialog", "error")) for each in trouble)
