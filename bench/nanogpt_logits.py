"""Does our GPT-2 match nanoGPT's and transformers'? Converts weights both ways and compares the logits of one batch.

It also runs nanoGPT's own sample.py and train.py (init_from=resume) on a ckpt.pt that `nanopace convert` wrote.

    python bench/nanogpt_logits.py ../nanoGPT            # GPT-2 124M
    python bench/nanogpt_logits.py ../nanoGPT --small    # 2 layers, a few seconds
"""

from __future__ import annotations

import argparse
import pickle
import subprocess
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nanogpt import model_args, nanogpt_model
from nanopace.train.formats.convert import convert, open_pretrained
from nanopace.train.formats.huggingface import save_huggingface
from nanopace.train.formats.pretrained import Pretrained
from nanopace.train.models.gpt2 import GPT, ModelShape

BAR = 1e-4
YARDSTICK = "for comparison: exact GELU vs. tanh"
LARGE = ModelShape(n_layer=12, n_head=12, n_embd=768, vocab_size=50304, block_size=1024)
SMALL = ModelShape(n_layer=2, n_head=4, n_embd=128, vocab_size=512, block_size=64)
TINY = ModelShape(n_layer=2, n_head=2, n_embd=32, vocab_size=26, block_size=32)  # for the letters of the alphabet


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("nanogpt", type=Path, help="path to a nanoGPT checkout")
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    nanogpt = args.nanogpt.resolve()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for bias in (False, True):
            shape = replace(SMALL if args.small else LARGE, bias=bias)
            for name, difference in differences(shape, nanogpt, Path(folder, str(bias))).items():
                verdict = "" if name == YARDSTICK else "ok" if difference <= BAR else "MISSED"
                failed |= verdict == "MISSED"
                print(f"bias={bias!s:5}  {name:50}{difference:10.2e}   {verdict}")
        for script, code in run_scripts(nanogpt, Path(folder, "scripts")).items():
            failed |= code != 0
            print(f"nanoGPT's {script:50}exit code {code}   {'ok' if code == 0 else 'FAILED'}")
    return int(failed)


@torch.no_grad()
def differences(shape: ModelShape, nanogpt: Path, folder: Path) -> dict[str, float]:
    """The largest difference in each comparison."""
    folder.mkdir()
    torch.manual_seed(1)
    own = GPT(shape).eval()
    torch.manual_seed(1)
    theirs = nanogpt_model(nanogpt, model_args(shape))
    state = theirs.state_dict()
    found = {"initial weights, same seed": max(apart(each, state[name]) for name, each in own.state_dict().items())}
    for weight in own.parameters():  # no zeros and ones: a missing bias must show
        weight.add_(torch.randn_like(weight), alpha=0.01)
    theirs.load_state_dict(own.state_dict())
    tokens = torch.randint(0, shape.vocab_size, (1, shape.block_size))
    found["logits, nanoGPT with our weights"] = apart(own.logits(tokens), theirs(tokens, tokens)[0])
    torch.save({"model": theirs.state_dict(), "model_args": model_args(shape), "iter_num": 9}, folder / "theirs.pt")
    found["logits, from nanoGPT's ckpt.pt"] = apart(own.logits(tokens), read(folder / "theirs.pt").logits(tokens))
    convert(folder / "theirs.pt", folder / "ours.pt")
    checkpoint = torch.load(folder / "ours.pt", weights_only=True)
    again = nanogpt_model(nanogpt, checkpoint["model_args"])
    again.load_state_dict(checkpoint["model"])
    found["logits, nanoGPT from our ckpt.pt"] = apart(own.logits(tokens), again(tokens, tokens)[0])
    if find_spec("transformers") is not None:
        found |= against_transformers(own, shape, tokens, folder)
    return found


def against_transformers(own: GPT, shape: ModelShape, tokens: Tensor, folder: Path) -> dict[str, float]:
    from transformers import GPT2LMHeadModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    found = {}
    for activation in ("gelu", "gelu_tanh"):
        model = GPT(replace(shape, activation=activation)).eval()
        model.load_state_dict(own.state_dict())
        target = folder / activation
        save_huggingface(target, Pretrained(path=target, shape=model.shape, weights=model.state_dict()))
        theirs = GPT2LMHeadModel.from_pretrained(target).eval()
        found[f"logits, transformers from our export, {activation}"] = apart(
            model.logits(tokens), theirs(tokens).logits
        )
        theirs.save_pretrained(folder / f"{activation} of theirs")
        found[f"logits, read from a transformers export, {activation}"] = apart(
            read(folder / f"{activation} of theirs").logits(tokens), theirs(tokens).logits
        )
    found[YARDSTICK] = apart(own.logits(tokens), model.logits(tokens))
    return found


def read(path: Path) -> GPT:
    return open_pretrained(path).model()


def apart(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def run_scripts(nanogpt: Path, folder: Path) -> dict[str, int]:
    """Run their scripts on our checkpoint, in a folder of links: nothing is written to the checkout."""
    data = folder / "data" / "letters"
    data.mkdir(parents=True)
    for name in ("model.py", "train.py", "sample.py", "configurator.py"):
        (folder / name).symlink_to(nanogpt / name)
    letters = {chr(ord("a") + number): number for number in range(TINY.vocab_size)}
    meta = {"vocab_size": len(letters), "stoi": letters, "itos": {number: letter for letter, number in letters.items()}}
    (data / "meta.pkl").write_bytes(pickle.dumps(meta))
    for split in ("train", "val"):
        (np.arange(4096) % TINY.vocab_size).astype(np.uint16).tofile(data / f"{split}.bin")
    source = folder / "source.pt"
    torch.save(
        {
            "model": GPT(TINY).state_dict(),
            "model_args": model_args(TINY),
            "iter_num": 3,
            "config": {"dataset": "letters"},
        },
        source,
    )
    (folder / "out").mkdir()
    convert(source, folder / "out" / "ckpt.pt")
    on_cpu = ["--device=cpu", "--dtype=float32", "--compile=False", "--out_dir=out"]
    training = ["--init_from=resume", "--dataset=letters", "--max_iters=6", "--eval_iters=1", "--batch_size=2"]
    commands = {
        "sample.py": ["--start=abc", "--num_samples=1", "--max_new_tokens=40"],
        "train.py --init_from=resume": [
            *training,
            "--gradient_accumulation_steps=1",
            f"--block_size={TINY.block_size}",
        ],
    }
    codes = {}
    for script, flags in commands.items():
        command = [sys.executable, script.split()[0], *on_cpu, *flags]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        codes[script] = done.returncode
        if done.returncode:
            print(done.stderr, file=sys.stderr)
    return codes


if __name__ == "__main__":
    raise SystemExit(main())
