"""What a chart shows under a real mouse: the row there, not a neighbour's value, and distinct ticks."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence

import pytest

from nanopace.diagnosis.diagnose import diagnose
from nanopace.diagnosis.result import Curves, Diagnosis
from nanopace.sources.runs import open_runs
from nanopace.views.page.page import explain_page
from nanopace.wording.catalog import words

from .conftest import CHROMIUM, EXAMPLES, Open

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no chromium")]

EDGE = 0.012  # of the x span, to its left and right


class Shown:
    """A chart on a page, and the mouse over it."""

    def __init__(self, page: playwright.Page, name: str) -> None:
        self.page = page
        self.figure = page.locator(f"figure[data-chart$={name}]")
        self.figure.scroll_into_view_if_needed()
        key = self.figure.get_attribute("data-chart") or ""
        data = json.loads(page.locator("#report-data").text_content() or "")
        self.series = {series["label"]: series for series in data["charts"][key]["series"]}
        xs = [x for series in self.series.values() for x in series["x"]]
        self.low, self.high = min(xs), max(xs)
        room = EDGE * (self.high - self.low)
        self.low, self.high = self.low - room, self.high + room

    def places(self, *values: float) -> tuple[list[float], float]:
        """Where values of x are on the screen, and the top of the frame."""
        box = self.figure.locator(".u-over").bounding_box()
        return [box["x"] + box["width"] * (x - self.low) / (self.high - self.low) for x in values], box["y"]

    def point(self, x: float, y: float = 60) -> dict[str, str]:
        """Move the mouse to a value of x, and read the legend."""
        [place], top = self.places(x)
        self.page.mouse.move(place, top + y)
        legend = self.figure.locator(".u-legend .u-series")
        labels, values = (legend.locator(each).all_inner_texts() for each in (".u-label", ".u-value"))
        return {label.strip(): value.replace("\u00a0", " ") for label, value in zip(labels, values, strict=True)}

    def zoom(self, low: float, high: float) -> None:
        [first, last], top = self.places(low, high)
        self.page.mouse.move(first, top + 40)
        self.page.mouse.down()
        self.page.mouse.move(last, top + 60)
        self.page.mouse.up()
        room = EDGE * (high - low)
        self.low, self.high = low - room, high + room  # approximately: a mouse moves by whole pixels

    def ticks(self) -> tuple[list[str], list[str]]:
        """The labels of both axes: x labels share their height, y labels their left edge."""
        texts = self.figure.locator(".u-wrap canvas").evaluate("canvas => canvas.texts")
        level = [(text, x, y) for text, x, y, upright in texts if upright]
        by_y: dict[int, list[str]] = {}
        by_x: dict[int, list[str]] = {}
        for text, x, y in level:
            by_y.setdefault(y, []).append(text)
            by_x.setdefault(x, []).append(text)
        return max(by_y.values(), key=len), max(by_x.values(), key=len)


def with_times(run: Diagnosis, times: Sequence[float]) -> Diagnosis:
    """The same run with these rows, none of them slow."""
    count = len(times)
    seconds = tuple(0.1 * n for n in range(count))
    nothing = (None,) * count
    curves = Curves(tuple(range(count)), tuple(times), nothing, nothing, nothing, nothing, seconds)
    return dataclasses.replace(run, curves=curves, slow_rows=())


# --- hover -----------------------------------------------------------------------------------------------------------


def test_pointing_shows_the_row_there_and_no_neighbours_value(
    open_page: Open, pages: dict[str, str], run: Diagnosis
) -> None:
    """Evaluations come every 500 iterations, rows every 100: between two evaluations there is none."""
    loss = Shown(open_page(pages["explain"]), "loss-iteration")
    printed = dict(zip(run.curves.row_iteration, run.curves.row_loss, strict=True))
    evaluated = dict(zip(run.curves.eval_iteration, run.curves.eval_val, strict=True))
    assert 10_400 not in evaluated
    for iteration in (0, 2_000, 10_300, 10_400, 10_500, 10_600, 19_900, 20_000):
        said = loss.point(iteration)
        assert said["Iteration"] == f"{iteration:,}"
        assert said["printed"].startswith(f"{printed[iteration]:.4f}")
        expected = f"{evaluated[iteration]:.4f}" if iteration in evaluated else "–"
        assert said["validation"].split(" ")[0] == expected
    ahead = run.loss.forecast[0]
    said = loss.point(ahead.iteration)
    assert said["forecast, 80% interval"] == f"{ahead.loss:.4f} ({ahead.low:.4f} – {ahead.high:.4f})"
    assert {said["printed"], said["validation"]} == {"–"}


def test_pointing_at_a_slow_row_shows_its_time_and_no_normal_ones(
    open_page: Open, pages: dict[str, str], run: Diagnosis
) -> None:
    times = Shown(open_page(pages["explain"]), "times")
    slow = {row.iteration: row for row in run.slow_rows}
    row_ms = dict(zip(run.curves.row_iteration, run.curves.row_ms, strict=True))
    for iteration in (10_400, 10_500, 10_600, 11_000):
        said = times.point(iteration)
        known = {label: value for label, value in said.items() if value != "–" and label != "Iteration"}
        assert said["Iteration"] == f"{iteration:,}"
        if iteration in slow:
            assert list(known.values()) == [f"{slow[iteration].ms / 1000:.3f} s"]
            assert "evaluation" in next(iter(known))
        else:
            (label,) = known
            assert label == "normal"
            assert known[label] == f"{row_ms[iteration]:.2f} ms"


def test_of_rows_in_one_column_of_pixels_the_one_at_the_pointer_is_shown(open_page: Open, run: Diagnosis) -> None:
    """Ten rows per pixel, one with an evaluation: pointing at its mark shows it; below the mark, a normal row."""
    count = 10_000
    middle = count // 2
    dense = with_times(run, [5000.0 if n == middle else 100.0 for n in range(count)])
    times = Shown(open_page(explain_page([dense], words("en"))), "times")
    height = times.figure.locator(".u-over").bounding_box()["height"]
    # The log axis extends 1.1 times beyond data that spans a ratio of 50: the marks are a twelfth from the edges.
    top, bottom = height / 12, height * 11 / 12
    assert times.point(middle, top)["normal"] == "5.000 s"
    assert times.point(middle, bottom)["normal"] == "100.00 ms"


# --- ticks -----------------------------------------------------------------------------------------------------------


def distinct(labels: list[str]) -> bool:
    return len(labels) == len(set(labels))


@pytest.mark.parametrize("lang", ["en", "de"])
def test_no_tick_repeats_its_label_however_far_one_zooms(open_page: Open, lang: str) -> None:
    wide = diagnose(open_runs(EXAMPLES / "wide-header.log", gpu="RTX 4070")[0])
    page = open_page(explain_page([wide], words(lang)))
    for name in ("times", "mfu", "loss-tokens", "loss-seconds"):
        chart = Shown(page, name)
        across, up = chart.ticks()
        assert len(across) > 3
        assert len(up) > 2
        assert distinct(across)
        assert distinct(up)
        for _ in range(6):
            low, high = chart.low, chart.high
            chart.zoom(low + 0.55 * (high - low), low + 0.85 * (high - low))
            across, up = chart.ticks()
            assert distinct(across), across
            assert distinct(up), up
        chart.figure.locator(".u-over").dblclick()  # the others follow


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1179.0, 1184.0, r"1\.1[78]\d\ss"),
        (169.24, 169.31, r"169\.\d\d\sms"),
        (60_000.0, 61_000.0, r"(1\.\d+\smin|6\d\.\d\ss)"),
        (160.0, 220.0, r"\d+\sms"),
    ],
)
def test_times_that_are_close_have_as_many_digits_as_they_need(
    open_page: Open, run: Diagnosis, low: float, high: float, expected: str
) -> None:
    close = with_times(run, [low + (high - low) * (n % 7) / 6 for n in range(50)])
    _, up = Shown(open_page(explain_page([close], words("en"))), "times").ticks()
    assert len(up) > 2
    assert distinct(up), up
    assert all(re.fullmatch(expected, label) for label in up), up


def test_a_logarithmic_axis_keeps_its_ticks_where_one_zooms_into_normal_rows(
    open_page: Open, pages: dict[str, str]
) -> None:
    times = Shown(open_page(pages["explain"]), "times")
    _, up = times.ticks()
    assert {"200\u00a0ms", "1\u00a0s", "10\u00a0s"} <= set(up)
    times.zoom(10_090, 10_410)  # only normal rows
    _, up = times.ticks()
    assert len(up) > 2
    assert distinct(up), up
    assert all(label.endswith("ms") for label in up)


def test_losses_that_are_close_have_as_many_digits_as_they_need(open_page: Open, run: Diagnosis) -> None:
    count = 40
    val = tuple(3.2801 + 0.0009 * (n % 2) for n in range(count))
    curves = Curves(
        eval_iteration=tuple(range(count)),
        eval_seconds=tuple(0.03 * n for n in range(count)),
        eval_train=(None,) * count,
        eval_val=val,
        eval_saved=(False,) * count,
    )
    loss = dataclasses.replace(run.loss, forecast=(), best_val_iteration=None)
    close = dataclasses.replace(run, curves=curves, loss=loss, slow_rows=())
    page = open_page(explain_page([close], words("en")))
    for name in ("loss-iteration", "loss-seconds"):
        across, up = Shown(page, name).ticks()
        assert distinct(across), across
        assert distinct(up), up
        assert all(re.fullmatch(r"3\.2\d{3}", label) for label in up), up


def test_both_axes_say_what_they_show(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["explain"])
    for name, title in (("times", "Time of the row"), ("mfu", "mfu"), ("loss-seconds", "loss")):
        texts = Shown(page, name).figure.locator(".u-wrap canvas").evaluate("canvas => canvas.texts")
        assert [text for text, _, _, upright in texts if not upright] == [title]


# --- marks and strips ------------------------------------------------------------------------------------------------


def test_a_part_is_as_wide_as_its_share(open_page: Open, run: Diagnosis) -> None:
    total = run.wall.total_s
    wall = dataclasses.replace(run.wall, stall_s=0.00007 * total, restart_s=0.003 * total)
    page = open_page(explain_page([dataclasses.replace(run, wall=wall)], words("en")), width=1280)
    strip = page.locator(".strip").bounding_box()["width"]
    parts = page.locator(".strip span").all()
    widths = {re.sub(r".*--shade:var\(--(\w+)\).*", r"\1", part.get_attribute("style")): part for part in parts}
    assert "stall" not in widths
    assert widths["restart"].bounding_box()["width"] == pytest.approx(0.003 * strip, abs=0.5)
    evaluation = run.wall.evaluation_s
    assert evaluation is not None
    assert widths["evaluation"].bounding_box()["width"] == pytest.approx(evaluation / total * strip, rel=0.05)


@pytest.mark.parametrize("long", ["a" * 200, "path/to/" * 20, 0.003])
def test_settings_are_legible_on_a_phone(open_page: Open, run: Diagnosis, long: object) -> None:
    facts = {**run.facts, "gradient_accumulation_steps": dataclasses.replace(run.facts["log_interval"], value=64)}
    facts["dataset"] = dataclasses.replace(run.facts["log_interval"], value=long)
    page = open_page(explain_page([dataclasses.replace(run, facts=facts)], words("en")), width=390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    table = page.locator("table.paired")
    assert table.evaluate("each => each.parentElement.scrollWidth <= each.parentElement.clientWidth")
    name = table.locator("th", has_text="gradient_accumulation_steps")
    assert name.bounding_box()["height"] < 30, "on one line"
    value = table.locator("tr", has=page.locator("th", has_text="dataset")).locator("td").first
    assert value.bounding_box()["width"] > 100


def test_runs_differ_where_there_are_no_colours(open_page: Open, pages: dict[str, str]) -> None:
    """The legend's keys in black and white."""
    page = open_page(pages["compare"])
    shape = """canvas => { const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return data.filter((_, i) => i % 4 === 3).map(alpha => +(alpha > 100)).join(""); }"""
    for name in ("arrival-seconds", "times", "loss-seconds"):
        keys = page.locator(f"figure[data-chart$={name}] .u-legend .u-series", has_text=re.compile(r"^[AB] \S+"))
        solid = keys.filter(has_not_text=re.compile("printed|reaches it|cross")).locator("canvas")
        shapes = [key.evaluate(shape) for key in solid.all()]
        assert len(shapes) == 2
        assert shapes[0] != shapes[1], name


def test_the_crossover_is_marked_where_it_is_said(open_page: Open, pages: dict[str, str]) -> None:
    page = open_page(pages["compare"])
    legend = page.locator("figure[data-chart$=loss-seconds] .u-legend").inner_text().replace("\u00a0", " ")
    crossed = re.search(r"A and B cross: ([\d.]+ h)", legend)
    assert crossed is not None
    assert f"after {crossed[1]}" in page.locator(".verdict").first.inner_text().replace("\u00a0", " ")
