"""Tokens per second when sampling: with the cache, without it, and with nanoGPT's `generate` on the same weights.

The model has 6 layers, width 384 and GPT-2's vocabulary; it samples within its block of 128 tokens and far beyond.
The methods take turns in one run; their medians are compared.

    python bench/sample.py
    python bench/sample.py --nanogpt ../nanoGPT --device cuda
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch

from nanogpt import model_args, nanogpt_model
from nanopace.train.models.generate import generate
from nanopace.train.models.gpt2 import GPT, ModelShape

SHAPE = ModelShape(n_layer=6, n_head=6, n_embd=384, vocab_size=50304, block_size=128)
ROUNDS = 3
COUNTS = {"within a block": 100, "beyond a block": 300}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nanogpt", type=Path, help="path to a nanoGPT checkout")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    torch.manual_seed(1)
    model = GPT(SHAPE).eval().to(args.device)
    ways: dict[str, Callable[[int], list[int]]] = {
        "with the cache": lambda count: list(generate(model, [0], count)),
        "without": lambda count: list(generate(model, [0], count, cache=False)),
    }
    if args.nanogpt is not None:
        ways["nanoGPT's generate"] = nanogpt_way(args.nanogpt, model)
    failed = False
    for where, count in COUNTS.items():
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        texts: dict[str, list[int]] = {}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                begin = time.perf_counter()
                texts[name] = way(count)
                seconds[name].append(time.perf_counter() - begin)
                assert len(texts[name]) == count
        rates = {name: count / median(times) for name, times in seconds.items()}
        for name, rate in rates.items():
            ratio = rates["with the cache"] / rate
            failed |= ratio < 1
            print(f"{where:16}{name:20}{rate:9.1f} tokens/s   cache speedup{ratio:7.2f}x")
        same = texts["with the cache"] == texts["without"]
        failed |= not same
        print(f"{where:16}same {count} tokens with and without the cache: {'yes' if same else 'NO'}")
    return int(failed)


def nanogpt_way(checkout: Path, own: GPT) -> Callable[[int], list[int]]:
    model = nanogpt_model(checkout, model_args(own.shape))
    model.load_state_dict(own.state_dict())
    model.to(next(own.parameters()).device)

    def way(count: int) -> list[int]:
        """It returns everything at the end; `tolist` waits for the card."""
        start = torch.zeros(1, 1, dtype=torch.long, device=next(model.parameters()).device)
        tokens: list[int] = model.generate(start, count, temperature=0.8, top_k=200)[0].tolist()
        return tokens[1:]

    return way


if __name__ == "__main__":
    raise SystemExit(main())
