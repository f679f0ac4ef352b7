"""Time and peak memory of `nanopace explain` on logs that once took a minute or a gigabyte.

python bench/awkward_logs.py            # writes and removes files of up to 390 MB in the temporary directory
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from big_log import measure, warm

CHAT = "step {0:05d}/3000000 ({1:.2f}%) | loss: 3.090378 | lrm: 1.00 | dt: 1210.11ms | tok/sec: 433,252 | mfu: 20.61"
STEP = '{{"event":"step","iteration":{0},"ms":100.123,"loss":3.01,"tokens":1000,"at_ms":{1}}}\n'
ROW = "iter {}: loss 4.2000, time 100.00ms, mfu 10.00%\n"


def nanochat(rows: int = 3_000_000) -> Iterator[str]:
    for n in range(rows):
        yield f"{CHAT.format(n, n / 30_000)} | total time: {n * 1.21 / 60:.2f}m\n"


def ledger(steps: int = 2_000_000) -> Iterator[str]:
    yield '{"event":"run","ledger":"1.3","started":"","nanopace":"0","config":{}}\n'
    for n in range(steps):
        yield STEP.format(n, n * 100)


def blank_lines() -> Iterator[str]:
    yield from nanochat(3)
    yield "\n" * 5_000_000


def many_runs() -> Iterator[str]:
    for _ in range(16_000):
        yield from (ROW.format(n) for n in range(3))


def one_iteration_apart() -> Iterator[str]:
    for n in range(2_499):
        yield ROW.format(n + 2) + ROW.format(n + 1)


LOGS = (nanochat, ledger, blank_lines, many_runs, one_iteration_apart)


def main() -> None:
    nanopace = str(Path(sys.executable).with_name("nanopace"))
    print(f"{'':22}{'MB':>6}{'seconds':>9}{'peak MB':>9}")
    for lines in LOGS:
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "ledger.jsonl" if lines is ledger else "train.log")
            with log.open("w") as file:
                file.writelines(lines())
            warm(log)
            cost = measure([nanopace, "explain", str(log)])
            megabytes = log.stat().st_size / 1e6
            print(f"{lines.__name__:22}{megabytes:6.1f}{cost.seconds:9.1f}{cost.peak_mb:9.0f}", flush=True)


if __name__ == "__main__":
    main()
