"""What `nanopace watch` costs the trainer that writes to it: throughput, latency and memory, compared with `tee`.

A producer writes nanoGPT's rows to a pipe and a consumer reads them, with `tee /dev/null` or `nanopace watch` in
between, in turns:

    rate       100,000 lines per second for a few seconds: how many really got through, and how long the producer was
               blocked. If `watch` does not slow the pipe down, it takes as long as tee.
    most       the same, as fast as possible
    latency    200 rows per second, each with the time when it was written: how much later does it come out? Then the
               same for rows among 100,000 lines per second
    memory     the peak of `watch` with a million rows

    python bench/watch.py              # about three minutes
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median

NANOPACE = str(Path(sys.executable).with_name("nanopace"))
BETWEEN = {"tee": ["tee", "/dev/null"], "watch": [NANOPACE, "watch"]}
RATE, SECONDS = 100_000, 5
ROUNDS = 3
LATENCY_MS, MEMORY_MB, SLOWER = 50, 60, 1.02

HEADER = (
    "eval_interval = 500\nmax_iters = 100000000\ntokens per iteration will be: 8,192\nnumber of parameters: 124.00M\n"
)


def rows(first: int, count: int, stamp: str = "") -> bytes:
    """Rows with an evaluation every 500 iterations. A timestamp goes at the end of a row, where readers ignore it."""
    lines = []
    for i in range(first, first + count):
        if i % 500 == 0:
            lines.append(f"step {i}: train loss 3.2000, val loss 3.2500")
        lines.append(
            f"iter {i}: loss {3 + 5 / (1 + i / 400):.4f}, time {100 + i % 7 / 10 + 4000 * (i % 500 == 0):.2f}ms"
        )
        lines[-1] += f", mfu 18.00%{stamp}"
    return ("\n".join(lines) + "\n").encode()


class Pipeline:
    """The producer's end, the program in between, and a thread that reads its output."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.taken = 0  # lines
        self.ended_s = 0.0
        self.late_ms: list[float] = []
        self._thread = threading.Thread(target=self._take)
        self._thread.start()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        rest = memoryview(data)
        while rest:
            rest = rest[self.process.stdin.write(rest) :]

    def _take(self) -> None:
        assert self.process.stdout is not None
        fd, rest = self.process.stdout.fileno(), b""
        while chunk := os.read(fd, 1 << 20):
            now = time.monotonic()
            self.taken += chunk.count(b"\n") - chunk.count(b"# nanopace: ")
            self.ended_s = now
            rest += chunk
            at = rest.rfind(b"\n") + 1
            for line in rest[:at].split(b"\n") if b" @" in rest else ():
                if b" @" in line and not line.startswith(b"#"):
                    self.late_ms.append(1000 * (now - float(line.rpartition(b"@")[2])))
            rest = rest[at:]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self._thread.join()


def begun(name: str) -> Pipeline:
    """A pipeline that has already finished its imports."""
    pipeline = Pipeline(BETWEEN[name])
    pipeline.write(HEADER.encode() + rows(0, 20))
    time.sleep(1.0)
    return pipeline


def at_rate(name: str) -> tuple[float, float, list[float]]:
    """Lines per second that came out, the share of time the producer was blocked, and how late lines were."""
    pipeline, each = begun(name), RATE // 100
    blocks = [rows(20 + each * number, each) for number in range(100 * SECONDS)]
    began_s, held_s, before = time.monotonic(), 0.0, pipeline.taken
    for number, block in enumerate(blocks):
        wait_s = began_s + number / 100 - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        stamped = block[:-1] + f" @{time.monotonic():.6f}\n".encode()
        wrote_s = time.monotonic()
        pipeline.write(stamped)
        held_s += time.monotonic() - wrote_s
    ended_s = time.monotonic()
    while pipeline.taken - before < RATE * SECONDS and time.monotonic() < ended_s + 30:
        time.sleep(0.001)
    rate = RATE * SECONDS / (pipeline.ended_s - began_s)
    pipeline.close()
    return rate, held_s / (ended_s - began_s), pipeline.late_ms


def at_most(name: str) -> float:
    """Lines per second, as fast as possible."""
    pipeline, block = begun(name), rows(20, 20_000)
    began_s, before, turns = time.monotonic(), pipeline.taken, 200
    for _ in range(turns):
        pipeline.write(block)
    lines = turns * block.count(b"\n")
    while pipeline.taken - before < lines:
        time.sleep(0.001)
    rate = lines / (pipeline.ended_s - began_s)
    pipeline.close()
    return rate


def latency(name: str) -> list[float]:
    """The latency of single rows, at 200 per second."""
    pipeline = begun(name)
    for number in range(1000):
        pipeline.write(rows(20 + number, 1, f" @{time.monotonic():.6f}"))
        time.sleep(0.005)
    pipeline.close()
    return pipeline.late_ms


def memory_mb() -> float:
    """The peak of watch with a million rows at 100,000 per second."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    pipeline = begun("watch")
    for number in range(100):
        pipeline.write(rows(20 + 10_000 * number, 10_000))
        time.sleep(0.05)
    pipeline.close()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert peak > before, "measure memory first: ru_maxrss is the maximum over all children"
    return peak / 1024


def main() -> int:
    failed = []

    def verdict(name: str, holds: bool) -> str:
        failed.extend([] if holds else [name])
        return "met" if holds else "MISSED"

    peak_mb = memory_mb()
    little = verdict("memory", peak_mb < MEMORY_MB)
    print(f"memory: peak {peak_mb:.1f} MB with 1,000,000 rows (< {MEMORY_MB} MB: {little})")
    rates: dict[str, list[tuple[float, float, list[float]]]] = {name: [] for name in BETWEEN}
    most: dict[str, list[float]] = {name: [] for name in BETWEEN}
    late: dict[str, list[float]] = {name: [] for name in BETWEEN}
    for _ in range(ROUNDS):
        for name in BETWEEN:
            rates[name].append(at_rate(name))
            most[name].append(at_most(name))
            late[name] += latency(name)
    for name in BETWEEN:
        through, held = median(each[0] for each in rates[name]), median(each[1] for each in rates[name])
        under_load = sorted(ms for each in rates[name] for ms in each[2])
        single = sorted(late[name])
        print(
            f"{name:6} at {RATE:,} lines/s: {through:,.0f} got through, producer blocked {held:.1%} of the time; "
            f"maximum {median(most[name]):,.0f} lines/s"
        )
        for what, ms in (("200 rows/s", single), (f"{RATE:,} lines/s", under_load)):
            print(f"{name:6} latency at {what}: median {median(ms):.2f} ms, 99% {ms[len(ms) * 99 // 100]:.2f} ms, "
                  f"max {ms[-1]:.2f} ms")  # fmt: skip
    slower = median(each[0] for each in rates["tee"]) / median(each[0] for each in rates["watch"])
    print(f"slowdown: {slower:.3f} times tee's time (< {SLOWER}: {verdict('rate', slower < SLOWER)})")
    added = max(max(late["watch"]), max(ms for each in rates["watch"] for ms in each[2]))
    print(f"latency: at most {added:.1f} ms (< {LATENCY_MS} ms: {verdict('latency', added < LATENCY_MS)})")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
