"""What a micro-step gains by the algorithms that are chosen for its matrix products, instead of those that torch takes.

GPT-2 124M, T = 1024, bf16, as a CUDA graph each, in turns of a second, so that the card is at its power limit as it is
in a long run. What was found before is not asked for.

    python bench/products.py                     # a minute on an H200
    python bench/products.py --micro_batch 8     # what fits your card
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from kernels import LENGTH, ROOM_FOR_64, VOCAB, milliseconds, trainer_of
from nanogpt import zipf_tokens
from nanopace.config import TrainConfig

TURNS, TURN_MS = 5, 1000.0


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--micro_batch", type=int, action="append", help="several times, too; else 64 and 8, if they fit"
    )
    args = parser.parse_args()
    memory_gb = torch.cuda.get_device_properties(0).total_memory / 1e9
    for batch in args.micro_batch or ([64, 8] if memory_gb > ROOM_FOR_64 else [8]):
        with tempfile.TemporaryDirectory() as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            _compare(batch)


def _compare(batch: int) -> None:
    import torch

    from nanopace.train.products import choose_algorithms

    device = torch.device("cuda", 0)
    fused, _ = trainer_of(TrainConfig(batch_size=batch), device)
    windows = torch.from_numpy(zipf_tokens(batch * (LENGTH + 1), VOCAB, 1).astype("int64")).view(batch, -1).to(device)
    inputs, targets = windows[:, :-1].contiguous(), windows[:, 1:].contiguous()

    def step() -> object:
        return fused.gradients(inputs, targets)

    by_torch = _recorded(step)
    begin = time.perf_counter()
    said = choose_algorithms()
    seconds = time.perf_counter() - begin
    graphs = (by_torch, _recorded(step))
    replays = max(1, round(TURN_MS / milliseconds(by_torch.replay)))
    times: tuple[list[float], list[float]] = [], []
    for _ in range(TURNS):
        for graph, found in zip(graphs, times, strict=True):
            found.append(milliseconds(graph.replay, replays))
    ratios = sorted(before / after for before, after in zip(*times, strict=True))
    print(f"micro-batch {batch}: {said}; tried in {seconds:.1f} s")
    before, after = map(median, times)
    print(
        f"a micro-step takes {after:.2f} instead of {before:.2f} ms: "
        f"{median(ratios):.4f} x ({ratios[0]:.4f} to {ratios[-1]:.4f})",
        flush=True,
    )


def _recorded(do: Callable[[], object]) -> Any:
    import torch

    for _ in range(2):
        do()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        do()
    return graph


if __name__ == "__main__":
    main()
