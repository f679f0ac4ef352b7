"""Logs with an evaluation every few rows, as nanoGPT prints them, with seeded noise."""

from __future__ import annotations

import random


def dense_log(
    rows: int,
    *,
    start: int = 0,
    log_interval: int = 1,
    eval_interval: int = 5,
    saves: float = 0.8,
    stall_every: int = 0,
    slower_from: int | None = None,
    seed: int = 0,
) -> str:
    """A step of 169.24 ms, an evaluation of 5136 ms, a checkpoint of 467 ms, a stall of 4 s, and a 7 s start."""
    rng = random.Random(seed)
    printed = []
    running: float | None = None
    iteration, done = start, 0
    while done < rows:
        ms = rng.gauss(169.24, 0.6) * (1.5 if slower_from is not None and iteration >= slower_from else 1)
        if iteration % eval_interval == 0:
            val = 3 + 8 / (1 + iteration / 200) ** 0.5 + rng.gauss(0, 0.005)
            printed.append(f"step {iteration}: train loss {val - 0.02:.4f}, val loss {val:.4f}")
            ms += rng.gauss(5136, 20)
            if iteration and rng.random() < saves:
                printed.append("saving checkpoint to out")
                ms += 467
        if iteration % log_interval == 0:
            done += 1
            ms += 7000 if done == 1 else 4000 if stall_every and done % stall_every == 0 else 0
            if done > 5:
                own = 0.1206 * 169.24 / ms
                running = own if running is None else 0.9 * running + 0.1 * own
            loss = 3 + 8 / (1 + iteration / 200) ** 0.5 + rng.gauss(0, 0.1)
            mfu = -100 if running is None else 100 * running
            printed.append(f"iter {iteration}: loss {loss:.4f}, time {ms:.2f}ms, mfu {mfu:.2f}%")
        iteration += 1
    return "\n".join(printed) + "\n"
