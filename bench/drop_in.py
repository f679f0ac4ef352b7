"""Is nanopace a drop-in for nanoGPT? The same command line must give the same settings, and export the best model.

    python bench/drop_in.py path/to/nanoGPT     # two minutes on two cores

Settings: nanoGPT's train.py, up to where it has its config, and `nanopace train`, up to its plan, read the same command
lines: each of nanoGPT's knobs as a flag, each of its config files, and files and flags in random order. Every knob must
be equal, except those we choose by machine: device, dtype and compile.

The best checkpoint: a model overfits with always_save_checkpoint=False and is exported with `nanopace convert`. Then
nanoGPT's own model reads it and evaluates it on the windows that we evaluated.

bench/nanogpt_resume.py checks that each can resume the other's runs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nanogpt import Knobs, environment, nanogpt_model, run_nanopace, write_tokens, write_zipf_tokens
from nanopace.cli.commands import train
from nanopace.cli.ordered_flags import spelled_out
from nanopace.corpus.shards.corpus import Corpus, open_corpus
from nanopace.corpus.shards.order import Order
from nanopace.train.checkpoint.best import read_best
from nanopace.train.checkpoint.layout import checkpoint_directories, step_of
from nanopace.train.plan.device import Machine
from nanopace.train.plan.settings import choose_settings

OF_THE_MACHINE = {"device", "dtype", "compile"}
# Reads a list of command lines and prints nanoGPT's config after each.
_JUDGE = """
import contextlib, io, json, sys
from pathlib import Path
source = Path("train.py").read_text()
cut = source.index("config = {")
source = source[: source.index("\\n", cut)]
answers = []
for words in json.load(sys.stdin):
    sys.argv, room = ["train.py", *words], {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(source, room)
    answers.append(room["config"])
print(json.dumps(answers))
"""
# Each of nanoGPT's knobs with a value other than its default.
CHANGED: Mapping[str, object] = {
    "out_dir": "elsewhere",
    "eval_interval": 7,
    "log_interval": 3,
    "eval_iters": 9,
    "eval_only": True,
    "always_save_checkpoint": False,
    "wandb_log": True,
    "wandb_project": "mine",
    "wandb_run_name": "first",
    "dataset": "tiny",
    "gradient_accumulation_steps": 4,
    "batch_size": 5,
    "block_size": 96,
    "n_layer": 2,
    "n_head": 4,
    "n_embd": 72,
    "dropout": 0.25,
    "bias": True,
    "learning_rate": 2e-3,
    "max_iters": 77,
    "weight_decay": 0.05,
    "beta1": 0.8,
    "beta2": 0.99,
    "grad_clip": 0.5,
    "decay_lr": False,
    "warmup_iters": 11,
    "lr_decay_iters": 70,
    "min_lr": 1e-5,
    "backend": "gloo",
}
OVERFITTING: Knobs = {
    "always_save_checkpoint": False,
    "batch_size": 16,
    "gradient_accumulation_steps": 1,
    "block_size": 32,
    "n_layer": 2,
    "n_head": 2,
    "n_embd": 64,
    "learning_rate": 1e-2,
    "min_lr": 1e-3,
    "warmup_iters": 10,
    "max_iters": 300,
    "lr_decay_iters": 300,
    "eval_interval": 20,
    "eval_iters": 8,
    "device": "cpu",
    "dtype": "float32",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nanogpt", type=Path)
    parser.add_argument("--orders", type=int, default=200, help="random command lines of files and flags")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        room, nanogpt = Path(folder), args.nanogpt.resolve()
        holds = [_settings(nanogpt, room, args.orders), _best(nanogpt, room)]
    return 0 if all(holds) else 1


# --- settings --------------------------------------------------------------------------------------------------------


def _settings(nanogpt: Path, room: Path, orders: int) -> bool:
    """Whether every knob equals nanoGPT's. Each line sets at least one knob; otherwise the machine would decide."""
    words = [f"--{name}={value}" for name, value in CHANGED.items()]
    words += [f"config/{path.name}" for path in sorted((nanogpt / "config").glob("*.py"))]
    draw = random.Random(1)
    mixed = [draw.choices(words, k=draw.randint(2, 6)) for _ in range(orders)]
    lines = [["--batch_size=12", *line] for line in ([[word] for word in words] + mixed)]
    corpus = open_corpus(write_zipf_tokens(room / "tiny", 5000, 2000, 300))
    differences = 0
    theirs = _asked_of_nanogpt(nanogpt, lines)
    with contextlib.chdir(nanogpt):
        for line, expected in zip(lines, theirs, strict=True):
            ours = _planned(line, corpus)
            for name in sorted(expected.keys() - OF_THE_MACHINE):
                # nanoGPT makes this name from the current time; we do not.
                if ours[name] != expected[name] and not str(expected[name]).startswith("ft-"):
                    differences += 1
                    print(f"{' '.join(line)}: {name} is {ours[name]!r} here, but {expected[name]!r} in nanoGPT")
    print(f"settings: {len(lines)} command lines, {len(theirs[0])} knobs each: {differences} differences from nanoGPT")
    return differences == 0


def _planned(line: list[str], corpus: Corpus) -> Mapping[str, object]:
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    asked = train.read_asked(parser.parse_args(list(spelled_out(line, train.WORDS_ARE, parser))))
    machine = Machine(torch.device("cpu"), "asked for")
    return choose_settings(asked.given, corpus, machine, machine_decides=asked.machine_decides).config.as_dict()


def _asked_of_nanogpt(nanogpt: Path, lines: list[list[str]]) -> list[dict[str, object]]:
    ended = subprocess.run(
        [sys.executable, "-c", _JUDGE], cwd=nanogpt, input=json.dumps(lines), capture_output=True, text=True, check=True
    )
    answers: list[dict[str, object]] = json.loads(ended.stdout.splitlines()[-1])
    return answers


# --- the best checkpoint -----------------------------------------------------------------------------------------


def _best(nanogpt: Path, room: Path) -> bool:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 60, size=(40, 5))
    text = words[rng.integers(0, len(words), size=2000)].reshape(-1)
    noise = rng.random(len(text)) < 0.3  # can only be memorised
    text[noise] = rng.integers(0, 60, size=noise.sum())
    corpus = open_corpus(write_tokens(room / "data", text[:3000], text[3000:], 64))
    out = room / "out"
    run_nanopace({**OVERFITTING, "dataset": str(corpus.directory), "out_dir": str(out)}, room / "ours.log")
    exported = room / "ckpt.pt"
    command = [sys.executable, "-m", "nanopace", "convert", str(out), str(exported)]
    subprocess.run(command, env=environment(), check=True)
    checkpoint = torch.load(exported, weights_only=True)
    best = read_best(out)
    assert best is not None
    loss = _loss_by_nanogpt(nanogpt, checkpoint, corpus)
    last = max(step_of(each.name) for each in checkpoint_directories(out))
    print(f"best: step {best[0]}, val loss {best[1]:.5f}; the last is step {last}")
    print(
        f"exported: iter_num {checkpoint['iter_num']}, best_val_loss {float(checkpoint['best_val_loss']):.5f}, "
        f"loss of nanoGPT's model on the same windows {loss:.5f}"
    )
    same = checkpoint["iter_num"] == best[0] and abs(loss - best[1]) < 1e-4
    print("the exported model is the best one:", "yes" if same and last != best[0] else "NO")
    return same and last != best[0]


def _loss_by_nanogpt(nanogpt: Path, checkpoint: Mapping[str, Any], corpus: Corpus) -> float:
    model = nanogpt_model(nanogpt, checkpoint["model_args"])
    model.load_state_dict(checkpoint["model"])
    length, count = int(OVERFITTING["block_size"]), int(OVERFITTING["eval_iters"]) * int(OVERFITTING["batch_size"])
    starts = Order(corpus.val, length, 1337).starts(0, count)
    tokens = np.empty((count, length + 1), dtype=np.int32)
    corpus.val.gather(starts, length + 1, tokens)
    windows = torch.from_numpy(tokens).long()
    with torch.no_grad():
        return float(model(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())[1])


if __name__ == "__main__":
    sys.exit(main())
