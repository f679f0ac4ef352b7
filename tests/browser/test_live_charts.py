"""Charts of one run move together, and take new data without losing the reader's choices."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.sources.runs import open_runs
from nanopace.views.page.page import explain_page
from nanopace.wording.catalog import words

from .conftest import CHROMIUM, EXAMPLES, Open

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no chromium")]

NAMES = ("times", "throughput", "mfu", "loss-tokens", "loss-seconds")
TIMES = "figure[data-chart$=times]"
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture(scope="module")
def known() -> str:
    """The page of a run with known tokens: it has charts over iterations, tokens and seconds."""
    return explain_page([diagnose(open_runs(EXAMPLES / "wide-header.log", gpu="RTX 4070")[0])], words("en"))


def charts_of(page: playwright.Page) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.locator("#report-data").text_content() or "")["charts"]
    return found


def call(page: playwright.Page, function: str, *values: object) -> Any:
    result = page.evaluate(f"([...values]) => window.nanopaceCharts.{function}(...values)", list(values))
    page.evaluate(FRAMES)
    return result


def row(page: playwright.Page, figure: str) -> str:
    return page.locator(f"{figure} .u-legend .u-value").first.inner_text()


def ends(page: playwright.Page, figure: str) -> tuple[str, str]:
    """The first and the last row in view, found by pointing at both edges, because the keyboard does not show them."""
    over = page.locator(f"{figure} .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    found = []
    for x in (2, box["width"] - 2):
        page.mouse.move(box["x"] + x, box["y"] + 100)
        found.append(row(page, figure))
    return found[0], found[1]


def drag(page: playwright.Page, figure: str, first: float, last: float) -> None:
    over = page.locator(f"{figure} .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    page.mouse.move(box["x"] + first * box["width"], box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + last * box["width"], box["y"] + 60)
    page.mouse.up()


def legend(page: playwright.Page, figure: str) -> dict[str, str]:
    rows = page.locator(f"{figure} .u-legend .u-series")
    labels, values = (rows.locator(each).all_inner_texts() for each in (".u-label", ".u-value"))
    return {label.strip(): value.replace("\u00a0", " ") for label, value in zip(labels, values, strict=True)}


def key_of(page: playwright.Page, name: str) -> str:
    return next(key for key in charts_of(page) if key.endswith(name))


# --- together --------------------------------------------------------------------------------------------------------


def test_a_zoom_shows_the_same_stretch_on_every_axis_and_double_click_takes_it_back(
    open_page: Open, known: str
) -> None:
    page = open_page(known)
    figures = {name: f"figure[data-chart$={name}]" for name in NAMES}
    whole = {name: ends(page, figure) for name, figure in figures.items()}
    assert page.locator(".controls button", has_text="Reset zoom").first.is_hidden()
    drag(page, figures["loss-seconds"], 0.25, 0.5)  # half of 4,800 iterations of 9.4 s each
    assert ends(page, TIMES) == ends(page, figures["mfu"]) == ("1,200", "2,400")
    assert ends(page, figures["loss-tokens"]) == ("629.1456M", "1.258291B")  # of 524,288 each
    assert ends(page, figures["loss-seconds"]) == ("3\u00a0h 8\u00a0min 1\u00a0s", "6\u00a0h 15\u00a0min 33\u00a0s")
    page.locator(f"{TIMES} .u-over").dblclick()
    assert {name: ends(page, figure) for name, figure in figures.items()} == whole
    page.locator(f"{TIMES} .u-wrap").focus()
    page.keyboard.press("+")
    assert ends(page, figures["loss-tokens"]) != whole["loss-tokens"]
    page.locator(".controls button", has_text="Reset zoom").first.click()
    assert ends(page, figures["loss-tokens"]) == whole["loss-tokens"]


def test_the_cursor_of_one_chart_is_on_the_same_row_of_the_others(open_page: Open, known: str) -> None:
    page = open_page(known)
    charts = charts_of(page)
    seconds = charts[key_of(page, "loss-seconds")]["series"][0]["x"]
    iterations = charts[key_of(page, "loss-tokens")]["series"][0]["x"]
    page.locator(f"{TIMES} .u-wrap").focus()
    page.keyboard.press("Home")
    for number in range(1, 8):
        page.keyboard.press("ArrowRight")
        here = int(row(page, TIMES).replace(",", ""))
        assert here * 524_288 == iterations[number]
        shown = legend(page, "figure[data-chart$=loss-seconds]")
        assert shown["printed"] == legend(page, "figure[data-chart$=loss-tokens]")["printed"] != "–"
        assert len(seconds) == len(iterations)


def test_walking_announces_the_row_in_the_language_of_the_page(open_page: Open) -> None:
    run = diagnose(open_runs(EXAMPLES / "slow-rows.log")[0])
    page = open_page(explain_page([run], words("en")))
    page.evaluate("document.addEventListener('nanopace:row', event => window.heard = event.detail.text)")
    page.locator(f"{TIMES} .u-wrap").focus()
    page.keyboard.press("End")
    slow = next(each for each in run.slow_rows if each.iteration == 20_000)
    heard = page.evaluate("window.heard").replace("\u00a0", " ")
    assert heard == f"Iteration 20,000: {slow.ms / 1000:.3f} s, evaluation"


def test_an_iteration_is_found_and_the_zoom_follows_it(open_page: Open, known: str) -> None:
    page = open_page(known)
    drag(page, TIMES, 0.25, 0.4)
    found = call(page, "goTo", 4_190)
    assert found["iteration"] == 4_200
    assert found["values"][0]["label"] == "normal"
    assert {"loss: printed", "mfu: as printed"} <= {each["label"] for each in found["values"]}
    assert row(page, TIMES) == "4,200"
    assert legend(page, "figure[data-chart$=loss-tokens]")["printed"] == found["values"][-1]["text"].replace(
        "\u00a0", " "
    )
    first, last = (int(each.replace(",", "")) for each in ends(page, TIMES))
    assert first <= 4_200 <= last
    assert first > 2_400


# --- controls --------------------------------------------------------------------------------------------------------


def test_smoothing_draws_a_mean_that_does_not_start_too_low(open_page: Open, known: str) -> None:
    page = open_page(known)
    figure = "figure[data-chart$=loss-tokens]"
    page.locator(f"{figure} select").select_option("strong")
    page.locator(f"{figure} .u-wrap").focus()
    page.keyboard.press("Home")
    shown = legend(page, figure)
    assert shown["printed, smoothed"] == shown["printed"]
    series = charts_of(page)[key_of(page, "loss-tokens")]["series"][0]
    reach = max(1 / 60, 12 / len(series["x"])) * (series["x"][-1] - series["x"][0])
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    here = float(legend(page, figure)["printed, smoothed"].split(" ")[0])
    last = max(
        n for n, x in enumerate(series["x"]) if f"{series['y'][n]:.4f}" == legend(page, figure)["printed"].split(" ")[0]
    )
    weights = [math.exp((x - series["x"][last]) / reach) for x in series["x"][: last + 1]]
    mean = sum(weight * y for weight, y in zip(weights, series["y"], strict=False)) / sum(weights)
    assert here == pytest.approx(mean, abs=1e-4)
    page.locator(f"{figure} select").select_option("none")
    assert "printed, smoothed" not in legend(page, figure)


def test_logarithmic_axes_are_switched_by_the_keyboard(open_page: Open, known: str) -> None:
    page = open_page(known)
    figure = page.locator("figure[data-chart$=loss-tokens]")
    note = figure.locator("figcaption .note")
    assert note.inner_text() == "Axis cropped: the run starts higher."
    texts = figure.locator(".u-wrap canvas")
    before = {text for text, *_ in texts.evaluate("canvas => canvas.texts")}
    figure.locator("button", has_text="Log x").focus()
    page.keyboard.press("Enter")
    assert figure.locator("button", has_text="Log x").get_attribute("aria-pressed") == "true"
    after = {text for text, *_ in texts.evaluate("canvas => canvas.texts")}
    assert {"200M", "500M", "1B"} <= after - before | {"500M", "1B"}
    assert "0" not in after
    assert note.is_hidden()  # the start is in the frame


def test_a_series_is_hidden_and_shown_again_by_the_keyboard(open_page: Open, known: str) -> None:
    page = open_page(known)
    loss = page.locator("figure[data-chart$=loss-tokens]")
    entry = loss.get_by_role("button", name="training", exact=True)
    drawn = "canvas => canvas.toDataURL()"
    canvas = loss.locator(".u-wrap canvas")
    whole = canvas.evaluate(drawn)
    for key, pressed in (("Enter", "false"), ("Space", "true")):
        entry.press(key)
        assert entry.get_attribute("aria-pressed") == pressed
        assert (canvas.evaluate(drawn) == whole) == (pressed == "true")
    other = loss.get_by_role("button", name="validation", exact=True)
    other.click(modifiers=["ControlOrMeta"])  # this one alone
    assert [entry.get_attribute("aria-pressed"), other.get_attribute("aria-pressed")] == ["false", "true"]


# --- new data --------------------------------------------------------------------------------------------------------


def test_new_data_leave_zoom_hidden_series_and_smoothing_as_they_are(open_page: Open, known: str) -> None:
    page = open_page(known)
    charts = charts_of(page)
    loss, times = "figure[data-chart$=loss-tokens]", key_of(page, "times")
    page.locator(f"{loss} .u-legend .u-series", has_text="training").locator("th").click()
    page.locator(f"{loss} select").select_option("light")
    drag(page, TIMES, 0.25, 0.5)
    zoomed = ends(page, TIMES)
    page.evaluate("document.querySelectorAll('.uplot').forEach(each => each.old = true)")
    for key, chart in charts.items():
        for series in chart["series"]:
            series["y"] = [None if y is None else 1.1 * y for y in series["y"]]
        call(page, "refresh", {key: chart})
    assert ends(page, TIMES) == zoomed
    assert legend(page, TIMES)["normal"].endswith(" s")
    charts[times]["series"][0]["y"] = [12_345.0] * len(charts[times]["series"][0]["x"])
    call(page, "refresh", {times: charts[times]})
    assert legend(page, TIMES)["normal"] == "12.345 s"  # under the pointer, which did not move
    assert page.evaluate("[...document.querySelectorAll('.uplot')].every(each => each.old)")  # none was rebuilt
    assert "u-off" in page.locator(f"{loss} .u-series", has_text="training").get_attribute("class")
    assert page.locator(f"{loss} select").input_value() == "light"
    page.locator(f"{TIMES} .u-wrap").focus()
    page.keyboard.press("End")
    assert row(page, TIMES) == "4,800"


def test_a_chart_that_shows_everything_follows_the_run_and_a_new_series_is_drawn(open_page: Open, known: str) -> None:
    page = open_page(known)
    key = key_of(page, "times")
    normal = charts_of(page)[key]["series"][0]
    call(page, "extend", {key: {"0": {"from": len(normal["x"]) - 1, "x": [4900, 5800], "y": [9000.0, 9500.0]}}})
    assert ends(page, TIMES)[1] == "5,800"
    assert legend(page, TIMES)["normal"] == "9.500 s"
    chart = charts_of(page)[key]
    chart["series"].append({**normal, "label": "stall", "mark": "cross", "x": [6000], "y": [20_000.0]})
    page.locator(TIMES).get_by_role("button", name="normal").press("Enter")
    call(page, "refresh", {key: chart, "later-times": chart})
    assert page.evaluate("document.activeElement.textContent") == "normal", "the new plot takes over the focus"
    assert page.evaluate("document.activeElement.ariaPressed") == "false"
    page.keyboard.press("Enter")
    assert ends(page, TIMES)[1] == "6,000"
    assert legend(page, TIMES)["stall"] == "20.000 s"
    page.evaluate("""() => { const figure = document.createElement("figure"), plot = document.createElement("div");
        figure.dataset.chart = "later-times"; plot.className = "plot"; figure.append(plot);
        document.querySelector("main").append(figure); nanopaceCharts.draw(figure); }""")
    assert page.locator("figure[data-chart=later-times] canvas").count() > 0


def test_charts_that_left_the_page_leave_nothing_behind(open_page: Open, known: str) -> None:
    """Drawn and removed many times, as on a page that stays open for a week."""
    page = open_page(known)
    session = page.context.new_cdp_session(page)

    def counted() -> tuple[int, int]:
        page.evaluate(FRAMES)
        session.send("HeapProfiler.collectGarbage")
        found = session.send("Memory.getDOMCounters")
        return found["jsEventListeners"], found["nodes"]

    again = """count => { for (let n = 0; n < count; n++) {
        const figures = [...document.querySelectorAll("figure[data-chart]")];
        for (const figure of figures) {
            const fresh = figure.cloneNode(false), plot = document.createElement("div");
            plot.className = "plot"; fresh.append(plot); figure.replaceWith(fresh);
        }
        nanopaceCharts.forget(); nanopaceCharts.draw(document); } }"""
    page.evaluate(again, 2)
    before = counted()
    page.evaluate(again, 10)
    after = counted()
    assert after[0] <= before[0] + 5
    assert after[1] <= before[1] + 50
