"""What deterministic=True costs, and whether a run that is killed again and again ends with the same bits.

    python bench/deterministic.py                       # both recipes, 20 kills each: under five minutes on an H200
    python bench/deterministic.py --recipe fast --kills 5 --out results.jsonl
    python bench/deterministic.py --small --kills 3     # a rehearsal on a CPU, without the speed

Three parts, each in its own process with its own time limit; every line is printed, and written to --out, as soon as it
is known:

    kernels  milliseconds of attention, forward and backward, by kernel, and whether its bits repeat; the embedding
             tables' gradients by sorted segments and by atomics
    speed    milliseconds per step of GPT-2 124M, 64 x 1024 tokens, with and without (torch's fastest attention), in
             turn, and their ratio
    kills    a run that nobody stops, then runs that are killed with SIGKILL and resumed until they end; their weights,
             averages, losses and evaluations must be the same

The exit code is 1 if any bit differs or a part fails.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

HERE = Path(__file__).resolve()
TRAIN_TESTS = HERE.parents[1] / "tests" / "train"
RECIPES = ("gpt2", "fast")
PARTS = ("kernels", "speed", "kills")
SECONDS = {"kernels": 100, "speed": 100, "kills": 100}  # before a part is killed
HEADS = {"gpt2": (12, 64), "fast": (6, 128)}
ROUNDS, PER_ROUND = 9, 5
STEPS = 41  # iterations of a run that is killed, counting from 0
# Wide enough for products in 8 bits with `fast`.
SMALL_MODELS: dict[str, dict[str, object]] = {
    "gpt2": {"n_layer": 6, "n_head": 6, "n_embd": 384, "batch_size": 16},
    "fast": {"n_layer": 3, "n_head": 6, "n_embd": 768, "batch_size": 8, "recipe": "fast"},
}
KILLED: dict[str, object] = {
    "device": "cuda",
    "deterministic": True,
    "vocab_size": 8192,
    "block_size": 1024,
    "gradient_accumulation_steps": 2,
    "learning_rate": 1e-3,
    "min_lr": 1e-4,
    "warmup_iters": 5,
    "max_iters": STEPS,
    "lr_decay_iters": STEPS,
    "eval_interval": 14,
    "eval_iters": 2,
    "save_interval": 7,
    "keep_last": 2,
    "check_every": 10,
}


# --- the parts, one after the other ----------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", choices=RECIPES, action="append", help="default: both")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: all")
    parser.add_argument("--kills", type=int, default=20, help="per recipe (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="a tiny model on the CPU, and only the kills")
    parser.add_argument(
        "--without", action="store_true", help="kill runs with deterministic=False, which should differ"
    )
    parser.add_argument("--out", type=Path, help="append results to this file, as JSON lines")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # in this process
    args = parser.parse_args()
    parts = ("kills",) if args.small else args.part or PARTS
    recipes = args.recipe or RECIPES
    if args.here:
        for result in _results(parts[0], recipes[0], args):
            print(json.dumps(result), flush=True)
        return 0
    failed = False
    for part in parts:
        for recipe in recipes:
            for result in _in_a_process(part, recipe, args):
                failed |= bool(result.get("failed"))
                print(_line(result), flush=True)
                if args.out is not None:
                    with args.out.open("a") as file:
                        file.write(json.dumps(result) + "\n")
    return int(failed)


def _in_a_process(part: str, recipe: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Its results, as they come; the last one says so if it failed or took too long."""
    command = [sys.executable, str(HERE), "--here", "--part", part, "--recipe", recipe]
    command += ["--kills", str(args.kills), "--seed", str(args.seed)]
    command += ["--small"] * args.small + ["--without"] * args.without
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    seconds = SECONDS[part] + (8 * args.kills if part == "kills" else 0)
    limit = time.monotonic() + seconds
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, start_new_session=True)
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    about, rest = {"part": part, "recipe": recipe}, b""
    while True:
        ended = process.poll() is not None
        rest += process.stdout.read() or b""
        *lines, rest = rest.split(b"\n")
        yield from ({**about, **json.loads(line)} for line in lines if line.startswith(b"{"))
        if ended:
            break
        if time.monotonic() > limit:
            os.killpg(process.pid, signal.SIGKILL)  # its children, too
            process.wait()
            yield {**about, "failed": f"took longer than {seconds} s"}
            return
        time.sleep(0.1)
    if process.returncode:
        yield {**about, "failed": f"exit code {process.returncode}"}


def _line(result: dict[str, Any]) -> str:
    shown = {name: value for name, value in result.items() if name not in ("part", "recipe")}
    said = ", ".join(
        f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}" for name, value in shown.items()
    )
    return f"{result['part']:8} {result['recipe']:5} {said}"


def _results(part: str, recipe: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if part == "kernels":
        from deterministic_kernels import attention, embedding, values

        yield from attention(*HEADS[recipe])
        yield from (embedding() if recipe == "gpt2" else values())
    elif part == "speed":
        yield from _speed(recipe)
    else:
        yield from _kills(recipe, args)


# --- speed -----------------------------------------------------------------------------------------------------------


def _speed(recipe: str) -> Iterator[dict[str, Any]]:
    """In turn, so that a card that gets warmer slows down both."""
    import torch

    from deterministic_kernels import BATCH, LENGTH, VOCAB, tokens_of_text
    from kernels import milliseconds, update_of
    from nanopace.config import TrainConfig
    from nanopace.train.fused.attention import attention_by, pick_attention, pick_fixed_order
    from nanopace.train.fused.fast import FusedFastGPT
    from nanopace.train.fused.gpt2 import FusedGPT
    from nanopace.train.kernels.fp8 import products_by_rule
    from nanopace.train.models.gpt2 import ModelShape
    from nanopace.train.models.recipes import new_model, recipe_defaults
    from nanopace.train.optim.optimizer import make_optimizer

    device, heads = torch.device("cuda", 0), HEADS[recipe][0]
    config = TrainConfig(recipe=recipe, batch_size=BATCH, n_head=heads, **recipe_defaults(recipe, 100))  # type: ignore[arg-type]
    shape = ModelShape(n_layer=12, n_head=heads, n_embd=768, vocab_size=VOCAB, block_size=LENGTH, recipe=recipe)
    torch.manual_seed(1)
    with device:
        model = new_model(shape)
    fp8 = products_by_rule(shape)[0] if recipe == "fast" else ()
    fused = FusedFastGPT(model, (), fp8) if recipe == "fast" else FusedGPT(model, (), fp8)
    optimizer = make_optimizer(model, config, device)
    tokens = tokens_of_text()
    targets = tokens.roll(-1, 1)

    def with_it() -> str:
        kernel, _ = pick_fixed_order(shape, device, torch.bfloat16, ours=True)
        fused.attention = attention_by(kernel, fixed_order=True)
        return kernel

    def without() -> str:
        kernel, reason = pick_attention(shape, BATCH, device, torch.bfloat16)
        fused.attention = attention_by(kernel, fixed_order=False)
        return reason

    def step() -> None:
        fused.gradients(tokens, targets)
        update_of(fused, optimizer, config.grad_clip)

    times: dict[str, list[float]] = {"with": [], "without": []}
    for number in range(ROUNDS):
        for name, switch in (("with", with_it), ("without", without)):
            switch()
            took = milliseconds(step, PER_ROUND)
            if number:  # the first round is a warm-up
                times[name].append(took)
    ratios = [one / other for one, other in zip(times["with"], times["without"], strict=True)]
    with_it()
    equal = _same_gradients(fused, tokens, targets)
    result: dict[str, Any] = {"attention": with_it(), "torch's fastest": without()}
    result |= {"with ms": median(times["with"]), "without ms": median(times["without"]), "ratio": median(ratios)}
    result |= {"lowest": min(ratios), "highest": max(ratios), "same gradients": equal}
    result["same without"] = _same_gradients(fused, tokens, targets)
    yield {**result, **({} if equal else {"failed": "bits differ"})}
    yield {"checksums of weights and averages, twice a step, ms": 2 * _checksum_ms(model, optimizer)}


def _checksum_ms(model: Any, optimizer: Any) -> float:
    from deterministic_kernels import ms
    from nanopace.train.kernels.checksum import checksum_plan, checksums
    from nanopace.train.optim.optimizer import optimizer_tensors

    tensors = [*(each.detach() for each in model.parameters()), *optimizer_tensors(model, optimizer).values()]
    plan = checksum_plan(tensors)
    return ms(lambda: checksums(tensors, plan))


def _same_gradients(fused: Any, tokens: torch.Tensor, targets: torch.Tensor) -> bool:
    from deterministic_kernels import same_bits

    found = []
    for _ in range(3):
        fused.zero_grad()
        fused.gradients(tokens, targets)
        found.append([each.grad.clone() for each in fused._weights])
    fused.zero_grad()
    return all(same_bits(found[0], other) for other in found[1:])


# --- kills -----------------------------------------------------------------------------------------------------------


def _kills(recipe: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """tests/train/killing.py does it. This process has not used the card, and forks for each life."""
    sys.path.insert(0, str(TRAIN_TESTS))
    sys.path.insert(0, str(TRAIN_TESTS.parents[1]))
    import killing
    import safetensors.torch  # noqa: F401
    import torch

    import nanopace.train.run  # noqa: F401

    if args.small:
        torch.set_num_threads(1)
        killing.KNOBS.update(deterministic=True, recipe=recipe)
    else:
        killing.KNOBS.clear()
        killing.KNOBS.update({**KILLED, **SMALL_MODELS[recipe]})
        if args.without:
            killing.KNOBS.update(deterministic=False, check_every=0)
        killing.LAST = f"step-{STEPS + 1:08d}"
    gc.freeze()
    with tempfile.TemporaryDirectory() as folder:
        corpus = _corpus(Path(folder, "corpus"), small=args.small)
        rng, tally = random.Random(args.seed), killing.Tally()
        whole, once_more = Path(folder, "whole"), Path(folder, "once-more")
        for out in (whole, once_more):  # the first one compiles kernels
            began = time.monotonic()
            killing._run(out, corpus, killing.forked, rng, 0.0, killing.Tally(), kills=0)
            lasts = time.monotonic() - began
        last = whole / "checkpoints" / killing.LAST
        names = ("model.safetensors", "optimizer.safetensors")
        sums = {name: hashlib.sha256((last / name).read_bytes()).hexdigest()[:16] for name in names}
        differences = list(killing.differences(once_more, whole))
        yield {"run": "never stopped, twice", "seconds": lasts, **sums, **_judged(differences)}
        _remove(once_more)
        while tally.kills < args.kills:
            before, out = tally.kills, Path(folder, f"killed-{tally.runs}")
            killing._run(out, corpus, killing.forked, rng, lasts, tally, args.kills)
            differences = list(killing.differences(out, whole))
            resumed = tally.resumed_from[len(tally.resumed_from) - (tally.kills - before) - 1 :]
            yield {"run": f"killed {tally.kills - before} times", "began at": resumed, **_judged(differences)}
            _remove(out)
        yield {"run": "all", "kills": tally.kills, "runs": tally.runs, "left": tally.left}


def _judged(differences: list[str]) -> dict[str, Any]:
    return {"same bits": False, "failed": "; ".join(differences)} if differences else {"same bits": True}


def _corpus(folder: Path, *, small: bool) -> Path:
    if small:
        from tests.train.conftest import write_corpus

        return write_corpus(folder)
    from nanogpt import write_zipf_tokens

    return write_zipf_tokens(folder, 4_000_000, 200_000, 8192)


def _remove(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
