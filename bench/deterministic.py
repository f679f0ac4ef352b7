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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor

HERE = Path(__file__).resolve()
TRAIN_TESTS = HERE.parents[1] / "tests" / "train"
RECIPES = ("gpt2", "fast")
PARTS = ("kernels", "speed", "kills")
SECONDS = {"kernels": 100, "speed": 100, "kills": 100}  # before a part is killed
VOCAB, LENGTH, BATCH = 50304, 1024, 64
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
        yield from _attention(*HEADS[recipe])
        yield from (_embedding() if recipe == "gpt2" else _values())
    elif part == "speed":
        yield from _speed(recipe)
    else:
        yield from _kills(recipe, args)


# --- kernels ---------------------------------------------------------------------------------------------------------


def _attention(heads: int, width: int) -> Iterator[dict[str, Any]]:
    """Forward and backward apart, and the largest error relative to float32."""
    import torch

    from nanopace.train.fused.attention import OURS, _switch_on, attention_by

    device = torch.device("cuda", 0)
    packed = torch.randn((BATCH, LENGTH, 3, heads, width), device=device, dtype=torch.bfloat16)
    q, k, v = (each.transpose(1, 2).requires_grad_() for each in packed.unbind(2))
    d_out = torch.randn((BATCH, LENGTH, heads, width), device=device, dtype=torch.bfloat16).transpose(1, 2)
    exact = _exact([each[:2] for each in (q, k, v)], d_out[:2])
    ways = [(each, False) for each in ("cudnn", "flash", "efficient")]
    ways += [(each, True) for each in (OURS, "flash", "efficient")]
    for name, fixed in ways:
        _switch_on(name)
        attention = attention_by(name, fixed_order=fixed)
        try:
            found = [attention.backward(*attention.forward(q, k, v), (q, k, v), d_out) for _ in range(4)]
            equal = all(_equal(found[0], other) for other in found[1:])
            wrong = max(
                float((one[:2].float() - other).norm() / other.norm())
                for one, other in zip(found[0], exact, strict=True)
            )
            del found
            forward = _ms(lambda a=attention: a.forward(q, k, v))
            both = _ms(lambda a=attention: a.backward(*a.forward(q, k, v), (q, k, v), d_out))
        except RuntimeError as error:
            yield {"attention": name, "heads": f"{heads} x {width}", "refused": str(error).splitlines()[0][:90]}
            continue
        result = {"attention": name, "fixed order": fixed, "heads": f"{heads} x {width}"}
        result |= {"forward ms": forward, "backward ms": both - forward, "both ms": both}
        result |= {"error": wrong, "same bits": equal}
        yield {**result, **({"failed": "bits differ"} if fixed and not equal else {})}


def _exact(q_k_v: Sequence[Tensor], d_out: Tensor) -> list[Tensor]:
    import torch

    q, k, v = (each.detach().float().requires_grad_() for each in q_k_v)
    hidden = torch.full((LENGTH, LENGTH), float("-inf"), device=q.device).triu(1)
    out = torch.softmax(q @ k.mT / q.size(-1) ** 0.5 + hidden, -1) @ v
    return list(torch.autograd.grad(out, (q, k, v), d_out.float()))


def _embedding() -> Iterator[dict[str, Any]]:
    import torch

    from atomic_sums import atomic_embed_backward
    from nanopace.train.kernels.embedding import embed_backward
    from nanopace.train.kernels.segments import sort_tokens

    tokens, device = _tokens(), torch.device("cuda", 0)
    d_x = torch.randn((tokens.numel(), 768), device=device, dtype=torch.bfloat16)
    for name, seen in {"zipf": tokens, "one token": torch.zeros_like(tokens), "bytes": tokens % 256}.items():
        order = sort_tokens(seen)
        tables = [torch.zeros((rows, 768), device=device) for rows in (VOCAB, LENGTH)]
        others = [torch.zeros_like(each) for each in tables]
        sorting = _ms(lambda seen=seen: sort_tokens(seen))
        ours = _ms(lambda seen=seen, order=order, tables=tables: embed_backward(d_x, seen, order, *tables))
        theirs = _ms(lambda seen=seen, tables=tables: atomic_embed_backward(d_x, seen, *tables))
        again = _twice(lambda into, seen=seen, order=order: embed_backward(d_x, seen, order, *into), others)
        yield _compared(f"token table, {name}", sorting, ours, theirs, again)


def _values() -> Iterator[dict[str, Any]]:
    import torch

    from atomic_sums import atomic_value_embeddings_backward
    from nanopace.train.kernels.segments import sort_tokens
    from nanopace.train.kernels.value_embeddings import add_value_embeddings_backward

    tokens, device = _tokens(), torch.device("cuda", 0)
    d_packed = torch.randn((tokens.numel(), 3 * 768), device=device, dtype=torch.bfloat16)
    table, gate = torch.randn((VOCAB, 768), device=device), torch.ones(6, device=device)
    grads, order = [torch.zeros_like(table), torch.zeros_like(gate)], sort_tokens(tokens)
    others = [torch.zeros_like(each) for each in grads]
    ours = _ms(lambda: add_value_embeddings_backward(d_packed, order, table, gate, *grads))
    theirs = _ms(lambda: atomic_value_embeddings_backward(d_packed, tokens, table, gate, *grads))
    again = _twice(lambda into: add_value_embeddings_backward(d_packed, order, table, gate, *into), others)
    yield _compared("value table, zipf", _ms(lambda: sort_tokens(tokens)), ours, theirs, again)


def _compared(table: str, sorting: float, ours: float, theirs: float, equal: bool) -> dict[str, Any]:
    result = {"table": table, "segments ms": ours, "sorting, once, ms": sorting, "atomics ms": theirs}
    return {**result, "same bits": equal, **({} if equal else {"failed": "bits differ"})}


def _twice(do: Callable[[list[Tensor]], None], into: list[Tensor]) -> bool:
    found = []
    for _ in range(3):
        for each in into:
            each.zero_()
        do(into)
        found.append([each.clone() for each in into])
    return all(_equal(found[0], other) for other in found[1:])


def _equal(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Bit for bit: NaN equals itself, and 0 is not -0."""
    import torch

    return all(
        torch.equal(a.view(torch.uint8), b.view(torch.uint8))
        for a, b in zip(map(_flat, some), map(_flat, others), strict=True)
    )


def _flat(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().flatten()


def _tokens() -> Tensor:
    import torch

    from nanogpt import zipf_tokens

    windows = torch.from_numpy(zipf_tokens(BATCH * (LENGTH + 1), VOCAB, 1).astype("int64")).view(BATCH, -1).cuda()
    return windows[:, :-1].contiguous()


def _ms(do: Callable[[], object]) -> float:
    import torch

    from nanopace.train.kernels.timing import card_ms

    return card_ms(do, torch.device("cuda", 0), calls=4)


# --- speed -----------------------------------------------------------------------------------------------------------


def _speed(recipe: str) -> Iterator[dict[str, Any]]:
    """In turn, so that a card that gets warmer slows down both."""
    import torch

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
    tokens = _tokens()
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
    from nanopace.train.kernels.checksum import checksum_plan, checksums
    from nanopace.train.optim.optimizer import optimizer_tensors

    tensors = [*(each.detach() for each in model.parameters()), *optimizer_tensors(model, optimizer).values()]
    plan = checksum_plan(tensors)
    return _ms(lambda: checksums(tensors, plan))


def _same_gradients(fused: Any, tokens: torch.Tensor, targets: torch.Tensor) -> bool:
    found = []
    for _ in range(3):
        fused.zero_grad()
        fused.gradients(tokens, targets)
        found.append([each.grad.clone() for each in fused._weights])
    fused.zero_grad()
    return all(_equal(found[0], other) for other in found[1:])


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
