"""Runs nanoGPT and nanopace on the same tokens with the same settings, one after the other. Used by other scripts.

nanoGPT itself is not part of this project: check it out anywhere and give its path.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from nanopace import open_run
from nanopace.run import Run

if TYPE_CHECKING:
    from nanopace.train.models.gpt2 import ModelShape

ROOT = Path(__file__).resolve().parents[1]
Knobs = Mapping[str, bool | int | float | str]
# Starts nanoGPT and prints its peak memory. The first steps do not count, because the compiler runs its own trials.
_AND_TELL_THE_PEAK = """
import runpy, torch
update, first = torch.amp.GradScaler.update, iter(range(3))
def updated(self):
    update(self)
    if torch.cuda.is_available() and next(first, None) is not None:
        torch.cuda.reset_peak_memory_stats()
torch.amp.GradScaler.update = updated
runpy.run_path("train.py", run_name="__main__")
print("peak:", torch.cuda.max_memory_allocated())
"""
# Starts nanopace and prints its peak memory.
_AND_OUR_PEAK = """
import atexit, runpy, torch
if torch.cuda.is_available():
    atexit.register(lambda: print("peak:", torch.cuda.max_memory_allocated()))
runpy.run_module("nanopace", run_name="__main__", alter_sys=True)
"""
# Added to nanoGPT's train.py: each micro-step takes its windows from a file instead of random ones.
_WINDOWS = """
def given_windows():
    starts = np.load({path!r})
    data = np.memmap(os.path.join(data_dir, 'train.bin'), dtype=np.uint16, mode='r').astype(np.int64)
    for each in starts.reshape(-1, batch_size):
        tokens = torch.from_numpy(np.stack([data[at : at + block_size + 1] for at in each]))
        yield tokens[:, :-1].contiguous().to(device), tokens[:, 1:].contiguous().to(device)
windows = given_windows()
"""


@dataclass(frozen=True)
class Result:
    run: Run
    seconds: float
    text: str

    @property
    def peak_bytes(self) -> int | None:
        """The peak, if the process was asked to print it."""
        _, found, said = self.text.rpartition("peak: ")
        return int(said.split()[0]) if found else None

    def step_ms(self, skip: int = 5) -> float:
        """The median row. Rows with an evaluation are few, so they do not affect it."""
        return median([row.ms for row in self.run.rows][skip:])


def write_tokens(directory: Path, train: np.ndarray, val: np.ndarray, vocab_size: int) -> Path:
    """Write tokens in nanoGPT's format, which we read, too."""
    directory.mkdir(parents=True, exist_ok=True)
    train.astype(np.uint16).tofile(directory / "train.bin")
    val.astype(np.uint16).tofile(directory / "val.bin")
    (directory / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": vocab_size}))
    return directory


def zipf_tokens(count: int, vocab_size: int, seed: int) -> np.ndarray:
    """Random tokens with the frequencies of words; they cost as much as real ones."""
    ranks = np.arange(1, vocab_size + 1)
    weights = 1 / ranks
    return np.random.default_rng(seed).choice(vocab_size, size=count, p=weights / weights.sum()).astype(np.uint16)


def write_zipf_tokens(directory: Path, train: int, val: int, vocab_size: int) -> Path:
    """Write `train` and `val` random tokens."""
    return write_tokens(directory, zipf_tokens(train, vocab_size, 1), zipf_tokens(val, vocab_size, 2), vocab_size)


def write_config(path: Path, knobs: Knobs) -> Path:
    """Write a config that both nanoGPT and nanopace read."""
    path.write_text("".join(f"{name} = {value!r}\n" for name, value in knobs.items()))
    return path


def environment(**more: str) -> dict[str, str]:
    """Environment variables with which a process finds this checkout's nanopace."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), **more}


def _nanogpt_module(checkout: Path) -> Any:
    """Its model.py."""
    spec = importlib.util.spec_from_file_location("nanogpt_model", checkout / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def nanogpt_model(checkout: Path, arguments: Mapping[str, Any]) -> Any:
    """Its GPT in eval mode, without the size that it prints."""
    module = _nanogpt_module(checkout)
    with redirect_stdout(None):
        return module.GPT(module.GPTConfig(**arguments)).eval()


def model_args(shape: ModelShape) -> dict[str, Any]:
    """The arguments of its GPTConfig."""
    names = ("n_layer", "n_head", "n_embd", "vocab_size", "block_size", "bias", "dropout")
    return {name: getattr(shape, name) for name in names}


def seeded(nanogpt: Path, room: Path, seed: int) -> Path:
    """A copy of the checkout with another seed, which is a constant in its code."""
    copy = room / f"nanogpt{seed}"
    copy.mkdir()
    for path in nanogpt.glob("*.py"):
        (copy / path.name).write_text(path.read_text().replace("manual_seed(1337", f"manual_seed({seed}"))
    return copy


def given_windows(theirs: Path, starts: Path) -> Path:
    """Change the copy's train.py to take its windows from a file."""
    told = (theirs / "train.py").read_text()
    assert told.count("X, Y = get_batch('train')") == 2
    told = told.replace("X, Y = get_batch('train')", "X, Y = next(windows)")
    told = told.replace("# init these up here", _WINDOWS.format(path=str(starts)) + "# init these up here")
    (theirs / "train.py").write_text(told)
    return theirs


def run_nanogpt(checkout: Path, knobs: Knobs, log: Path, *, tell_peak: bool = False) -> Result:
    """With `tell_peak`, its peak is the most bytes that it allocates after the first three steps."""
    start = ["-c", _AND_TELL_THE_PEAK] if tell_peak else ["train.py"]
    return _run([sys.executable, "-u", *start], knobs, checkout, log)


def run_nanopace(knobs: Knobs, log: Path, *, tell_peak: bool = False) -> Result:
    start = ["-c", _AND_OUR_PEAK] if tell_peak else ["-m", "nanopace"]
    return _run([sys.executable, *start, "train", "--no-report"], knobs, log.parent, log)


def _run(command: list[str], knobs: Knobs, directory: Path, log: Path) -> Result:
    config = write_config(log.with_suffix(".py"), knobs)
    begin = time.perf_counter()
    with log.open("w") as out:
        ended = subprocess.run(
            [*command, str(config)],
            cwd=directory,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment(),
            check=False,
        )
    if ended.returncode:
        print(f"{' '.join(command)} failed:\n{log.read_text()[-2000:]}", file=sys.stderr)
        ended.check_returncode()
    return Result(open_run(log), time.perf_counter() - begin, log.read_text())
