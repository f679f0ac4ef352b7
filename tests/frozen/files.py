"""files-0.1.tar.xz: the files that nanopace 0.1 wrote. make.py shows how it was made.

Later code never recreates it, since then it would no longer be old: a changed format gets its own archive next to this
one, and this one must still load. files-0.2.tar.xz has what ablate stores since each repeat has a seed of its own;
trials with one seed for all of them are refused.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

ARCHIVE, LATER = (Path(__file__).parent / f"files-{version}.tar.xz" for version in ("0.1", "0.2"))

SMALL = {
    "device": "cpu",
    "dtype": "float32",
    "compile": "False",
    "dataset": "chars",
    "n_layer": "2",
    "n_head": "2",
    "n_embd": "8",
    "block_size": "16",
    "batch_size": "2",
    "gradient_accumulation_steps": "1",
    "learning_rate": "1e-2",
    "min_lr": "1e-3",
    "warmup_iters": "3",
    "lr_decay_iters": "12",
    "max_iters": "12",
    "eval_interval": "4",
    "eval_iters": "2",
}


def train(out_dir: str, *flags: str, **knobs: str) -> list[str]:
    """The command line of a tiny training run."""
    given = {"out_dir": out_dir, **SMALL, **knobs}
    return ["train", *flags, "--no-report", *(f"--{key}={value}" for key, value in given.items())]


def resume(out_dir: str, *flags: str, **knobs: str) -> list[str]:
    """The command line that resumes one up to its twelfth step."""
    given = {"out_dir": out_dir, "device": "cpu", "init_from": "resume", "max_iters": "12", **knobs}
    return ["train", *flags, "--no-report", *(f"--{key}={value}" for key, value in given.items())]


def unpack(directory: Path) -> Path:
    """The files of all archives; a later one replaces what is in an earlier one."""
    safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Python 3.11 has it since 3.11.4
    for path in (ARCHIVE, LATER):
        with tarfile.open(path) as archive:
            archive.extractall(directory, **safely)  # type: ignore[arg-type]
    return directory
