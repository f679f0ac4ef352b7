"""Training with averages and weights in the host's memory: tokens per second next to a card with room for everything.

Two processes, one after the other: with the card's whole memory, then with --limit GiB of it and the host's, at the
bus's own rate and slowed down in software to those of PCIe 4 and 3 x16 (25 and 12 GB/s in each direction: a copy then
takes at least as long, by a kernel that spins next to it on one SM). Steps are complete: all micro-batches and the
update. Tokens are random. Each result is printed as soon as it is there.

    python bench/host_memory.py --model xl              # GPT-2 XL, 1.56B, in 12 GiB: four minutes on an H200
    python bench/host_memory.py --model 3b --steps 1    # with gradients and activations there, too
    python bench/host_memory.py --model 7b --limit 16 --steps 1 --tokens-per-step 65536 --no-unlimited --timeout 500
    python bench/host_memory.py --losses data/code      # the losses of 200 steps of 124M, three seeds, both ways
    python bench/host_memory.py --model tiny --steps 1 --device cpu     # a rehearsal (with TRITON_INTERPRET=1)
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor

from kernels import update_of
from nanopace.config import TrainConfig
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.shards.order import Order
from nanopace.hardware.memory import GIB, climb, climb_with_host, fused_peak_bytes, largest_fused_micro_batch
from nanopace.knob_values import memory_steps
from nanopace.train.checkpoint.rng_state import seed_everything
from nanopace.train.clock.clock import make_clock
from nanopace.train.fused.attention import pick_attention
from nanopace.train.fused.gpt2 import FusedGPT
from nanopace.train.host.bus import Bus
from nanopace.train.host.layers import layer_stream
from nanopace.train.host.states import HostStates, arena_for
from nanopace.train.loop.passes import FusedPasses
from nanopace.train.loop.schedule import learning_rate
from nanopace.train.models.gpt2 import GPT, ModelShape
from nanopace.train.models.init_weights import InitOnDevice
from nanopace.train.optim.optimizer import make_optimizer, set_learning_rate
from nanopace.train.out_of_memory import waste_less
from nanopace.train.plan.device import find_machine, limited

MODELS = {  # layers, heads, width, vocabulary, context
    "xl": (48, 25, 1600, 50304, 1024),
    "3b": (36, 20, 2560, 50304, 1024),
    "7b": (32, 32, 4096, 50304, 1024),
    "124m": (12, 12, 768, 50304, 1024),
    "tiny": (2, 2, 16, 64, 8),
}
RATES = {"real": None, "25 GB/s": 25e9, "12 GB/s": 12e9}
CLIP = 1.0
SEEDS, LOSS_STEPS, LOSS_BATCH = (1337, 1338, 1339), 200, 8


@dataclass(frozen=True)
class Trainer:
    """Whatever takes a step, in either way."""

    fused: FusedGPT
    passes: FusedPasses
    optimizer: torch.optim.Optimizer
    host: HostStates | None
    bus: Bus

    def step(self, micro_batches: Tensor) -> Tensor:
        """Micro-batches: (count, sequences, tokens + 1). Returns the mean loss."""
        self.bus.during("step", 0)
        total = torch.zeros((), device=self.bus.device)
        for micro in micro_batches:
            total += self.passes(micro[:, :-1].contiguous(), micro[:, 1:].contiguous(), len(micro_batches))
        loss = total / len(micro_batches)
        if self.host is None:
            update_of(self.passes, self.optimizer, CLIP)
        else:
            self.bus.during("optimizer", 0)
            self.host.update(loss)
        return loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="xl")
    parser.add_argument("--limit", type=float, default=12, help="GiB of the card")
    parser.add_argument("--steps", type=int, default=2, help="timed steps at each rate, after one that is not")
    parser.add_argument("--tokens-per-step", type=int, default=1 << 19)
    parser.add_argument("--device", default=None)
    parser.add_argument("--timeout", type=float, default=200, help="seconds for each process")
    parser.add_argument("--keep", type=Path, default=Path("host_memory.jsonl"), help="append results to this file")
    parser.add_argument("--losses", type=Path, help="compare losses on this corpus instead")
    parser.add_argument("--way", choices=("unlimited", "host"), help="only this one, in this process")
    parser.add_argument("--memory", help="memory steps of the host's way (default: as many as it takes)")
    parser.add_argument("--batch", type=int, default=16, help="the largest micro-batch to try, in sequences")
    parser.add_argument("--no-unlimited", action="store_true", help="leave out the card's whole memory")
    args = parser.parse_args()
    if args.losses is not None:
        _compare_losses(args)
    elif args.way is not None:
        _measure(args)
    else:
        _run_both(args)


def _run_both(args: argparse.Namespace) -> None:
    layers, _, width, vocabulary, context = MODELS[args.model]
    weights = 12 * layers * width**2 + (vocabulary + context) * width
    print(f"{args.model}: {weights / 1e9:.2f}B weights, {args.tokens_per_step:,} tokens a step")
    header = ("way", "bus", "micro", "tokens/s", "ratio", "peak GiB", "predicted", "host GiB", "bus wait s", "GB/s up")
    print(f"{header[0]:>10}{header[1]:>9}{header[2]:>7}" + "".join(f"{each:>12}" for each in header[3:]), flush=True)
    unlimited = None
    for way in ("host",) if args.no_unlimited else ("unlimited", "host"):
        command = [sys.executable, __file__, *sys.argv[1:], "--way", way]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        timer = threading.Timer(args.timeout, process.kill)
        timer.start()
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if not line.startswith("{"):
                    print(line, end="", flush=True)
                    continue
                found = json.loads(line)
                unlimited = unlimited or (found["tokens_per_s"] if way == "unlimited" else None)
                _show(found, unlimited)
                with args.keep.open("a") as file:
                    file.write(json.dumps({"model": args.model, **found}) + "\n")
        finally:
            timer.cancel()
            process.kill()
            if process.wait():
                print(f"{way}: ended by {process.returncode}, or stopped after {args.timeout:.0f} s", flush=True)


def _show(found: dict[str, Any], unlimited: float | None) -> None:
    ratio = "" if unlimited is None else f"{found['tokens_per_s'] / unlimited:.3f}"
    print(
        f"{found['way']:>10}{found['bus']:>9}{found['micro_batch']:>7}{found['tokens_per_s']:12,.0f}{ratio:>12}"
        f"{found['peak_gib']:12.2f}{found['predicted_gib']:12.2f}{found['host_gib']:12.1f}{found['wait_s']:12.2f}"
        f"{found['gb_per_s']:12.1f}" + (f"  update by the host's cores: {found['by_cores']}" if found["bus"] else ""),
        flush=True,
    )


def _measure(args: argparse.Namespace) -> None:
    """One process: build, rehearse, and take steps at each rate."""
    torch.set_float32_matmul_precision("high")
    layers, heads, width, vocabulary, context = MODELS[args.model]
    size = (layers, width, vocabulary, context)
    machine = find_machine(args.device)
    on_card = machine.device.type == "cuda"
    waste_less(machine.device)
    if args.way == "host" and on_card:
        machine = limited(machine, f"{args.limit:g}GiB")
    memory = machine.memory_gb or 1e9
    steps = climb(size, args.batch, memory) if args.way == "unlimited" else climb_with_host(size, args.batch, memory)
    if args.memory and args.way == "host":
        steps = memory_steps(args.memory) or ()
    fitting = min(args.batch, largest_fused_micro_batch(size, memory, steps))
    if not fitting:
        need = fused_peak_bytes(size, 1, steps) / GIB
        print(f"{args.way}: {need:.1f} GiB are needed for one sequence ({', '.join(steps)})", flush=True)
        return
    batch = 1 << fitting.bit_length() - 1
    shape = ModelShape(n_layer=layers, n_head=heads, n_embd=width, vocab_size=vocabulary, block_size=context)
    if on_card:
        pick_attention(shape, batch, machine.device, torch.bfloat16)
        torch.cuda.empty_cache()
    begin = time.monotonic()
    clock = make_clock(machine.device, begin)
    bus = Bus(machine.device, clock)
    trainer = _trainer(shape, steps, bus, TrainConfig(learning_rate=1e-4, min_lr=1e-5), batch)
    count = max(1, args.tokens_per_step // (batch * context))
    tokens = torch.randint(0, vocabulary, (count, batch, context + 1), device=machine.device)
    trainer.passes(tokens[0, :, :-1].contiguous(), tokens[0, :, 1:].contiguous(), count)
    if on_card:
        captured = trainer.passes.capture_graph(tokens[0, :, :-1].contiguous(), tokens[0, :, 1:].contiguous(), count)
        print(f"{args.way}: built in {time.monotonic() - begin:.0f} s; {', '.join(steps)}; {captured}", flush=True)
    trainer.passes.zero_grad()
    trainer.step(tokens[:1])  # once, so that every buffer is there
    for name, rate in RATES.items() if args.way == "host" else {"": None}.items():
        bus.slow_down(rate)
        trainer.step(tokens[:1])
        _wait(machine.device)
        clock.completed_pieces()
        waited, moved, begin = clock.totals.get("bus", 0.0), bus.moved[0], time.perf_counter()
        for _ in range(args.steps):
            loss = trainer.step(tokens)
            clock.mark("optimizer", 0)
        _wait(machine.device)
        seconds = time.perf_counter() - begin
        clock.completed_pieces()
        wait_s = (clock.totals.get("bus", 0.0) - waited) / 1000 / args.steps
        found = {
            "way": args.way,
            "bus": name,
            "micro_batch": batch,
            "memory_steps": steps,
            "tokens_per_s": args.steps * count * batch * context / seconds,
            "peak_gib": torch.cuda.max_memory_allocated() / GIB if on_card else 0.0,
            "reserved_gib": torch.cuda.max_memory_reserved() / GIB if on_card else 0.0,
            "predicted_gib": fused_peak_bytes(size, batch, steps) / GIB,
            "host_gib": 0.0 if trainer.host is None else trainer.host.host_bytes / GIB,
            "process_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB,
            "pinned": trainer.host is not None and trainer.host.arena.pinned,
            "by_cores": trainer.host is not None and trainer.host.by_cores,
            "wait_s": wait_s,
            "gb_per_s": (bus.moved[0] - moved) / args.steps / wait_s / 1e9 if wait_s else 0.0,
            "seconds_per_step": seconds / args.steps,
            "loss": loss.item(),
        }
        print(json.dumps(found), flush=True)


def _trainer(shape: ModelShape, steps: tuple[str, ...], bus: Bus, config: TrainConfig, batch: int) -> Trainer:
    device = bus.device
    if "host" not in steps:
        with device:
            model = GPT(shape)
        fused = FusedGPT(model, steps)
        optimizer = make_optimizer(model, config, device, steps)
        return Trainer(fused, FusedPasses(fused), optimizer, None, bus)
    with InitOnDevice(device):
        model = GPT(shape)
    arena = arena_for(model, device, muon=False)
    fused = FusedGPT(model, steps)
    optimizer = make_optimizer(model, config, device, steps)
    stream = layer_stream(fused, steps, batch * shape.block_size, bus)
    return Trainer(
        fused, FusedPasses(fused), optimizer, HostStates(model, fused, optimizer, arena, bus, CLIP, stream=stream), bus
    )


# --- losses ----------------------------------------------------------------------------------------------------------


def _compare_losses(args: argparse.Namespace) -> None:
    """The mean loss of the last tenth of the steps, with each seed, everything on the card and with the host."""
    corpus, device = open_corpus(args.losses), find_machine(args.device).device
    name = args.model if args.model == "tiny" else "124m"
    layers, heads, width, vocabulary, context = MODELS[name]
    shape = ModelShape(n_layer=layers, n_head=heads, n_embd=width, vocab_size=vocabulary, block_size=context)
    count = args.steps if name == "tiny" else LOSS_STEPS
    ends: dict[str, list[float]] = {"card": [], "host": []}
    for seed in SEEDS:
        order = Order(corpus.train, context, seed)
        rows = torch.empty((count, 1, LOSS_BATCH, context + 1), dtype=torch.int32)
        corpus.train.gather(order.starts(0, count * LOSS_BATCH), context + 1, rows.view(-1, context + 1).numpy())
        rows = rows.clamp_(max=vocabulary - 1)
        config = TrainConfig(learning_rate=1e-3, min_lr=1e-4, warmup_iters=20, max_iters=count, lr_decay_iters=count)
        both = []
        for way, steps in (("card", ()), ("host", ("host",))):
            seed_everything(seed)
            trainer = _trainer(shape, steps, Bus(device), replace(config, seed=seed), LOSS_BATCH)
            losses = []
            for number in range(count):
                set_learning_rate(trainer.optimizer, learning_rate(config, number))
                losses.append(trainer.step(rows[number].to(device).long()))
            losses = torch.stack(losses).tolist()
            both.append(losses)
            ends[way].append(fmean(losses[-max(1, count // 10) :]))
            print(f"seed {seed}, {way}: {losses[0]:.4f} to {ends[way][-1]:.4f}", flush=True)
            del trainer
        apart = next((number for number, (one, other) in enumerate(zip(*both, strict=True)) if one != other), None)
        print(f"seed {seed}: the same losses " + ("throughout" if apart is None else f"until step {apart}"))
    print(
        f"card {fmean(ends['card']):.4f}, host {fmean(ends['host']):.4f}; seeds differ by {stdev(ends['card']):.4f}, "
        f"both ways by at most {max(abs(a - b) for a, b in zip(ends['card'], ends['host'], strict=True)):.4f}"
    )


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
