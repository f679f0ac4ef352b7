"""Times work on a device. The trainer uses only this to find the fastest of several ways."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

_TRIALS = 5


def seconds_of(do: Callable[[], object], count: int, device: torch.device) -> float:
    """Seconds for `count` calls in a row, with nothing else running; on a card, by its own clock."""
    if device.type == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.device(device):
            begin.record()
            _repeat(do, count)
            end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000
    _wait_for(device)
    started = time.perf_counter()
    _repeat(do, count)
    _wait_for(device)
    return time.perf_counter() - started


def card_ms(do: Callable[[], object], device: torch.device, *, calls: int = 1) -> float:
    """The card's time for one of `calls` calls in a row: the best of several trials, since any disturbance only adds
    time.

    Replays a CUDA graph: if launched one by one, small kernels would measure the host instead.
    """
    aside = torch.cuda.Stream(device)
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(aside):  # libraries load and plan here, which a graph cannot record
        _repeat(do, 2)
    torch.cuda.current_stream(device).wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _repeat(do, calls)
    graph.replay()
    return min(seconds_of(graph.replay, 1, device) for _ in range(_TRIALS)) * 1000 / calls


def _repeat(do: Callable[[], object], count: int) -> None:
    for _ in range(count):
        do()


def _wait_for(device: torch.device) -> None:
    if device.type == "mps":
        torch.mps.synchronize()
