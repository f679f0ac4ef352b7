"""Cost of `nanopace.Clock` in your own loop: the same steps with and without it, in turns, in one process.

python bench/loop_clock.py            # on the card if there is one, else on the CPU

The first table is for a loop that does nothing else, so it shows the clock's own cost. The last line is for real
training with steps of a few milliseconds.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import median, stdev
from typing import Any

import torch

from nanopace import Clock

STEP_MS = 5.0
BAR = 0.005


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loss = torch.zeros((), device=device)
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'':44}{'µs/step':>10}{f'of {STEP_MS:.0f} ms':>10}")
        for name, body in (
            ("step", _plain),
            ("step, loss as a number", _number),
            ("step, loss as a tensor", lambda clock, n: _tensor(clock, n, loss)),
            ("step, loss as a tensor, lr, batches", lambda clock, n: _all(clock, n, loss)),
        ):
            cost = _own_cost(body, Path(folder) / name.replace(" ", "-"), rounds, device)
            print(f"{name:44}{cost * 1e6:10.2f}{cost / (STEP_MS / 1000):10.3%}")
        _training(Path(folder) / "training", rounds, device)
    print(f"bar: {BAR:.1%}")


def _own_cost(body: Callable[[Any, int], None], folder: Path, rounds: int, device: torch.device) -> float:
    """CPU seconds per step of both threads: the median of rounds, each with and without the clock."""
    steps, found = 2000, []
    for turn in range(rounds + 1):
        with Clock(folder / f"{turn}.jsonl") as clock:
            body(clock, 50)
            seconds = {}
            for each in (None, clock):
                _wait(device)
                begin = time.process_time()
                body(each, steps)
                seconds[each is None] = time.process_time() - begin
            begin = time.process_time()
        seconds[False] += time.process_time() - begin  # includes writing what was still buffered
        if turn:
            found.append((seconds[False] - seconds[True]) / steps)
    return median(found)


def _plain(clock: Clock | None, steps: int) -> None:
    for _ in range(steps):
        with clock.step() if clock else nullcontext():
            pass


def _number(clock: Clock | None, steps: int) -> None:
    for _ in range(steps):
        with clock.step() if clock else nullcontext() as step:
            if step is not None:
                step.loss = 3.25


def _tensor(clock: Clock | None, steps: int, loss: torch.Tensor) -> None:
    for _ in range(steps):
        with clock.step() if clock else nullcontext() as step:
            if step is not None:
                step.loss = loss


def _all(clock: Clock | None, steps: int, loss: torch.Tensor) -> None:
    for _ in clock.batches(range(steps)) if clock else range(steps):
        with clock.step() if clock else nullcontext() as step:
            if step is not None:
                step.loss, step.lr = loss, 3e-4


def _training(folder: Path, rounds: int, device: torch.device) -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    width = 2048 if device.type == "cuda" else 256
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(8))).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batch = torch.randn(2048 if device.type == "cuda" else 64, width, device=device)

    def batches(steps: int) -> Iterator[torch.Tensor]:
        return (batch for _ in range(steps))

    def train(clock: Clock | None, steps: int) -> None:
        for x in clock.batches(batches(steps)) if clock else batches(steps):
            with clock.step() if clock else nullcontext() as step:
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                if step is not None:
                    step.loss = loss

    seconds: dict[bool, list[float]] = {True: [], False: []}
    with Clock(folder) as clock:
        for turn in range(2 * rounds + 1):
            for on in (True, False) if turn % 2 else (False, True):
                _wait(device)
                begin = time.perf_counter()
                train(clock if on else None, 40)
                _wait(device)
                if turn:
                    seconds[on].append((time.perf_counter() - begin) / 40)
    ratios = [on / off for on, off in zip(seconds[True], seconds[False], strict=True)]
    error = stdev(ratios) / len(ratios) ** 0.5
    print(
        f"training on the {device.type}: {median(seconds[True]) * 1000:.3f} ms per step with the clock,"
        f" {median(seconds[False]) * 1000:.3f} without: {median(ratios) - 1:+.2%} (±{error:.2%})"
    )


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
