"""How responsive the page of a very long run is: 864,000 rows, ten days at a step per second.

Prints the size of the page, the first paint, when all charts are drawn, and the browser's time per frame for a zoom
(all charts of the run move together) and for a moving pointer.

    python bench/page_speed.py                # first writes the log, which takes a few seconds
    python bench/page_speed.py --rows 20000
"""

from __future__ import annotations

import argparse
import gzip
import random
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

from playwright.sync_api import Page, sync_playwright

from nanopace.api import diagnose, open_runs, render

ROWS = 864_000
ROUNDS = 5
FIRST_PAINT_BAR_MS = 1000

# Zoom in or out, or move the pointer, and return how long it took: everything is drawn before it returns.
ZOOM = """key => { const chart = document.querySelector("figure[data-chart$=times] .u-wrap"), start = performance.now();
    chart.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })); return performance.now() - start; }"""
POINT = """left => { const over = document.querySelector("figure[data-chart$=times] .u-over");
    const box = over.getBoundingClientRect();
    const at = { clientX: box.left + left, clientY: box.top + 50, bubbles: true }, start = performance.now();
    over.dispatchEvent(new MouseEvent("mousemove", at)); return performance.now() - start; }"""


def write_log(path: Path, rows: int) -> None:
    """Write a log like nanoGPT's: an evaluation every 2,000 iterations, and now and then a row slow for no reason."""
    chance = random.Random(1)
    with path.open("w") as log:
        log.write("tokens per iteration will be: 491,520\n")
        for n in range(rows):
            loss = 3 + 8 * (1 + n / 500) ** -0.5 + chance.gauss(0, 0.05)
            ms = 1000 * chance.gauss(1, 0.01)
            if n % 2000 == 0:
                log.write(f"step {n}: train loss {loss:.4f}, val loss {loss + 0.02:.4f}\n")
                ms += 30_000
            if chance.random() < 1e-4:
                ms *= 1 + 4 * chance.random()
            log.write(f"iter {n}: loss {loss:.4f}, time {ms:.2f}ms, mfu 38.00%\n")


def opened(page: Page, report: Path) -> tuple[float, float]:
    """First contentful paint, and when the last script was done, in ms since the page was requested."""
    page.goto("about:blank")
    page.goto(report.as_uri())
    page.wait_for_selector(".uplot canvas")
    page.wait_for_timeout(200)
    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
    return page.evaluate(paint), page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=ROWS)
    rows = arguments.parse_args().rows
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as engine:
        log, report = Path(folder, "long.log"), Path(folder, "report.html")
        write_log(log, rows)
        start = time.perf_counter()
        report.write_text(render(diagnose(open_runs(log)[0]), format="html"), "utf-8")
        made_s = time.perf_counter() - start
        content = report.read_bytes()
        browser = engine.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        times = [opened(page, report) for _ in range(ROUNDS)]
        zooms = [page.evaluate(ZOOM, key) for _ in range(ROUNDS) for key in ("+", "+", "-", "-")]
        moves = [page.evaluate(POINT, 100 + 5 * n) for n in range(100)]
        charts = page.locator("figure[data-chart]").count()
        browser.close()
    paint, drawn = (median(each[which] for each in times) for which in (0, 1))
    print(f"{rows:,} rows: page generated in {made_s:.1f} s")
    print(f"{len(content):,} bytes, gzipped {len(gzip.compress(content)):,}")
    print(f"first paint {paint:.0f} ms (bar {FIRST_PAINT_BAR_MS}), all {charts} charts drawn {drawn:.0f} ms")
    print(f"zooming all charts: median {median(zooms):.1f} ms, longest {max(zooms):.1f} ms")
    print(f"moving the pointer: median {median(moves):.1f} ms, longest {max(moves):.1f} ms")
    return int(paint > FIRST_PAINT_BAR_MS)


if __name__ == "__main__":
    raise SystemExit(main())
