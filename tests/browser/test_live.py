"""The live page in a real browser, with a growing log and with a training run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nanopace.views.page.slow_list import LIVE_SLOW_ROWS

from ..live.made_up import HEADER, rows
from ..live.web.served import Server, served
from ..train.conftest import TINY, write_corpus
from .axe import axe_source
from .conftest import CHROMIUM, picture, wait_until
from .test_axe import COMPLAINTS

if TYPE_CHECKING:
    from playwright import sync_api as playwright

pytest.importorskip("uvicorn")
pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no chromium")]

# The line to the server is lost, and the page has heard of it.
NOTICE = """
const Line = EventSource;
window.EventSource = class extends Line {
    constructor(address) { super(address); this.addEventListener("error", () => (window.failed = true)); }
};
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "train.log"
    path.parent.mkdir()
    path.write_text(HEADER + "\n".join(rows(0, 60)) + "\n")
    return path


@pytest.fixture
def server(log: Path) -> Iterator[Server]:
    with served(log, "--port=0", "--price=2 EUR/h") as server:
        yield server


@pytest.fixture(autouse=True)
def errors(page: playwright.Page) -> Iterator[list[str]]:
    """A live page may only request from its own server, and never fails."""
    happened: list[str] = []

    def failed(error: object) -> None:
        happened.append(f"error: {error}")

    def asked(request: playwright.Request) -> None:
        if not request.url.startswith(("http://127.0.0.1:", "data:", "about:")):
            happened.append(request.url)

    def dialog(dialog: playwright.Dialog) -> None:
        happened.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("pageerror", failed)
    page.on("request", asked)
    page.on("dialog", dialog)
    page.set_viewport_size({"width": 1280, "height": 900})
    yield happened
    for event, listener in (("pageerror", failed), ("request", asked), ("dialog", dialog)):
        page.remove_listener(event, listener)  # type: ignore[arg-type]
    page.goto("about:blank")
    assert happened == []


def grow(log: Path, first: int, last: int, **more: object) -> None:
    with log.open("a") as file:
        file.write("\n".join(rows(first, last, **more)) + "\n")  # type: ignore[arg-type]


def says(text: str) -> str:
    return f"document.getElementById('live').innerText.includes({text!r})"


def test_it_shows_what_the_log_says_as_it_says_it(page: playwright.Page, server: Server, log: Path) -> None:
    page.goto(server.address)
    page.wait_for_selector(".uplot canvas")
    bar = page.locator("#bar")
    assert "running" in bar.inner_text()
    assert "59 of 200" in bar.inner_text()
    assert "EUR" in bar.inner_text()
    slow = page.locator("figure[data-chart$=times] .u-legend")
    assert "stall" not in slow.inner_text().lower()
    page.locator("details").first.evaluate("it => it.open = true")
    page.evaluate("window.same = document.querySelector('figure[data-chart*=loss] canvas')")
    grow(log, 60, 90, took={74: 3000.0})
    wait_until(page, says("89 of 200"))
    assert page.evaluate("window.same.isConnected"), "a chart that is there is not drawn anew for new points"
    assert page.locator("details").first.evaluate("it => it.open")
    wait_until(page, "document.querySelector('figure[data-chart$=times] .u-legend').innerText.includes('stall')")
    assert "74: stall" in bar.inner_text()
    page.get_by_role("link", name="Slow rows", exact=True).first.click()
    bottom = bar.bounding_box()["height"]  # type: ignore[index]
    assert page.locator("#run-0-slow h2").bounding_box()["y"] >= bottom, "not behind the bar"  # type: ignore[index]
    picture(page, "live")


def test_the_latest_slow_rows_come_on_top_and_leave_the_others_alone(
    page: playwright.Page, server: Server, log: Path
) -> None:
    grow(log, 60, 2700, evaluate=5)  # more slow rows than are listed
    page.goto(server.address)
    rows = page.locator("details[id$=slow-rows]")
    rows.evaluate("it => it.open = true")
    link = rows.locator("tbody a").first
    wait_until(page, "document.querySelector('details[id$=slow-rows] tbody a')?.textContent === '2,695'")
    link.focus()
    page.evaluate("window.focused = document.activeElement")
    grow(log, 2700, 2720, evaluate=5)
    wait_until(page, "document.querySelector('details[id$=slow-rows] tbody a').textContent === '2,715'")
    assert page.evaluate("document.activeElement === window.focused && focused.textContent") == "2,695"
    shown = [int(each.replace(",", "")) for each in rows.locator("tbody th").all_inner_texts()]
    assert shown == [*range(2715, 2715 - 5 * LIVE_SLOW_ROWS, -5)]


def test_a_point_that_came_later_can_be_pointed_at(page: playwright.Page, server: Server, log: Path) -> None:
    page.goto(server.address)
    page.wait_for_selector(".uplot canvas")
    grow(log, 60, 80)
    wait_until(page, says("79 of 200"))
    chart = page.locator("figure[data-chart$=times]")
    chart.locator(".u-wrap").focus()
    page.keyboard.press("End")
    values = chart.locator(".u-legend .u-value").all_inner_texts()
    assert values[0] == "79"
    written = next(line for line in log.read_text().splitlines() if line.startswith("iter 79:"))
    assert values[1].split("\xa0")[0] == written.split("time ")[1].split("ms")[0]


def test_the_language_can_be_switched_and_keeps_being_told(page: playwright.Page, server: Server, log: Path) -> None:
    page.goto(server.address)
    page.get_by_role("link", name="Deutsch").click()
    wait_until(page, "document.documentElement.lang === 'de'")
    grow(log, 60, 70)
    wait_until(page, says("69 von 200"))


def test_runs_of_a_directory_are_listed_and_compared(page: playwright.Page, log: Path) -> None:
    (log.parent / "other.log").write_text(HEADER + "\n".join(rows(0, 80, ms=140.0)) + "\n")
    with served(log.parent, "--port=0") as server:
        page.goto(server.address)
        assert page.locator("tbody tr").count() == 2
        assert page.locator("svg.sparkline").count() == 2
        picture(page, "runs")
        box = page.get_by_label("compare: train.log")
        box.check()
        (log.parent / "third.log").write_text(HEADER + "\n".join(rows(0, 80)) + "\n")
        wait_until(page, "document.querySelectorAll('tbody tr').length === 3")
        assert box.is_checked(), "what is ticked stays ticked"
        page.get_by_label("compare: other.log").check()
        page.get_by_role("button", name="Compare").click()
        page.wait_for_selector(".uplot canvas")
        assert "train.log" in page.locator("h1").inner_text()
        assert "slower" in page.locator("main").inner_text()
        page.get_by_role("link", name="All runs").click()
        page.get_by_role("link", name="other.log").click()
        assert page.locator("h1").inner_text() == "other.log"


def test_axe_finds_nothing_on_the_live_pages(page: playwright.Page, log: Path) -> None:
    axe = axe_source()
    (log.parent / "dead.log").write_text(log.read_text() + "torch.OutOfMemoryError: CUDA out of memory.\n")
    with served(log.parent, "--port=0") as server:
        for place in ("", "?run=dead.log", "?run=train.log&run=dead.log"):
            page.goto(server.address + place)
            page.wait_for_selector(".sparkline, .uplot canvas")
            page.evaluate(axe)
            for scheme in ("dark", "light"):
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                assert page.evaluate(COMPLAINTS) == [], (place, scheme)
                picture(page, f"live-{scheme}-{len(place)}")


def test_it_survives_its_server(page: playwright.Page, log: Path) -> None:
    with page.context.browser.new_context() as context:  # type: ignore[union-attr]
        page = context.new_page()
        page.add_init_script(NOTICE)
        page.clock.install()
        with served(log, "--port=0") as server:
            page.goto(server.address)
            page.wait_for_selector(".uplot canvas")
            port = server.port
        wait_until(page, "window.failed")
        page.clock.fast_forward(4_000)
        assert page.locator("#lost").is_hidden(), "a server that restarts is back sooner"
        page.clock.fast_forward(2_000)
        wait_until(page, "!document.getElementById('lost').hidden")
        grow(log, 60, 95)
        with served(log, f"--port={port}"):
            wait_until(page, says("94 of 200"))
            wait_until(page, "document.getElementById('lost').hidden")


def test_a_hostile_log_stays_inert(page: playwright.Page, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>.log"
    directory = tmp_path / "logs"
    directory.mkdir()
    (directory / name).write_text(
        HEADER.replace("config/train.py", "<script>alert(2)</script>") + "\n".join(rows(0, 60)) + "\n"
    )
    with served(directory, "--port=0") as server:
        page.goto(server.address)
        page.get_by_role("link", name=name).click()
        page.wait_for_selector(".uplot canvas")
        with (directory / name).open("a") as file:
            file.write("\n".join(rows(60, 70)) + "\n</script><script>alert(3)</script>\n")
        wait_until(page, says("69 of 200"))
        assert page.locator("h1").inner_text() == name
        assert page.locator("main img, main script").count() == 0


def test_a_run_that_trains(page: playwright.Page, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus")
    knobs = {**TINY, "max_iters": 400, "eval_interval": 50, "dataset": corpus, "out_dir": "out"}
    command = [
        sys.executable,
        "-m",
        "nanopace",
        "train",
        "--no-report",
        *(f"--{key}={value}" for key, value in knobs.items()),
    ]
    with served(tmp_path / "out", "--port=0") as server:
        page.goto(server.address)
        assert "No training run yet" in page.locator("main").inner_text()
        training = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            page.get_by_role("link", name="ledger").first.click()
            page.wait_for_selector(".uplot canvas")
            assert training.poll() is None or training.returncode == 0
            wait_until(page, says("finished"))
            assert training.wait(60) == 0
        finally:
            training.kill()
        picture(page, "trained")
