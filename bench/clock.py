"""Cost of the clock: the same training steps with and without it, in turns, in one process.

python bench/clock.py            # on the card if there is one, else on the CPU
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import torch

from nanogpt import write_tokens, zipf_tokens
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.ledger import LedgerWriter
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.clock.clock import PAST, Clock, CudaMoment, Moment, Piece, make_clock
from nanopace.train.loop.interrupt import Interrupt
from nanopace.train.loop.loop import Loop
from nanopace.train.plan.device import find_machine
from nanopace.train.plan.resolve import plan_run
from nanopace.train.plan.settings import choose_settings, shape_of
from nanopace.train.ranks import Ranks
from nanopace.train.setup import build

ROUNDS = 12


class NoClock(Clock):
    """Tells when a step is done, which the loop needs, but measures nothing."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(time.monotonic())
        self._device = device

    def mark(self, phase: str, iteration: int, _what: str = "") -> Moment:
        if phase != "optimizer":
            return PAST
        self._add(Piece("optimizer", iteration, 1.0))
        if self._device.type != "cuda":
            return PAST
        event = torch.cuda.Event()
        event.record()
        return CudaMoment(event)


class Silent:
    """A listener that prints nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def main() -> None:
    machine = find_machine(None)
    card = machine.device.type == "cuda"
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        tokens = zipf_tokens(2_000_000, 50257 if card else 2048, 1)
        write_tokens(room / "data", tokens, tokens[:200_000], int(tokens.max()) + 1)
        large = {"n_layer": 12, "n_head": 12, "n_embd": 768, "block_size": 1024, "batch_size": 16}
        small = {"n_layer": 4, "n_head": 4, "n_embd": 128, "block_size": 128, "batch_size": 8}
        asked = {**(large if card else small), "gradient_accumulation_steps": 1, "max_iters": 10**6, "eval_iters": 1}
        corpus = open_corpus(room / "data")
        settings = choose_settings(asked, corpus, machine, machine_decides=False)
        shape = shape_of(settings.config, "gelu")
        plan = plan_run(settings, shape, machine, corpus, claim=Claim(room), ranks=Ranks())
        with LedgerWriter(room / "ledger.jsonl") as ledger:
            parts = build(plan, ledger, make_clock(machine.device, time.monotonic()), Silent())
            bare = replace(parts, clock=NoClock(machine.device))
            loops = {"with": Loop(parts, Interrupt(print)), "without": Loop(bare, Interrupt(print))}
            seconds = _measure(loops, machine.device, 20 if card else 10)
            parts.batches.close()
    on, off = (median(seconds[name]) for name in loops)
    spread = np.std(seconds["without"]) / off / ROUNDS**0.5
    print(f"step with the clock {on * 1000:.3f} ms, without {off * 1000:.3f} ms: {on / off - 1:+.3%} (±{spread:.3%})")


def _measure(loops: dict[str, Loop], device: torch.device, steps: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(ROUNDS + 1):
        for name, loop in loops.items():
            _wait(device)
            begin = time.perf_counter()
            for _ in range(steps):
                loop.step()
                loop.iteration += 1
            _wait(device)
            if turn:  # the first turn is a warm-up
                seconds[name].append((time.perf_counter() - begin) / steps)
    return seconds


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
