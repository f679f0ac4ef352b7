"""The same loss as nanoGPT, and not slower, on a CPU: same data, same settings, same number of steps.

Both train a small GPT on Python's own source. Their last checkpoints are then evaluated alike, on the same validation
windows. For the speed both take turns, because a machine's speed wanders; the medians of all their steps are compared.

    python bench/parity.py path/to/nanoGPT              # the loss after 500 steps, about five minutes
    python bench/parity.py path/to/nanoGPT --speed      # the time of a step
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import torch

from nanogpt import Knobs, run_nanogpt, run_nanopace, write_tokens
from nanopace.corpus.prepare import ensure
from nanopace.corpus.shards import Corpus, Split, open_corpus
from nanopace.train.checkpoint_files import open_checkpoint
from nanopace.train.evaluate import Evaluation, Evaluator
from nanopace.train.model import GPT
from nanopace.train.nanogpt_checkpoint import load_nanogpt

STEPS = 500
ROUNDS = 4
BAR = 0.02


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nanogpt", type=Path)
    parser.add_argument("--speed", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        corpus = open_corpus(ensure("python", lambda *_: None))
        assert corpus.vocab_size is not None
        data = write_tokens(room / "data", _tokens(corpus.train), _tokens(corpus.val), corpus.vocab_size)
        knobs: Knobs = {
            "dataset": str(data),
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
        if args.speed:
            _compare_speed(args.nanogpt, knobs, room)
        else:
            _compare_loss(args.nanogpt, knobs, room, open_corpus(data))


def _compare_loss(nanogpt: Path, knobs: Knobs, room: Path, corpus: Corpus) -> None:
    run_nanopace({**knobs, "out_dir": str(room / "ours"), "keep_last": 5}, room / "ours.log")
    run_nanogpt(nanogpt, {**knobs, "out_dir": str(room / "theirs")}, room / "theirs.log")
    theirs = _evaluate(load_nanogpt(room / "theirs" / "ckpt.pt").model(), corpus)
    saved = open_checkpoint(room / "ours" / "checkpoints" / f"step-{STEPS:08d}")
    model = GPT(saved.shape)
    model.load_state_dict(saved.weights())
    ours = _evaluate(model, corpus)
    difference = ours.loss.mean - theirs.loss.mean
    print(f"validation loss after {STEPS} steps, on the same {ours.loss.count} windows:")
    print(f"  nanopace {ours.loss.mean:.4f}, nanoGPT {theirs.loss.mean:.4f}, difference {difference:+.4f}")
    print(f"  bar: within {BAR}: {'holds' if abs(difference) <= BAR else 'MISSED'}")


def _compare_speed(nanogpt: Path, knobs: Knobs, room: Path) -> None:
    short = {**knobs, "max_iters": 60, "eval_interval": 1000, "eval_iters": 1}
    times: dict[str, list[float]] = {"nanopace": [], "nanoGPT": []}
    for turn in range(ROUNDS):
        ours = run_nanopace({**short, "out_dir": str(room / f"ours{turn}")}, room / "ours.log")
        theirs = run_nanogpt(nanogpt, {**short, "out_dir": str(room / "theirs")}, room / "theirs.log")
        for name, result in (("nanopace", ours), ("nanoGPT", theirs)):
            times[name] += [row.ms for row in result.run.rows][5:]
    ours_ms, theirs_ms = median(times["nanopace"]), median(times["nanoGPT"])
    print(f"median step: nanopace {ours_ms:.1f} ms, nanoGPT {theirs_ms:.1f} ms, ratio {theirs_ms / ours_ms:.3f}")


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
