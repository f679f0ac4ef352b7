"""What data costs per step: choosing windows, and copying them from the file.

The baseline is nanoGPT's way: random positions, the file mapped again for every batch, and inputs and targets copied
row by row. Both read the same file in turns, in one run.

    python bench/order.py              # 200 MB of tokens in a temporary directory
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from nanopace.corpus.shards.order import Order
from nanopace.corpus.shards.scan import first_beyond, positions_of
from nanopace.corpus.shards.token_files import Shard, Split

TOKENS = 100_000_000
BLOCK = 1024
BATCH = 512  # sequences: a step of 524,288 tokens
ROUNDS = 30
LARGE = 10_000_000  # windows in ten billion tokens
BARS = {"starts": 1e-3, "epoch": 1.0}


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "train.bin")
        path.write_bytes(np.random.default_rng(0).integers(0, 50257, TOKENS, dtype=np.uint16).tobytes())
        shard = Shard(path, TOKENS, "uint16")
        order = Order(Split([shard]), BLOCK, 1337)
        order.starts(0, 1)
        ours, theirs, starts = _batches(Split([shard]), order, path)
        beyond = _seconds(lambda: first_beyond(shard, 50257))
        found = _seconds(lambda: positions_of(shard, 50256))
    epoch = _seconds(lambda: Order(Split([Shard(path, LARGE * BLOCK + BLOCK, "uint16")]), BLOCK, 1337).starts(0, 1))
    gigabytes = 2 * TOKENS / 1e9
    print(f"a step of {BATCH} x {BLOCK} tokens   {1e3 * ours:8.2f} ms, as nanoGPT does it {1e3 * theirs:.2f} ms")
    print(f"{'':32}{ours / theirs:8.2f}x")
    print(f"choosing the windows{'':12}{1e6 * starts:8.0f} us   bar 1000 us")
    print(f"new epoch of {LARGE:,} windows {1e3 * epoch:8.0f} ms   bar 1000 ms")
    print(f"largest id, {gigabytes:.1f} GB{'':15}{1e3 * beyond:8.0f} ms, {gigabytes / beyond:.1f} GB/s")
    print(f"documents, {gigabytes:.1f} GB{'':16}{1e3 * found:8.0f} ms, {gigabytes / found:.1f} GB/s")
    return int(starts > BARS["starts"] or epoch > BARS["epoch"] or ours > theirs)


def _batches(split: Split, order: Order, path: Path) -> tuple[float, float, float]:
    """Median seconds per batch: ours, nanoGPT's, and our choice of windows alone."""
    out = np.empty((BATCH, BLOCK + 1), dtype=np.int64)
    random = np.random.default_rng(0)

    def ours(step: int) -> None:
        split.gather(order.starts(step * BATCH, BATCH), BLOCK + 1, out)

    def theirs() -> None:
        tokens = np.memmap(path, dtype=np.uint16, mode="r")
        places = random.integers(0, len(tokens) - BLOCK, BATCH)
        np.stack([tokens[place : place + BLOCK].astype(np.int64) for place in places])
        np.stack([tokens[place + 1 : place + 1 + BLOCK].astype(np.int64) for place in places])

    taken: list[tuple[float, float, float]] = []
    for step in range(ROUNDS + 1):
        both = _seconds(lambda step=step: ours(step)), _seconds(theirs)  # type: ignore[misc]
        taken.append((*both, _seconds(lambda step=step: order.starts(step * BATCH, BATCH))))  # type: ignore[misc]
    mine, other, choice = (median(column) for column in zip(*taken[1:], strict=True))
    return mine, other, choice


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(main())
