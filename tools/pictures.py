"""Retake the screenshots in README and docs: the live page and a report, light and dark.

python tools/pictures.py        # needs chromium and playwright
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES, IMAGES = ROOT / "examples", ROOT / "docs" / "images"
NANOPACE = (sys.executable, "-m", "nanopace")
OPTIONS = ("--gpu=RTX 4070", f"--config={EXAMPLES / 'narrow.py'}", "--lang=en")
SHARE_DONE = 0.7  # of the run shown on the live page


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        report = Path(directory, "report.html")
        command = [*NANOPACE, "explain", EXAMPLES / "slow-rows.log", f"--html={report}", "--lang=en"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        _picture(browser, report.as_uri(), "report")
        with _live(Path(directory)) as address:
            _picture(browser, address, "live")
        browser.close()


def _picture(browser: Browser, address: str, name: str) -> None:
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": 1280, "height": 860}, color_scheme=scheme, device_scale_factor=1)
        page.goto(address)
        page.wait_for_selector(".uplot canvas")
        page.wait_for_timeout(500)
        path = IMAGES / f"{name}-{scheme}.png"
        page.screenshot(path=path)
        page.close()
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KB")


@contextmanager
def _live(directory: Path) -> Iterator[str]:
    """Serve a run that looks unfinished; yield the page's address."""
    rows = (EXAMPLES / "narrow.log").read_text().splitlines(keepends=True)
    log = directory / "narrow.log"
    log.write_text("".join(rows[: int(SHARE_DONE * len(rows))]))
    command = [*NANOPACE, "watch", log, "--web", "--port=0", "--price=0.30 EUR/h", *OPTIONS]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"})
    try:
        assert server.stderr is not None
        yield next(found.group() for line in server.stderr if (found := re.search(r"http://\S+/", line)))
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
