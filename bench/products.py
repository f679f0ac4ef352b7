"""What a micro-step gains by the algorithms that are chosen for its matrix products, instead of those that torch takes.

GPT-2 124M, T = 1024, bf16, as a CUDA graph each, in turns of a second, so that the card is at its power limit as it is
in a long run. What was found before is not asked for.

    python bench/products.py                     # a minute on an H200
    python bench/products.py --micro_batch 8     # what fits your card
    python bench/products.py --micro_batch 8 --each    # each algorithm among its neighbours: five minutes
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
    parser.add_argument("--each", action="store_true", help="what each algorithm alone does to the whole")
    args = parser.parse_args()
    memory_gb = torch.cuda.get_device_properties(0).total_memory / 1e9
    for batch in args.micro_batch or ([64, 8] if memory_gb > ROOM_FOR_64 else [8]):
        with tempfile.TemporaryDirectory() as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            _compare(batch, each=args.each)


def _compare(batch: int, *, each: bool) -> None:
    import torch

    from nanopace.train.kernels import products

    device = torch.device("cuda", 0)
    fused, _ = trainer_of(TrainConfig(batch_size=batch), device)
    windows = torch.from_numpy(zipf_tokens(batch * (LENGTH + 1), VOCAB, 1).astype("int64")).view(batch, -1).to(device)
    inputs, targets = windows[:, :-1].contiguous(), windows[:, 1:].contiguous()

    def step() -> object:
        return fused.gradients(inputs, targets)

    by_torch = _recorded(step)
    if each:
        _each(step, by_torch)
        return
    begin = time.perf_counter()
    said = products.choose_algorithms()
    print(f"micro-batch {batch}: {said}; tried in {time.perf_counter() - begin:.1f} s")
    _print("a micro-step", by_torch, _recorded(step), TURNS, TURN_MS)


def _each(step: Callable[[], object], by_torch: Any) -> None:
    """With one algorithm for one product and torch's for all others."""
    from nanopace.train.kernels import products
    from nanopace.train.kernels.cublaslt import cublaslt

    for question in list(products._asked):
        library = cublaslt(question.device)
        assert library is not None
        for number, algorithm in enumerate(products._proposals(question, library)):
            products._answers = {question: algorithm}
            name = f"{question.rows} x {question.inner} x {question.columns}{' added' * question.adds}, {number}"
            _print(name, by_torch, _recorded(step), TURNS, TURN_MS / 10)
    products._answers = {}


def _print(name: str, before: Any, after: Any, turns: int, turn_ms: float) -> None:
    replays = max(1, round(turn_ms / milliseconds(before.replay)))
    times: tuple[list[float], list[float]] = [], []
    for _ in range(turns):
        for graph, found in zip((before, after), times, strict=True):
            found.append(milliseconds(graph.replay, replays))
    ratios = sorted(one / other for one, other in zip(*times, strict=True))
    old, new = map(median, times)
    print(
        f"{name}: {new:.2f} instead of {old:.2f} ms, {median(ratios):.4f} x ({ratios[0]:.4f} to {ratios[-1]:.4f})",
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
