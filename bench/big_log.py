"""Time and memory for a nanoGPT log of 1 GB, compared with the ten lines of regex that people write by hand.

Two kinds of log: one prints every iteration and evaluates at every 500th row; the other evaluates at every fifth row,
as with log_interval 100 and eval_interval 500, and mostly saves.

python bench/big_log.py            # writes and removes files of 1 GB in the temporary directory
python bench/big_log.py 200        # the same with 200 MB
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from startup import BY_HAND

BAR_SECONDS, BAR_MB = 15, 300


class Kind(NamedTuple):
    """What a log looks like."""

    name: str
    log_interval: int
    rows_per_evaluation: int
    saves: float  # share of the evaluations


KINDS = (Kind("sparse evaluations", 1, 500, 0.5), Kind("dense evaluations", 100, 5, 0.8))


def write_log(path: Path, megabytes: int, kind: Kind) -> int:
    """Write a log; return its number of rows."""
    rng = random.Random(0)
    iteration = rows = 0
    with path.open("w") as log:
        while log.tell() < megabytes * 1_000_000:
            block = []
            for _ in range(50_000):
                ms = rng.gauss(169.24, 0.6)
                if rows % kind.rows_per_evaluation == 0:
                    val = 4 + 1 / (1 + iteration) + rng.gauss(0, 0.005)
                    block.append(f"step {iteration}: train loss {rng.gauss(3.9, 0.01):.4f}, val loss {val:.4f}")
                    ms += 5136
                    if iteration and rng.random() < kind.saves:
                        block.append("saving checkpoint to out-openwebtext")
                        ms += 467
                block.append(f"iter {iteration}: loss {rng.gauss(3.9, 0.1):.4f}, time {ms:.2f}ms, mfu 12.06%")
                iteration += kind.log_interval
                rows += 1
            log.write("\n".join(block) + "\n")
    return rows


def warm(path: Path) -> None:
    """Read it into the file cache in small pieces: a child's peak memory starts from its parent's."""
    with path.open("rb") as log, open(os.devnull, "wb") as nowhere:
        shutil.copyfileobj(log, nowhere, 1 << 20)


class Cost(NamedTuple):
    seconds: float
    peak_mb: float


def measure(command: list[str]) -> Cost:
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"{' '.join(command)} failed")
    return Cost(time.perf_counter() - start, usage.ru_maxrss / 1024)


def compare(folder: Path, megabytes: int, kind: Kind) -> bool:
    """Print one kind's figures; return whether they are within the bar."""
    nanopace = str(Path(sys.executable).with_name("nanopace"))
    log = folder / "train.log"
    rows = write_log(log, megabytes, kind)
    warm(log)
    by_hand = measure([sys.executable, "-c", BY_HAND, str(log)])
    ours = measure([nanopace, "explain", str(log)])
    print(f"{megabytes} MB, {rows:,} rows, {kind.name}")
    print(f"{'':18}{'seconds':>9}{'peak MB':>10}")
    print(f"{'regex by hand':18}{by_hand.seconds:9.1f}{by_hand.peak_mb:10.0f}")
    print(f"{'nanopace explain':18}{ours.seconds:9.1f}{ours.peak_mb:10.0f}")
    print(f"{by_hand.seconds / ours.seconds:.1f}x faster, with {ours.peak_mb / by_hand.peak_mb:.2f}x the memory")
    bar = BAR_SECONDS * megabytes / 1000
    holds = ours.seconds <= bar and ours.peak_mb <= BAR_MB
    print(f"bar: {bar:.0f} s and {BAR_MB} MB: {'met' if holds else 'MISSED'}", flush=True)
    return holds


def main() -> int:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        held = [compare(Path(folder), megabytes, kind) for kind in KINDS]
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
