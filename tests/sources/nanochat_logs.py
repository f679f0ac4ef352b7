"""Logs as nanochat's programs print them, in any era, with made-up figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """One of nanochat's programs. With `wrong_rate`, it prints a micro-batch's tokens per second, as at first."""

    stage: str = "base"  # base, mid or sft
    steps: int = 40
    ms: float = 500.0
    gpus: int = 4
    accumulation: int = 2
    micro_batch: int = 8192  # tokens, on one GPU
    first: int | None = None  # step; else the program's own: 0 of base training, 1 of the others
    mfu: float = 41.0
    columns: str = "epoch eta"  # of later eras: norm, epoch, eta, bf16
    wrong_rate: bool = False
    card: str | None = None
    peak: str = "9.89e+14"
    bits: float = 1.0  # the last evaluation's

    @property
    def batch(self) -> int:
        return self.micro_batch * self.gpus * self.accumulation

    def lines(self, *, header: bool = True) -> list[str]:
        return [*(self.header() if header else ()), *self.rows(), *self.end()]

    def header(self) -> Iterator[str]:
        yield "Autodetected device type: cuda"
        yield f"2026-01-20 10:00:00,001 - nanochat.common - INFO - Distributed world size: {self.gpus}"
        if self.card:
            yield f"GPU: {self.card} | Peak FLOPS (BF16): {self.peak}"
        if self.stage == "base":
            yield "Vocab size: 65,536"
            yield "Number of parameters: 560,988,160"
            yield "Estimated FLOPs per token: 3.491758e+09"
        yield f"Tokens / micro-batch / rank: {self.micro_batch // 1024} x 1024 = {self.micro_batch:,}"
        yield f"Tokens / micro-batch: {self.micro_batch * self.gpus:,}"
        yield f"Total batch size {self.batch:,} => gradient accumulation steps: {self.accumulation}"

    def rows(self) -> Iterator[str]:
        first = self.first if self.first is not None else int(self.stage != "base")
        spent = 0.0
        for step in range(first, first + self.steps):
            ms = self.ms * (1 + 0.002 * ((step * 7) % 5 - 2) / 2) + (9000 if step == first and first < 2 else 0)
            spent += ms if step > 10 else 0.0
            yield self.row(step, ms, spent)
            if step % 10 == 0:
                yield f"Step {step:05d} | Validation bpb: {self.bits + 1 / (1 + step):.4f}"

    def row(self, step: int, ms: float, spent_ms: float) -> str:
        tokens = self.batch // self.accumulation if self.wrong_rate else self.batch
        total = f"/{self.steps:05d}" if self.stage == "base" else ""
        parts = [f"step {step:05d}{total} ({100 * step / 4000:.2f}%)", f"loss: {2 + 9 / (1 + step):.6f}"]
        parts += ["grad norm: 0.4211"] * ("norm" in self.columns)
        parts += ["lrm: 1.00", f"dt: {ms:.2f}ms", f"tok/sec: {int(tokens / ms * 1000):,}"]
        parts += [f"{'bf16_' * ('bf16' in self.columns)}mfu: {self.mfu:.2f}"]
        parts += ["epoch: 1"] * ("epoch" in self.columns)
        parts += [f"total time: {spent_ms / 60_000:.2f}m"]
        parts += ["eta: 12.3m"] * ("eta" in self.columns and step > 10 and self.stage == "base")
        return " | ".join(parts)

    def end(self) -> Iterator[str]:
        directory = {"base": "base", "mid": "mid", "sft": "chatsft"}[self.stage]
        yield (
            "2026-01-20 12:00:00,001 - nanochat.checkpoint_manager - INFO - "
            f"Saved model file to: /root/.cache/nanochat/{directory}_checkpoints/d20/model_{self.steps:06d}.pt"
        )
        yield "Peak memory usage: 4123.45MiB"


def speedrun(*programs: Program) -> list[str]:
    """What a shell script prints that runs these programs one after another."""
    return [line for program in programs for line in (*program.lines(), "Generating report")]
