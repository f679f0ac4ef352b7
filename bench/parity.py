"""The same loss as nanoGPT, and not slower, on a CPU: same data, same settings, same number of steps.

Two questions. First, whether the arithmetic is the same: nanoGPT's model and optimizer are given our windows, and their
losses must be ours. Second, whether the trainers as they are arrive at the same loss, though each draws windows in its
own way: both train with three seeds, in turns, and their last checkpoints are evaluated alike, on the same windows. The
times of their steps are compared in the same runs.

    python bench/parity.py path/to/nanoGPT              # about twelve minutes on two cores
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from statistics import fmean, median, stdev

import numpy as np
import torch

from nanogpt import Knobs, run_nanogpt, run_nanopace, write_tokens
from nanopace.config import TrainConfig
from nanopace.corpus.order import Order
from nanopace.corpus.prepare import ensure
from nanopace.corpus.shards import Corpus, Split, open_corpus
from nanopace.train.checkpoint_files import open_checkpoint
from nanopace.train.evaluate import Evaluation, Evaluator
from nanopace.train.model import GPT
from nanopace.train.nanogpt_checkpoint import load_nanogpt
from nanopace.train.schedule import learning_rate

STEPS = 500
SEEDS = (1337, 1338, 1339)
SAME_STEPS = 60
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nanogpt", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        corpus = open_corpus(ensure("python"))
        assert corpus.vocab_size is not None
        data = write_tokens(room / "data", _tokens(corpus.train), _tokens(corpus.val), corpus.vocab_size)
        _same_windows(args.nanogpt, open_corpus(data), room)
        _own_windows(args.nanogpt, open_corpus(data), room)


def _same_windows(nanogpt: Path, corpus: Corpus, room: Path) -> None:
    ours = run_nanopace(
        {**KNOBS, "dataset": str(corpus.directory), "out_dir": str(room / "same"), "max_iters": SAME_STEPS},
        room / "same.log",
    )
    events = map(json.loads, (room / "same" / "ledger.jsonl").read_text().splitlines())
    losses = [each["loss"] for each in events if each["event"] == "step"]
    assert len(ours.run.rows) == len(losses)
    sys.path.insert(0, str(nanogpt))
    theirs = import_module("model")
    config = TrainConfig(**{**KNOBS, "vocab_size": corpus.vocab_size})
    torch.manual_seed(SEEDS[0])
    with contextlib.redirect_stdout(io.StringIO()):
        model = theirs.GPT(
            theirs.GPTConfig(**{name: getattr(config, name) for name in theirs.GPTConfig.__annotations__})
        )
        optimizer = model.configure_optimizers(config.weight_decay, 0.0, (config.beta1, config.beta2), "cpu")
    order, width = Order(corpus.train, config.block_size, SEEDS[0]), config.block_size + 1
    micro, count = config.gradient_accumulation_steps, config.gradient_accumulation_steps * config.batch_size
    worst = 0.0
    for step, loss in enumerate(losses):
        tokens = np.empty((count, width), dtype=np.int64)
        corpus.train.gather(order.starts(step * count, count), width, tokens)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, step)
        mean = 0.0
        for part in torch.from_numpy(tokens).view(micro, -1, width):
            _, their_loss = model(part[:, :-1].contiguous(), part[:, 1:].contiguous())
            (their_loss / micro).backward()
            mean += their_loss.item() / micro
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        worst = max(worst, abs(mean - loss))
    print(f"nanoGPT's model and optimizer on our windows: losses of {len(losses)} steps differ by at most {worst:.1e}")


def _own_windows(nanogpt: Path, corpus: Corpus, room: Path) -> None:
    losses: dict[str, list[float]] = {"nanopace": [], "nanoGPT": []}
    times: dict[str, list[float]] = {"nanopace": [], "nanoGPT": []}
    for seed in SEEDS:
        knobs: Knobs = {**KNOBS, "dataset": str(corpus.directory)}
        out = room / f"ours{seed}"
        ours = run_nanopace({**knobs, "out_dir": str(out), "keep_last": 5, "seed": seed}, room / "ours.log")
        theirs = run_nanogpt(
            _seeded(nanogpt, room, seed), {**knobs, "out_dir": str(room / "theirs")}, room / "theirs.log"
        )
        saved = open_checkpoint(out / "checkpoints" / f"step-{STEPS:08d}")
        model = GPT(saved.shape)
        model.load_state_dict(saved.weights())
        their_model = load_nanogpt(room / "theirs" / "ckpt.pt").model()
        for name, result, trained in (("nanopace", ours, model), ("nanoGPT", theirs, their_model)):
            losses[name].append(_evaluate(trained, corpus).loss.mean)
            times[name] += [row.ms for row in result.run.rows][5:]
        print(f"seed {seed}: nanopace {losses['nanopace'][-1]:.4f}, nanoGPT {losses['nanoGPT'][-1]:.4f}", flush=True)
    ours_loss, theirs_loss = (fmean(losses[name]) for name in losses)
    error = sum(stdev(each) ** 2 / len(each) for each in losses.values()) ** 0.5
    difference = ours_loss - theirs_loss
    print(f"mean validation loss after {STEPS} steps: nanopace {ours_loss:.4f}, nanoGPT {theirs_loss:.4f}")
    print(
        f"  difference {difference:+.4f} ± {error:.4f}; within {BAR}: {'holds' if abs(difference) <= BAR else 'MISSED'}"
    )
    ours_ms, theirs_ms = median(times["nanopace"]), median(times["nanoGPT"])
    print(f"median step: nanopace {ours_ms:.1f} ms, nanoGPT {theirs_ms:.1f} ms, ratio {theirs_ms / ours_ms:.3f}")


def _seeded(nanogpt: Path, room: Path, seed: int) -> Path:
    """A copy of the checkout with another seed, which is a constant in its code."""
    copy = room / f"nanogpt{seed}"
    copy.mkdir()
    for path in nanogpt.glob("*.py"):
        (copy / path.name).write_text(path.read_text().replace("manual_seed(1337", f"manual_seed({seed}"))
    return copy


@torch.no_grad()
def _evaluate(model: GPT, corpus: Corpus) -> Evaluation:
    model.eval()
    evaluator = Evaluator(
        model.sequence_losses,
        corpus.val,
        block_size=model.shape.block_size,
        batch_size=16,
        windows=800,
        seed=7,
        device=torch.device("cpu"),
    )
    return evaluator.evaluate()


def _tokens(split: Split) -> np.ndarray:
    out = np.empty((1, split.tokens), dtype=np.uint16)
    assert len(split.shards) == 1
    split.gather(np.zeros(1, np.int64), split.tokens, out)
    return out[0]


if __name__ == "__main__":
    main()
