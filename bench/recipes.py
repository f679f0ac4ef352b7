"""What each ingredient of recipe fast is worth, and which settings are best: many short runs in one process.

Every run trains on the same windows in the same order and is evaluated on the same validation windows. The clock counts
only steps: no evaluation, no checkpoint, no start-up. time_to_loss.py measures the time to a loss with all of them.

    python bench/recipes.py --corpus data/code --ablate                     # leave out each ingredient in turn
    python bench/recipes.py --corpus data/code --try matrix_lr=0.02 --try matrix_lr=0.04,learning_rate=2e-3
    python bench/recipes.py --corpus data/code --try recipe=gpt2,learning_rate=1e-3,batch=64,iters=400 --seeds 3

    python bench/recipes.py --corpus data/code --seeds 3 --try recipe=gpt2,memory=averages --try recipe=gpt2,fp8=True

The last one shows how averages in bfloat16, or products in 8 bits, affect the loss; memory=gradients with accum=1 shows
the effect of updating each layer in the backward pass.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import torch
from torch import Tensor

from kernels import update_of
from loss_clock import Value, parse_setting
from nanopace.config import TrainConfig
from nanopace.corpus.shards.corpus import Corpus, open_corpus
from nanopace.corpus.shards.order import Order
from nanopace.knob_values import INGREDIENTS, memory_steps
from nanopace.memory_ladder import keeps_gradients
from nanopace.train.checkpoint.lock import Claim
from nanopace.train.checkpoint.rng_state import seed_everything
from nanopace.train.fused.step_in_backward import StepInBackward
from nanopace.train.loop.evaluate import Evaluator
from nanopace.train.loop.passes import FusedPasses, Passes, PlainPasses
from nanopace.train.loop.schedule import learning_rate
from nanopace.train.models.recipes import new_model, recipe_defaults, shape_defaults
from nanopace.train.optim.optimizer import make_optimizer, set_learning_rate
from nanopace.train.parallel import parallelize
from nanopace.train.plan.device import autocast, find_machine
from nanopace.train.plan.measure import with_attention, with_products
from nanopace.train.plan.resolve import plan_run
from nanopace.train.plan.run_plan import Choice
from nanopace.train.plan.settings import Settings, shape_of
from nanopace.train.ranks import Ranks

BASE = "recipe=fast,n_layer=12,n_embd=768,block_size=1024,vocab_size=50304,batch=64,accum=1,iters=200"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--base", default=BASE, help="knobs for all runs")
    parser.add_argument("--try", dest="tries", action="append", default=[], help="knobs for one run; repeatable")
    parser.add_argument("--ablate", action="store_true", help="one run per ingredient, leaving it out")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--windows", type=int, default=1024, help="validation windows")
    parser.add_argument("--keep", type=Path, help="append results to this file, as JSON lines")
    args = parser.parse_args()
    corpus = open_corpus(args.corpus)
    tries = [*args.tries, *([""] + [f"without={each}" for each in INGREDIENTS["fast"]] if args.ablate else [])]
    print(f"{'setting':56}{'tokens':>8}{'seconds':>9}{'ms/step':>9}{'val loss':>10}")
    for each in tries or [""]:
        results = [_run(corpus, args, each, 1337 + number) for number in range(args.seeds)]
        seconds, losses = ([result[name] for result in results] for name in ("seconds", "loss"))
        spread = f" ± {stdev(losses):.4f}" if len(losses) > 1 else ""
        first = results[0]
        print(
            f"{each or 'unchanged':56}{first['tokens'] / 1e6:7.1f}M{fmean(seconds):9.2f}"
            f"{fmean(seconds) / first['steps'] * 1000:9.1f}{fmean(losses):10.4f}{spread}",
            flush=True,
        )


def _run(corpus: Corpus, args: argparse.Namespace, setting: str, seed: int) -> dict[str, float]:
    knobs: dict[str, Value] = {**parse_setting(args.base), **parse_setting(setting), "seed": seed}
    machine = find_machine(str(knobs["device"]) if "device" in knobs else None)
    knobs.setdefault("dtype", "bfloat16" if machine.device.type == "cuda" else "float32")
    recipe, defaults = str(knobs["recipe"]), shape_defaults(str(knobs["recipe"]), int(knobs["n_embd"]))
    knobs = {**defaults, **recipe_defaults(recipe, int(knobs["max_iters"])), **knobs}
    config = TrainConfig(**knobs)  # type: ignore[arg-type]
    shape = shape_of(config, "gelu")
    seed_everything(config.seed)
    with machine.device:
        model = new_model(shape)
    saving = memory_steps(config.memory) or ()
    plan = plan_run(Settings(config, {}), shape, machine, corpus, claim=Claim(Path(config.out_dir)), ranks=Ranks())
    plan = with_attention(replace(plan, memory_steps=Choice(saving, "asked for")))
    if config.fp8:
        plan = with_products(plan)
    called = parallelize(model, plan)
    optimizer = make_optimizer(model, config, machine.device, saving)
    scaler = torch.amp.GradScaler(machine.device.type, enabled=False)
    passes: Passes = PlainPasses(called.loss, optimizer, scaler, autocast(config, machine.device))
    release: StepInBackward | None = None
    if called.fused is not None:
        passes = FusedPasses(called.fused)
        if not keeps_gradients(saving):
            release = called.fused.release = StepInBackward(optimizer, config.grad_clip, machine.device)
    windows = _windows(corpus, config)
    with nullcontext() if release is None else release.weights_frozen():
        _rehearse(passes, windows, config, machine.device)
    begin = time.perf_counter()
    for step in range(config.max_iters):
        set_learning_rate(optimizer, learning_rate(config, step))
        some = windows[step].to(machine.device, non_blocking=True).long()
        for micro in some:
            passes(micro[:, :-1], micro[:, 1:], len(some))
        if release is None:  # otherwise the backward pass has changed the weights
            update_of(passes, optimizer, config.grad_clip)
    _wait(machine.device)
    seconds = time.perf_counter() - begin
    with torch.no_grad(), autocast(config, machine.device):
        evaluator = Evaluator(
            called.sequence_losses,
            corpus.val,
            block_size=config.block_size,
            batch_size=min(16, args.windows),
            windows=args.windows,
            seed=7,
            device=machine.device,
        )
        loss = evaluator.evaluate(config.max_iters).val
    result = {"loss": loss, "seconds": seconds, "steps": config.max_iters, "tokens": windows[..., 1:].numel()}
    if args.keep is not None:
        with args.keep.open("a") as file:
            file.write(json.dumps({**knobs, **result}) + "\n")
    del model, called, optimizer, passes, release, evaluator
    gc.collect()
    return result


def _windows(corpus: Corpus, config: TrainConfig) -> Tensor:
    """The windows of all steps: (steps, micro-batches, sequences, tokens)."""
    end_of_text = None if corpus.tokenizer is None else corpus.tokenizer.end_of_text
    order = Order(corpus.train, config.block_size, config.seed, documents=config.documents, end_of_text=end_of_text)
    size = (config.max_iters, config.gradient_accumulation_steps, config.batch_size, config.block_size + 1)
    windows = torch.empty(size, dtype=torch.int32, pin_memory=torch.cuda.is_available())
    rows = windows.view(-1, size[-1])
    corpus.train.gather(order.starts(0, len(rows)), size[-1], rows.numpy())
    return windows


def _rehearse(passes: Passes, windows: Tensor, config: TrainConfig, device: torch.device) -> None:
    """Compile and record before the clock starts."""
    micro = windows[0, 0].to(device).long()
    tokens, targets = micro[:, :-1].contiguous(), micro[:, 1:].contiguous()
    passes(tokens, targets, config.gradient_accumulation_steps)
    passes.capture_graph(tokens, targets, config.gradient_accumulation_steps)
    passes.zero_grad()
    _wait(device)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    main()
