"""What a reader does with a page besides its charts: copy the suggested change, find a row, choose a theme, print."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from nanopace.diagnosis.result import Diagnosis
from nanopace.views.page.page import Made, explain_page
from nanopace.wording.catalog import words

from .conftest import CHROMIUM, Open, picture, report, wait_until

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no chromium")]


def test_the_answer_and_its_proof_are_on_the_first_screen(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["explain"], width=1280)
    assert page.locator(".headline").inner_text() == "Time can be saved"
    for part in (".headline", ".copy button", ".proof .u-wrap"):
        box = page.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= 800, part


def test_the_change_is_copied_and_says_so(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["explain"])
    page.evaluate("navigator.clipboard.writeText = async text => { window.copied = text; }")
    button = page.locator(".verdict .copy button")
    button.click()
    assert page.evaluate("window.copied") == "--eval_interval=2000" == page.locator(".verdict code").inner_text()
    assert button.inner_text() == "Copied"
    assert page.locator("#announced").inner_text() == "Copied: --eval_interval=2000"


def test_a_row_is_found_told_and_linked_to(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["explain"])
    told, chart = page.locator("form.find output"), page.locator("figure[data-chart$=times] .u-legend")
    page.locator("form.find input").fill("13,520")
    page.keyboard.press("Enter")
    wait_until(page, "document.querySelector('form.find output').textContent")
    said = r"Nearest row: Iteration 13,500 · evaluation \+ checkpoint 5\.780\ss · .*loss: printed 3\.9841 .*"
    assert re.fullmatch(said, told.inner_text())
    assert page.evaluate("location.hash") == "#iteration-13520"
    assert chart.locator(".u-value").first.inner_text() == "13,500"  # the cursor is there, too
    page.locator("details").evaluate_all("all => all.forEach(each => each.open = true)")
    page.locator("details a", has_text=re.compile("^500$")).click()
    wait_until(page, "document.querySelector('form.find output').textContent.startsWith('Iteration 500 · ')")
    assert chart.locator(".u-value").first.inner_text() == "500"
    assert page.evaluate("location.hash") == "#iteration-500"
    page.locator("form.find input").fill("soon")
    page.keyboard.press("Enter")
    assert told.inner_text() == "Type the number of an iteration."


def test_a_page_opened_at_a_row_shows_it(open_page: Open, run: Diagnosis, tmp_path: Path) -> None:
    page = open_page(explain_page([run, run], words("de")))
    page.goto("about:blank")
    page.emulate_media(reduced_motion="no-preference")
    page.goto(f"{report(tmp_path).as_uri()}#run-1-iteration-600")
    page.wait_for_selector(".uplot canvas")
    assert page.locator("#run-1-find output").inner_text().startswith("Iteration 600 · ")
    assert page.locator("#run-0-find output").inner_text() == ""
    box = "document.querySelector('#run-1 figure[data-chart$=times]').getBoundingClientRect()"
    wait_until(page, f"{box}.top >= 0 && {box}.bottom <= innerHeight")  # the page scrolls smoothly
    page.emulate_media(reduced_motion="reduce")


def test_it_works_on_parts_that_came_later(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["explain"])
    anew = "document.querySelectorAll('article > *').forEach(each => each.replaceWith(each.cloneNode(true)))"
    page.evaluate(f"{anew}; document.querySelectorAll('.plot').forEach(each => each.replaceChildren())")
    page.evaluate("nanopaceCharts.forget(); nanopaceCharts.draw()")
    page.locator("form.find input").fill("500")
    page.keyboard.press("Enter")
    wait_until(page, "document.querySelector('form.find output').textContent.startsWith('Iteration 500')")


def test_a_chosen_theme_holds_and_stays(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["explain"], scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    page.locator("[data-theme-choice]").select_option("dark")
    assert page.evaluate(ground) == "rgb(20, 23, 27)"
    page.reload()
    assert page.evaluate(ground) == "rgb(20, 23, 27)"
    page.emulate_media(color_scheme="dark")
    page.locator("[data-theme-choice]").select_option("light")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.locator("[data-theme-choice]").select_option("auto")
    assert page.evaluate(ground) == "rgb(20, 23, 27)"


def test_a_chosen_theme_is_there_before_anything_is_painted(
    page: playwright.Page, pages: dict[str, str], tmp_path: Path
) -> None:
    """What is so when the body begins is so in the first frame."""
    report(tmp_path).write_text(pages["explain"], "utf-8")
    with page.context.browser.new_context(color_scheme="light") as context:
        sheet = context.new_page()
        sheet.add_init_script("""new MutationObserver((_, observer) => {
            if (!document.body) return;
            window.atFirst = [document.documentElement.className, document.documentElement.dataset.theme];
            observer.disconnect();
        }).observe(document, {childList: true, subtree: true})""")
        sheet.goto(report(tmp_path).as_uri())
        assert sheet.evaluate("atFirst") == ["nanopace scripts", None]
        sheet.locator("[data-theme-choice]").select_option("dark")
        for _ in range(20):  # a busy browser may reload before it has stored the choice
            sheet.reload()
            if sheet.evaluate("nanopaceTheme.choice()") == "dark":
                break
        assert sheet.evaluate("atFirst") == ["nanopace scripts", "dark"]


def test_a_screen_reader_hears_of_a_row(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["explain"])
    page.locator("figure[data-chart$=times] .u-wrap").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert re.fullmatch(r"Iteration 100: 16\d\.\d+\sms, normal", page.locator("[role=status]").inner_text())


def test_the_keyboard_reaches_everything_and_shows_where_it_is(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["explain"])
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    reached = []
    outlines = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        name, outline = page.evaluate("""() => {
            const at = document.activeElement, {outlineStyle, outlineWidth} = getComputedStyle(at);
            return [at.dataset.copy || at.name || at.hash || at.className, `${outlineStyle} ${outlineWidth}`];
        }""")
        reached.append(name)
        if name:
            outlines.add(outline)
    assert {"--eval_interval=2000", "iteration", "#run-0-slow", "u-wrap", "entry"} <= set(reached)
    assert outlines == {"solid 2px"}


@pytest.mark.parametrize("scripts", [True, False])
def test_every_slow_row_is_on_paper(
    scripts: bool, page: playwright.Page, pages: dict[str, str], tmp_path: Path
) -> None:
    """A tagged PDF has an element for each row of a table."""
    report(tmp_path).write_text(pages["explain"], "utf-8")
    context = page.context.browser.new_context(java_script_enabled=scripts, color_scheme="dark")
    sheet = context.new_page()
    sheet.goto(report(tmp_path).as_uri())
    rows = sheet.locator("tr").count()
    assert sheet.locator("details tr").count() == 42  # 41 slow rows and a head
    pdf = sheet.pdf(tagged=True)
    assert len(re.findall(rb"/S /TR\b", pdf)) == rows
    assert sheet.locator("details[open]").count() == 0  # as it was
    context.close()


def test_no_screen_scrolls_sideways(open_page: Open, run: Diagnosis, pages: dict[str, str]) -> None:
    made = Made("2026-11-17T23:40:00+00:00", "2026-11-17 23:40", "nanopace explain train.log --html report.html")
    bare = dataclasses.replace(run, findings=(), slow_rows=())
    shown = {"explain": explain_page([run], words("en"), made), "bare": explain_page([bare], words("en"), made)}
    for name, content in {**shown, "compare": pages["compare"]}.items():
        for look, width, scheme in (
            ("light", 1280, "light"),
            ("dark", 1280, "dark"),
            ("phone", 360, "light"),
            ("wide", 1920, "light"),
        ):
            page = open_page(content, width=width, scheme=scheme)
            wait_until(page, f"document.querySelector('.u-wrap').clientWidth < {width}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, look)
            picture(page, f"{name}-{look}", whole=True)
        page.emulate_media(media="print")
        picture(page, f"{name}-print", whole=True)
        page.emulate_media(media="screen")
