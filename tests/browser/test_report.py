"""The page in a real browser: drawn, legible in both themes and on a phone, without requests, inert to hostile logs."""

from __future__ import annotations

import dataclasses
import re

import pytest

from nanopace.diagnosis.compare.compare import compare
from nanopace.diagnosis.result import Diagnosis, Finding
from nanopace.run import Fact
from nanopace.views.page.notebook import diagnosis_html
from nanopace.views.page.page import compare_page, explain_page
from nanopace.wording.catalog import words

from .conftest import CHROMIUM, Open, wait_until

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no chromium")]

DRAWN = """canvas => {
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const opaque = new Uint32Array(data.buffer).filter(pixel => pixel >>> 24 > 200);
    return new Set(opaque.map(pixel => pixel & 0xffffff)).size;
}"""


@pytest.mark.parametrize(("kind", "charts"), [("explain", 4), ("compare", 7)])
def test_every_chart_is_drawn(open_page: Open, pages: dict[str, str], kind: str, charts: int) -> None:
    page = open_page(pages[kind])
    assert page.locator("figure[data-chart]").count() == charts
    canvases = page.locator(".u-wrap canvas").all()
    assert len(canvases) == charts
    for canvas in canvases:
        assert canvas.evaluate(DRAWN) > 3  # ink of axes, and of at least two series
    assert page.locator(".plot [role=img]").first.get_attribute("aria-label")


def test_pointing_at_a_chart_shows_its_values(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["explain"])
    chart = page.locator("figure[data-chart$=times]")
    assert not chart.locator(".u-legend .u-value", has_text=re.compile(r"\d")).count()
    chart.locator(".u-over").hover(position={"x": 300, "y": 100})
    values = chart.locator(".u-legend .u-value").all_inner_texts()
    assert any(re.search(r"\d\s(ms|s)$", value) for value in values)
    loss = page.locator("figure[data-chart$=loss-seconds]")
    loss.locator(".u-over").hover(position={"x": 300, "y": 100})
    assert "perplexity" in loss.locator(".u-legend").inner_text()


def test_the_goal_stands_beside_the_curves_that_reach_it(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["compare"])
    chart = page.locator("figure[data-chart$=arrival-seconds]")
    legend = chart.locator(".u-legend")
    assert [text in legend.inner_text() for text in ("goal: 3.", "A reaches it", "B reaches it")] == [True] * 3
    chart.locator(".u-wrap").focus()
    page.keyboard.press("End")  # the goal is a line from the first step to the end
    goal = legend.locator(".u-series", has_text="goal: ").locator(".u-value").inner_text()
    assert goal.startswith("3.")


def test_the_arrow_keys_do_what_the_mouse_does(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["explain"])
    chart = page.locator("figure[data-chart$=mfu]")
    chart.locator(".u-wrap").focus()
    page.keyboard.press("End")
    last = chart.locator(".u-legend .u-value").first.inner_text()
    page.keyboard.press("ArrowLeft")
    before = chart.locator(".u-legend .u-value").first.inner_text()
    assert last == "20,000"
    assert before not in (last, "–")


@pytest.mark.parametrize("kind", ["explain", "compare"])
@pytest.mark.parametrize("width", [375, 1100])
def test_nothing_is_wider_than_the_screen(open_page: Open, pages: dict[str, str], kind: str, width: int) -> None:
    page = open_page(pages[kind], width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert all(canvas.bounding_box()["width"] <= width for canvas in page.locator(".u-wrap canvas").all())


@pytest.mark.parametrize("width", [700, 900, 1200])
def test_no_table_is_cut_off(open_page: Open, pages: dict[str, str], width: int) -> None:
    page = open_page(pages["compare"])
    page.set_viewport_size({"width": width, "height": 900})
    wait_until(page, "[...document.querySelectorAll('.u-wrap')].every(each => each.clientWidth < innerWidth)")
    hidden = (
        "[...document.querySelectorAll('table')].filter(t => t.parentElement.scrollWidth > t.parentElement.clientWidth)"
    )
    wait_until(page, f"{hidden}.length === 0")  # charts follow the window a moment later


def test_charts_follow_the_width_of_the_window(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["explain"])
    page.set_viewport_size({"width": 500, "height": 800})
    wait_until(page, "document.querySelector('.u-wrap canvas').getBoundingClientRect().width < 500")
    assert page.evaluate("document.documentElement.scrollWidth") <= 500


def test_dark_and_light_differ_and_change_at_once(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["explain"], scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    drawn = "document.querySelector('.u-wrap canvas').toDataURL()"
    dark = page.evaluate(ground)
    page.evaluate(f"window.before = {drawn}")
    page.emulate_media(color_scheme="light")
    wait_until(page, f"{ground} !== '{dark}'")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    wait_until(page, f"{drawn} !== window.before")  # the charts are redrawn a moment later


@pytest.mark.parametrize(("scheme", "text", "ground"), [("dark", 232, 20), ("light", 27, 255), ("normal", 27, 255)])
def test_a_notebook_is_legible_on_any_ground(
    page: playwright.Page, run: Diagnosis, scheme: str, text: int, ground: int
) -> None:
    """As the notebook says, whatever colours it gives to tables; on white where it does not say."""
    theirs = f"body {{color-scheme: {scheme}}} .out table {{color: #888}} .out tr:nth-child(odd) {{background: #777}}"
    page.set_content(f"<!doctype html><style>{theirs}</style><body><div class=out>{diagnosis_html(run)}</div>")
    colours = (
        "it => [getComputedStyle(it).color, getComputedStyle(it).backgroundColor].map(each => +each.match(/\\d+/))"
    )
    assert page.locator(".nanopace").evaluate(colours) == [text, ground]
    for cell in ("tr >> nth=0", "td >> nth=0"):
        assert page.locator(f".nanopace {cell}").evaluate(colours) == [text, 0]  # nothing: it is transparent


def test_numbers_are_in_the_language_of_the_page(open_page: Open, run: Diagnosis) -> None:
    page = open_page(explain_page([run], words("de")))
    chart = page.locator("figure[data-chart$=mfu]")
    chart.locator(".u-over").hover(position={"x": 300, "y": 50})
    assert "," in chart.locator(".u-legend .u-value").nth(1).inner_text()


def test_a_log_full_of_scripts_is_inert(open_page: Open, run: Diagnosis) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>"
    poisoned = dataclasses.replace(
        run,
        source=dataclasses.replace(run.source, name=evil),
        facts={**run.facts, "gpu": Fact(evil, "log")},
        mfu=dataclasses.replace(run.mfu, card=0.5, card_name=evil, card_tflops=100.0, printed_peak_tflops=312.0),
        findings=(Finding("conflict", {"knob": evil, "used": evil, "other": evil}),),
    )
    page = open_page(explain_page([poisoned], words("en")))
    assert page.locator("h1").inner_text() == evil
    assert evil in page.locator("figure[data-chart$=mfu] .u-legend").inner_text()
    assert page.locator("img").count() == 0
    page = open_page(compare_page([compare(poisoned, poisoned)], words("en")))
    assert evil in page.locator("h1").inner_text()
