"""Is the loss the same as nanoGPT's, with the same data, settings and number of steps? (Speed: cpu.py, throughput.py.)

nanoGPT draws its windows at random, with replacement; we do not. After 500 steps, that alone makes one trainer's
validation loss vary by 0.04 from seed to seed. So here nanoGPT's train.py gets our windows in our order, and we start
from its initial weights, which it draws on the CPU; then both last checkpoints are evaluated in the same way.
--repeats does so from other initial weights on the same windows, which shows the noise.

    python bench/parity.py path/to/nanoGPT              # about four minutes on two cores
    python bench/parity.py path/to/nanoGPT --own        # each with its own windows, three seeds: ten minutes
    python bench/parity.py path/to/nanoGPT --cuda       # GPT-2 124M on a card, with our kernels and torch.compile
    python bench/parity.py path/to/nanoGPT --cuda --repeats 3
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from statistics import fmean, median, stdev

import numpy as np
import torch

from nanogpt import Knobs, given_windows, run_nanogpt, run_nanopace, seeded, write_tokens
from nanopace.config import TrainConfig
from nanopace.corpus.prepare.prepare import ensure
from nanopace.corpus.shards.corpus import Corpus, Split, open_corpus
from nanopace.corpus.shards.order import Order
from nanopace.train.checkpoint.layout import verified
from nanopace.train.formats.nanogpt_checkpoint import load_nanogpt, save_nanogpt
from nanopace.train.formats.pretrained import Pretrained
from nanopace.train.loop.evaluate import Evaluator
from nanopace.train.models.gpt2 import GPT, ModelShape

STEPS, CUDA_STEPS = 500, 200
SEEDS = (1337, 1338, 1339)
BAR = 0.02
KNOBS: Knobs = {
    "batch_size": 8,
    "block_size": 128,
    "gradient_accumulation_steps": 2,
    "n_layer": 4,
    "n_head": 4,
    "n_embd": 128,
    "dropout": 0.0,
    "learning_rate": 1e-3,
    "min_lr": 1e-4,
    "warmup_iters": 50,
    "max_iters": STEPS,
    "lr_decay_iters": STEPS,
    "eval_interval": STEPS,
    "eval_iters": 20,
    "device": "cpu",
    "dtype": "float32",
    "compile": False,
}
ON_A_CARD: Knobs = {
    **KNOBS,
    "batch_size": 64,
    "block_size": 1024,
    "gradient_accumulation_steps": 1,
    "n_layer": 12,
    "n_head": 12,
    "n_embd": 768,
    "learning_rate": 6e-4,
    "min_lr": 6e-5,
    "warmup_iters": 20,
    "max_iters": CUDA_STEPS,
    "lr_decay_iters": CUDA_STEPS,
    "eval_interval": CUDA_STEPS,
    "device": "cuda",
    "dtype": "bfloat16",
    "compile": True,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nanogpt", type=Path)
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--repeats", type=int, default=1, help="runs on the same windows, each from new weights")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        corpus = open_corpus(ensure("python"))
        assert corpus.vocab_size is not None
        data = open_corpus(write_tokens(room / "data", _tokens(corpus.train), _tokens(corpus.val), corpus.vocab_size))
        if args.own:
            _own_windows(args.nanogpt, data, room)
        elif args.cuda:
            ways: dict[str, Knobs] = {"our kernels": {}, "torch.compile": {"fused": False}}
            _same_windows(args.nanogpt, data, room, ON_A_CARD, ways, args.repeats)
        else:
            _same_windows(args.nanogpt, data, room, KNOBS, {"nanopace": {}}, args.repeats)


def _same_windows(
    nanogpt: Path, corpus: Corpus, room: Path, knobs: Knobs, ways: dict[str, Knobs], repeats: int
) -> None:
    config = TrainConfig(**knobs)
    knobs = {**knobs, "dataset": str(corpus.directory)}
    per_step, steps = config.gradient_accumulation_steps * config.batch_size, config.max_iters
    np.save(room / "starts.npy", Order(corpus.train, config.block_size, SEEDS[0]).starts(0, (steps + 2) * per_step))
    losses: dict[str, list[float]] = {name: [] for name in ("nanoGPT", *ways)}
    for seed in range(SEEDS[0], SEEDS[0] + repeats):
        theirs = given_windows(seeded(nanogpt, room, seed), room / "starts.npy")
        run_nanogpt(theirs, {**knobs, "out_dir": str(room / "theirs")}, room / "theirs.log")
        model = load_nanogpt(room / "theirs" / "ckpt.pt").model(config.device)
        losses["nanoGPT"].append(_evaluate(model, corpus))
        begun = {"init_from": str(_drawn(room / "begun.pt", config, corpus, seed)), "seed": SEEDS[0], "keep_last": 5}
        for name, how in ways.items():
            out = room / name
            run_nanopace({**knobs, **how, **begun, "out_dir": str(out)}, room / "ours.log")
            losses[name].append(_evaluate(_load(out, steps).to(config.device), corpus))
            shutil.rmtree(out)
        print(f"seed {seed}:", *(f"{name} {each[-1]:.4f}" for name, each in losses.items()), flush=True)
    print(f"validation loss after {steps} steps on the same windows: nanoGPT {_spread(losses['nanoGPT'])}")
    for name in ways:
        _judge(name, losses[name], losses["nanoGPT"])


def _judge(name: str, ours: list[float], theirs: list[float]) -> None:
    """Compare in pairs that start from the same weights."""
    differences = [mine - other for mine, other in zip(ours, theirs, strict=True)]
    error = f" ± {stdev(differences) / len(differences) ** 0.5:.5f}" if len(differences) > 1 else ""
    holds = "yes" if abs(fmean(differences)) <= BAR else "NO"
    print(f"  {name} {_spread(ours)}, difference {fmean(differences):+.5f}{error}; within {BAR}: {holds}", flush=True)


def _spread(losses: list[float]) -> str:
    return f"{fmean(losses):.4f}" + (f", spread {stdev(losses):.4f}" if len(losses) > 1 else "")


def _drawn(path: Path, config: TrainConfig, corpus: Corpus, seed: int) -> Path:
    """nanoGPT's initial weights: on the CPU, the same seed gives both trainers the same."""
    assert corpus.vocab_size is not None
    sizes = {name: getattr(config, name) for name in ("n_layer", "n_head", "n_embd", "block_size")}
    shape = ModelShape(**sizes, vocab_size=corpus.vocab_size)
    torch.manual_seed(seed)
    save_nanogpt(path, Pretrained(path=path, shape=shape, weights=GPT(shape).state_dict()))
    return path


def _load(out_dir: Path, steps: int = STEPS) -> GPT:
    saved = verified(out_dir / "checkpoints" / f"step-{steps:08d}")
    model = GPT(saved.shape)
    model.load_state_dict(saved.weights())
    return model


def _own_windows(nanogpt: Path, corpus: Corpus, room: Path) -> None:
    losses: dict[str, list[float]] = {"nanopace": [], "nanoGPT": []}
    times: dict[str, list[float]] = {"nanopace": [], "nanoGPT": []}
    for seed in SEEDS:
        knobs: Knobs = {**KNOBS, "dataset": str(corpus.directory)}
        out = room / f"ours{seed}"
        ours = run_nanopace({**knobs, "out_dir": str(out), "keep_last": 5, "seed": seed}, room / "ours.log")
        theirs = run_nanogpt(
            seeded(nanogpt, room, seed), {**knobs, "out_dir": str(room / "theirs")}, room / "theirs.log"
        )
        model = _load(out)
        their_model = load_nanogpt(room / "theirs" / "ckpt.pt").model()
        for name, result, trained in (("nanopace", ours, model), ("nanoGPT", theirs, their_model)):
            losses[name].append(_evaluate(trained, corpus))
            times[name] += [row.ms for row in result.run.rows][5:]
        print(f"seed {seed}: nanopace {losses['nanopace'][-1]:.4f}, nanoGPT {losses['nanoGPT'][-1]:.4f}", flush=True)
    ours_loss, theirs_loss = (fmean(losses[name]) for name in losses)
    error = sum(stdev(each) ** 2 / len(each) for each in losses.values()) ** 0.5
    difference = ours_loss - theirs_loss
    print(f"mean validation loss after {STEPS} steps: nanopace {ours_loss:.4f}, nanoGPT {theirs_loss:.4f}")
    print(f"  difference {difference:+.4f} ± {error:.4f}; within {BAR}: {'yes' if abs(difference) <= BAR else 'NO'}")
    ours_ms, theirs_ms = median(times["nanopace"]), median(times["nanoGPT"])
    print(f"median step: nanopace {ours_ms:.1f} ms, nanoGPT {theirs_ms:.1f} ms, ratio {theirs_ms / ours_ms:.3f}")


@torch.no_grad()
def _evaluate(model: GPT, corpus: Corpus) -> float:
    model.eval()
    evaluator = Evaluator(
        model.sequence_losses,
        corpus.val,
        block_size=model.shape.block_size,
        batch_size=16,
        windows=800,
        seed=7,
        device=next(model.parameters()).device,
    )
    loss = evaluator.evaluate(0).val
    assert loss is not None
    return loss


def _tokens(split: Split) -> np.ndarray:
    out = np.empty((1, split.tokens), dtype=np.uint16)
    assert len(split.shards) == 1
    split.gather(np.zeros(1, np.int64), split.tokens, out)
    return out[0]


if __name__ == "__main__":
    main()
