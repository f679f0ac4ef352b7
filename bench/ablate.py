"""Two runs differ in micro-batch, width and learning rate: which change made one use the card better?

On a card, these are the two configs of a real question: 384 and 768 wide, with 16 x 32 and 8 x 64 sequences per step.
On a CPU, they are two small ones with similar differences. `nanopace ablate` does all the work.

    python bench/ablate.py              # a minute on two cores, ten on a card
    python bench/ablate.py --keep runs  # keep the runs
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from nanogpt import environment, write_config, write_zipf_tokens
from nanopace.literals import Value

VOCAB = 50304
CARD: dict[str, Value] = {"n_layer": 12, "n_head": 12, "block_size": 1024, "bias": False, "device": "cuda"}
ON_A_CARD = (
    {"n_embd": 384, "batch_size": 16, "gradient_accumulation_steps": 32, "learning_rate": 1e-3},
    {"n_embd": 768, "batch_size": 8, "gradient_accumulation_steps": 64, "learning_rate": 3e-4},
)
SMALL: dict[str, Value] = {"n_layer": 2, "n_head": 2, "block_size": 64, "device": "cpu", "dtype": "float32"}
ON_A_CPU = (
    {"n_embd": 64, "batch_size": 16, "gradient_accumulation_steps": 1, "learning_rate": 1e-3},
    {"n_embd": 128, "batch_size": 8, "gradient_accumulation_steps": 2, "learning_rate": 6e-4},
)


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    on_a_card = torch.cuda.is_available()
    shared, both, steps = (CARD, ON_A_CARD, 8) if on_a_card else (SMALL, ON_A_CPU, 20)
    vocab = VOCAB if on_a_card else 2048
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        data = write_zipf_tokens(room / "data", 6_000_000, 100_000, vocab)
        for name, more in zip(("A.py", "B.py"), both, strict=True):
            knobs = {"dataset": str(data), "vocab_size": vocab, "compile": on_a_card, **shared, **more}
            write_config(room / name, knobs)
        flags = [f"--steps={steps}", f"--repeats={args.repeats}"]
        flags += [] if args.keep is None else [f"--keep={args.keep.resolve()}"]
        command = [sys.executable, "-m", "nanopace", "ablate", "A.py", "B.py", *flags]
        subprocess.run(command, cwd=room, env=environment(), check=True)


if __name__ == "__main__":
    main()
