"""nanopace resumes a nanoGPT run, and nanoGPT resumes a nanopace run: are the next losses the same?

nanoGPT's own train.py trains a tiny model on the CPU until it has written its ckpt.pt. Then nanoGPT resumes from there,
and so does `nanopace train --init_from=resume`, which gets nothing but the directory. The other way round, nanopace
trains, `convert` writes a ckpt.pt, and both resume. nanoGPT draws its windows at random, so here it gets ours, in our
order. It also prints each step's mean loss over all micro-batches, with all digits, instead of the last one's.

    python bench/nanogpt_resume.py path/to/nanoGPT      # about a minute on two cores
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from nanogpt import Knobs, given_windows, run_nanogpt, run_nanopace, seeded, write_tokens, zipf_tokens
from nanopace.config import TrainConfig
from nanopace.corpus.shards.corpus import open_corpus
from nanopace.corpus.shards.order import Order
from nanopace.ledger import EvalEvent, ResumeEvent, StepEvent, read_ledger
from nanopace.ledger.file import LEDGER_FILE
from nanopace.train.checkpoint.layout import verified
from nanopace.train.formats.convert import convert

FIRST, MORE = 40, 20  # steps before and after
BAR = 1e-5  # difference of losses: both compute in float32, but not always in the same order
VOCABULARY = 65
KNOBS: Knobs = {
    "batch_size": 4,
    "block_size": 32,
    "gradient_accumulation_steps": 2,
    "n_layer": 2,
    "n_head": 2,
    "n_embd": 32,
    "dropout": 0.0,
    "learning_rate": 3e-3,
    "min_lr": 3e-4,
    "warmup_iters": 10,
    "weight_decay": 0.2,
    "beta2": 0.99,
    "max_iters": FIRST,
    "lr_decay_iters": FIRST + MORE,
    "eval_interval": FIRST // 2,
    "eval_iters": 4,
    "log_interval": 1,
    "device": "cpu",
    "dtype": "float32",
    "compile": False,
}
# Changes to what its train.py prints about a step: (before, after).
TOLD = (
    ("# init these up here", "told = []\n# init these up here"),
    ("        scaler.scale(loss).backward()", "        scaler.scale(loss).backward(); told.append(loss.item())"),
    ("loss.item() * gradient_accumulation_steps", "sum(told[-gradient_accumulation_steps:])"),
    ("loss {lossf:.4f}", "loss {lossf!r}"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nanogpt", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        tokens = [zipf_tokens(count, VOCABULARY, seed) for seed, count in enumerate((40_000, 8_000))]
        data = write_tokens(room / "data", *tokens, VOCABULARY)
        knobs: Knobs = {**KNOBS, "dataset": str(data)}
        holds = [_to_us(args.nanogpt, knobs, room), _to_them(args.nanogpt, knobs, room)]
    return 0 if all(holds) else 1


def _to_us(nanogpt: Path, knobs: Knobs, room: Path) -> bool:
    """nanoGPT begins, with its own windows."""
    begun = room / "begun"
    run_nanogpt(_telling(seeded(nanogpt, room, 1)), {**knobs, "out_dir": str(begun)}, room / "begun.log")
    checkpoint = torch.load(begun / "ckpt.pt", map_location="cpu", weights_only=True)
    theirs = _theirs_from(nanogpt, knobs, room, begun, FIRST)
    ours = _ours_from(begun, room / "ours", room)
    with open(room / "ours" / LEDGER_FILE, "rb") as file:
        resumed = next(each for each in read_ledger(file).events if isinstance(each, ResumeEvent))
    best = verified(room / "ours" / "checkpoints" / f"step-{FIRST:08d}").best
    print(f"nanoGPT trains {FIRST} steps; both resume at iteration {checkpoint['iter_num']}:")
    return (
        _agree("iteration", resumed.iteration, checkpoint["iter_num"])
        & _agree("best_val_loss", None if best is None else best[1], float(checkpoint["best_val_loss"]))
        & _compared(ours, theirs)
    )


def _to_them(nanogpt: Path, knobs: Knobs, room: Path) -> bool:
    begun, out = room / "exported", room / "nanopace"
    begun.mkdir()
    run_nanopace({**knobs, "out_dir": str(out)}, room / "before.log")
    convert(out, begun / "ckpt.pt")
    checkpoint = torch.load(begun / "ckpt.pt", map_location="cpu", weights_only=True)
    with open(out / LEDGER_FILE, "rb") as file:
        vals = [each.val for each in read_ledger(file).events if isinstance(each, EvalEvent) and each.val is not None]
    first = FIRST + 1  # step max_iters is done, too
    theirs = _theirs_from(nanogpt, knobs, room, begun, first)
    ours = _ours_from(out, room / "on", room)
    print(f"nanopace trains {first} steps; both resume at iteration {checkpoint['iter_num']}:")
    return (
        _agree("iteration", checkpoint["iter_num"], first)
        & _agree("best_val_loss", checkpoint["best_val_loss"], min(vals))
        & _compared(ours, theirs)
    )


def _theirs_from(nanogpt: Path, knobs: Knobs, room: Path, begun: Path, first: int) -> dict[int, float]:
    """Resume a copy with nanoGPT, on the windows that come next in our order."""
    config = TrainConfig(**knobs)  # type: ignore[arg-type]
    per_step = config.gradient_accumulation_steps * config.batch_size
    starts = Order(open_corpus(Path(config.dataset)).train, config.block_size, config.seed)
    np.save(room / f"{begun.name}.npy", starts.starts(first * per_step, (MORE + 3) * per_step))
    out = shutil.copytree(begun, room / f"{begun.name}-theirs")
    code = given_windows(_telling(seeded(nanogpt, room, 1000 + first)), room / f"{begun.name}.npy")
    on: Knobs = {**knobs, "init_from": "resume", "out_dir": str(out), "max_iters": FIRST + MORE}
    text = run_nanogpt(code, on, room / f"{begun.name}-theirs.log").text
    return {int(number): float(loss) for number, loss in re.findall(r"^iter (\d+): loss (\S+),", text, re.MULTILINE)}


def _ours_from(begun: Path, out: Path, room: Path) -> dict[int, float]:
    """Resume a copy with `nanopace train --init_from=resume`; all other settings are the run's own."""
    shutil.copytree(begun, out)
    on: Knobs = {"init_from": "resume", "out_dir": str(out), "max_iters": FIRST + MORE, "keep_last": 9}
    text = run_nanopace(on, room / "ours.log").text
    print(*(line for line in text.splitlines() if "ckpt.pt" in line), sep="\n")
    with open(out / LEDGER_FILE, "rb") as file:
        events = read_ledger(file).events
    resumed = max(number for number, each in enumerate(events) if isinstance(each, ResumeEvent))
    steps = [each for each in events[resumed:] if isinstance(each, StepEvent)]
    return {each.iteration: each.loss for each in steps if each.loss is not None}


def _telling(theirs: Path) -> Path:
    code = (theirs / "train.py").read_text()
    for before, after in TOLD:
        assert code.count(before) == 1, before
        code = code.replace(before, after)
    (theirs / "train.py").write_text(code)
    return theirs


def _agree(what: str, ours: object, theirs: object) -> bool:
    print(f"  {what}: {json.dumps(ours)} and {json.dumps(theirs)}: {'equal' if ours == theirs else 'DIFFERENT'}")
    return ours == theirs


def _compared(ours: dict[int, float], theirs: dict[int, float]) -> bool:
    if ours.keys() != theirs.keys():
        print(f"  nanopace reports the steps {[*ours]}, nanoGPT {[*theirs]}: DIFFERENT")
        return False
    largest = max(abs(ours[step] - theirs[step]) for step in ours)
    holds = largest <= BAR
    moved = f"{theirs[min(theirs)]:.4f} to {theirs[max(theirs)]:.4f}"
    print(f"  {len(ours)} losses, {moved}: largest difference {largest:.1e} ({'ok' if holds else 'TOO LARGE'})")
    return holds


if __name__ == "__main__":
    sys.exit(main())
