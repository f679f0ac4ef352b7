"""A training run on a simulated GPU, and the log that modded-nanogpt would print in each era.

The program launches steps until it is `depth` steps ahead of the GPU; with 0 it waits for every step. A row is printed
when a step is launched, with the time at that moment. An evaluation first waits for the GPU, and the clock stops
meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

CARD = "|   {n}  NVIDIA H100 80GB HBM3          On  |   00000000:1{n}:00.0 Off |                    0 |\n"
OLD_CODE = """import os
    batch_size : int = 8*64 # batch size, in sequences, across all devices
    device_batch_size : int = 64
    sequence_length : int = 1024
        print(f"step:{step+1}/{args.num_iterations} train_loss:{train_loss.item():.4f} train_time:{approx_time:.0f}ms")
"""
CODE = """import os
    train_batch_size: int = 2048 * 24 * 8
    print0(f"step:{step+1}/{train_steps} train_time:{approx_training_time_ms:.0f}ms step_avg:{x:.2f}ms", console=True)
"""


@dataclass
class Era:
    """What rows look like in one era."""

    code: str = CODE
    losses: bool = False  # rows have one
    zeroed: bool = False  # the clock is set to 0 after step 10
    seconds: bool = False
    rows: bool = True  # otherwise only evaluations are printed
    evaluations: range | Sequence[int] = ()
    every: int = 125  # an evaluation


@dataclass
class Simulated:
    text: str
    final_ms: float  # as printed at the end
    left_out_ms: float  # by the clock, before it was set to zero
    waits_ms: list[float] = field(default_factory=list)  # at evaluations


ERAS = {
    "October 2024": Era(OLD_CODE, losses=True, zeroed=True),
    "December 2024": Era(OLD_CODE, zeroed=True),
    "2025": Era(),
    "track 3": Era(seconds=True, rows=False),
    "track 3, every step": Era(seconds=True),
}


def val_loss(step: int) -> float:
    return round(10.8258 - 7.5 * step / (step + 300), 4)


def simulate(
    era: Era, step_ms: Sequence[float], *, depth: int = 2, launch_ms: float = 5.0, compile_ms: float = 0.0
) -> Simulated:
    steps = len(step_ms)
    evaluated = {*(era.evaluations or range(0, steps, era.every)), 0, steps}
    lines = ["=" * 100, era.code.rstrip(), "=" * 100, "Running PyTorch 2.9.0 compiled for CUDA 12.6"]
    lines += [CARD.format(n=n).rstrip() for n in range(8)] + ["=" * 100]
    clock = gpu = 0.0  # the program's, and when the GPU has done what it was given
    done: list[float] = []
    waits: list[float] = []
    since, zero = 0, 0.0  # where the clock was set to zero
    for step in range(steps + 1):
        if era.zeroed and step == 10:
            since, zero = step, clock
        if step in evaluated:
            waits.append(max(0.0, gpu - clock))
            clock = gpu = max(clock, gpu)
            done = []  # the program is no longer ahead
            lines.append(_line(era, step, steps, clock - zero, since, f" val_loss:{val_loss(step):.4f}"))
        if step == steps:
            break
        if depth and len(done) >= depth:
            clock = max(clock, done[-depth])
        clock += launch_ms + (compile_ms if step == 0 else 0.0)
        gpu = max(gpu, clock) + step_ms[step]
        done.append(gpu)
        clock = clock if depth else gpu
        if era.rows:
            loss = f" train_loss:{val_loss(step) + 0.01:.4f}" if era.losses else ""
            lines.append(_line(era, step + 1, steps, clock - zero, since, loss))
    text = "\n".join([*lines, "peak memory allocated: 30000 MiB reserved: 40000 MiB", ""])
    return Simulated(text, round(clock - zero), zero, waits[1:])


def _line(era: Era, step: int, steps: int, ms: float, since: int, loss: str) -> str:
    time = f"{ms / 1000:.3f}s" if era.seconds else f"{ms:.0f}ms"
    average = "nan" if step - since < 3 and era.zeroed else f"{ms / max(1, step - since):.2f}"
    return f"step:{step}/{steps}{loss} train_time:{time} step_avg:{average}ms"
