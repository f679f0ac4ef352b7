"""Cost of the live page: first paint and memory with 864,000 rows, a training run with 50 pages open, and memory leaks.

paint      a server follows a log of 864,000 rows, and a browser opens its page: the first paint, and the server's peak
           memory
pages      a training run uses all CPU cores while a server with 50 open pages is stopped and continued in turns: the
           ratio of steps per second
leak       a page receives 100 changes, then 400 more: the browser's memory after each

python bench/live_page.py              # about ten minutes; needs chromium and playwright
python bench/live_page.py --only pages
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROWS = 864_000
SETTLE_S = 180.0  # until the load average shows that the cores are busy, and the first pages are drawn
PAGES, WINDOW_S, BLOCKS = 50, 2.0, 120
POLITE = 19  # niceness of the clients: other machines usually have the browsers
PAINT_S, MEMORY_MB, COST = 1.0, 200, 0.01
HEADER = "tokens per iteration will be: 16,384\nnumber of parameters: 123.59M\n"


def row(i: int, dice: random.Random) -> str:
    """A row as nanoGPT prints it, with an evaluation every 2,000 iterations and a stall now and then."""
    loss = 3 + 7 / (1 + i / 500)
    ms = dice.gauss(100, 1.2) + (400 if dice.random() < 0.0003 else 0)
    before = ""
    if i % 2000 == 0:
        ms += 9000
        before = f"step {i}: train loss {loss:.4f}, val loss {loss + 0.05:.4f}\n"
    return f"{before}iter {i}: loss {loss + dice.gauss(0, 0.04):.4f}, time {ms:.2f}ms, mfu 38.20%\n"


def write_log(path: Path, rows: int) -> None:
    dice = random.Random(1)
    path.write_text(HEADER + "".join(row(i, dice) for i in range(rows)))


@contextmanager
def served(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "nanopace", "watch", *map(str, arguments), "--web", "--port=0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = next(found for line in process.stderr if (found := re.search(r"http://\S+/", line)))
        yield process, found.group()
    finally:
        process.kill()
        process.wait()


@contextmanager
def browser() -> Iterator[Page]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield opened.new_page()
        opened.close()


def paint(directory: Path) -> bool:
    log = directory / "long.log"
    write_log(log, ROWS)
    with served(log) as (server, address), browser() as page:
        time.sleep(3.0)  # the log has been read by then: only the first page is measured
        page.goto(address)
        page.wait_for_selector(".uplot canvas")
        first = page.evaluate("performance.getEntriesByType('paint')[0].startTime") / 1000
        drawn = page.evaluate("performance.now()") / 1000
        with log.open("a") as file:
            file.writelines(row(i, random.Random(i)) for i in range(ROWS, ROWS + 50))
        page.wait_for_timeout(15_000)
        peak = _peak_mb(server.pid)
    print(f"paint   {ROWS:,} rows: first paint {first:.2f} s, charts drawn {drawn:.2f} s; server peak {peak:.0f} MB")
    return first < PAINT_S and peak < MEMORY_MB


def _peak_mb(pid: int) -> float:
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024  # type: ignore[union-attr]


def pages(directory: Path) -> bool:
    """The ratio of speeds, and the server's share of a core.

    The server is stopped and continued in turns: a window with open pages, two without, and another one with them. All
    windows are short, since the speed of a shared machine drifts by a few per cent. What is due while the server is
    stopped is done when it continues, so the windows with open pages show twice the real cost.
    """
    text = directory / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 20_000)
    nanopace = [sys.executable, "-m", "nanopace"]
    subprocess.run(
        [*nanopace, "prepare", text, "--tokenizer=bytes", f"--out={directory / 'corpus'}"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    knobs = {
        "dataset": directory / "corpus", "out_dir": directory / "out", "device": "cpu", "compile": False, "n_layer": 2,
        "n_head": 2, "n_embd": 64, "block_size": 64, "batch_size": 8, "gradient_accumulation_steps": 1,
        "max_iters": 1_000_000, "log_interval": 1, "eval_interval": 1_000_000, "eval_iters": 2,
    }  # fmt: skip
    training = subprocess.Popen(
        [*nanopace, "train", *(f"--{key}={value}" for key, value in knobs.items())],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    ledger = directory / "out" / "ledger.jsonl"
    ratios, without = [], []
    try:
        while not ledger.exists():
            time.sleep(0.2)
        with served(directory / "out") as (server, address):
            viewers = multiprocessing.get_context("spawn").Process(target=_view, args=(address,), daemon=True)
            viewers.start()
            time.sleep(SETTLE_S)
            began_s, spent_s = time.monotonic(), _cpu_s(server.pid)
            steps = Steps(ledger)
            for _ in range(BLOCKS):
                first = steps.per_s(WINDOW_S)
                server.send_signal(signal.SIGSTOP)
                without.append(steps.per_s(2 * WINDOW_S))
                server.send_signal(signal.SIGCONT)
                ratios.append((first + steps.per_s(WINDOW_S)) / 2 / without[-1])
            share = (_cpu_s(server.pid) - spent_s) / (time.monotonic() - began_s)
    finally:
        training.kill()
    ratio, error = mean(ratios), stdev(ratios) / len(ratios) ** 0.5
    cost = (1 - ratio) / 2
    print(
        f"pages   {PAGES} open: {ratio:.4f} ± {error:.4f} times the speed with the server stopped "
        f"({mean(without):.0f} steps/s), an estimated cost of {cost:.2%} ± {error / 2:.2%}; "
        f"the server uses {share:.2%} of a core"
    )
    return share < COST and cost < COST and ratio + 2 * error > 1 - COST


class Steps:
    """Counts the steps that a training run adds to its ledger, reading each line once."""

    def __init__(self, ledger: Path) -> None:
        self._file = ledger.open("rb")
        self._new()

    def per_s(self, seconds: float) -> float:
        """The speed during the next seconds."""
        self._new()
        began_s = time.monotonic()
        time.sleep(seconds)
        return self._new() / (time.monotonic() - began_s)

    def _new(self) -> int:
        return self._file.read().count(b'"event":"step"')


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _view(address: str) -> None:
    """Open PAGES pages without a browser: each reads what the server sends."""
    os.nice(POLITE)
    asyncio.run(_open(address))


async def _open(address: str) -> None:
    port = int(re.search(r":(\d+)", address.removeprefix("http:")).group(1))  # type: ignore[union-attr]

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /events?run=ledger.jsonl HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        while await reader.read(1 << 20):
            pass

    await asyncio.gather(*(one() for _ in range(PAGES)), return_exceptions=True)


def leak(directory: Path) -> bool:
    """The server is sped up here, so that a week of changes fits in a minute."""
    import uvicorn

    from nanopace.live.web import app, library
    from nanopace.live.web.app import Site
    from nanopace.live.web.library import Library
    from nanopace.live.web.pages import Pages
    from nanopace.sources.runs import open_runs

    app.TICK_S = app.BUSY_TICK_S = 0.01
    library.SHARE = library.BUSY_SHARE = 0.0
    log = directory / "grows.log"
    write_log(log, 300)
    followed = Library([str(log)], open_runs)
    server = uvicorn.Server(
        uvicorn.Config(
            Site(followed, Pages(followed), "en").app(host="127.0.0.1", token=None), port=0, log_level="error"
        )
    )
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    held = []
    with browser() as page:
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_selector(".uplot canvas")
        page.evaluate("document.addEventListener('nanopace:news', () => window.told = (window.told ?? 0) + 1)")
        cdp = page.context.new_cdp_session(page)
        cdp.send("Performance.enable")
        at, dice = 300, random.Random(2)
        for changes in (100, 500):
            while page.evaluate("window.told ?? 0") < changes:
                with log.open("a") as file:
                    file.write(row(at, dice))
                at += 1
                time.sleep(0.02)
            cdp.send("HeapProfiler.collectGarbage")
            held.append({each["name"]: each["value"] for each in cdp.send("Performance.getMetrics")["metrics"]})
    server.should_exit = True

    for name, unit in (("JSHeapUsedSize", 1e6), ("Nodes", 1.0), ("JSEventListeners", 1.0)):
        first, last = (each[name] / unit for each in held)
        print(f"leak    {name}: {first:,.1f} after 100 changes, {last:,.1f} after 400 more")
    return (
        held[1]["JSEventListeners"] <= 1.2 * held[0]["JSEventListeners"] and held[1]["Nodes"] <= 1.5 * held[0]["Nodes"]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("paint", "pages", "leak"))
    only = parser.parse_args().only
    measures: dict[str, Any] = {"paint": paint, "pages": pages, "leak": leak}
    with tempfile.TemporaryDirectory() as directory:
        good = [measure(Path(directory)) for name, measure in measures.items() if only in (None, name)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
