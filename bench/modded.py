"""Runs records of modded-nanogpt on our corpus and on one card: their own programs, with a few lines changed.

modded-nanogpt itself is not part of this project: check it out anywhere and give its path. A record's program is copied
to a temporary folder and changed there by text replacement; each text must occur exactly as often as expected. `main`
of time_to_loss.py prints what was changed, and why.

Their schedules are fractions of the run, so they follow the number of steps; what they count in steps (the warm-up of
Muon's momentum, the newest record's last steps) is shortened in proportion. Learning rates are unchanged.
"""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from modded_patches import Patch, newest_patches, patched, record_27_patches
from nanogpt import environment
from nanopace import open_runs
from nanopace.corpus.shards.corpus import Split
from nanopace.corpus.tokenizers.base import spelled
from nanopace.corpus.tokenizers.tokenizer import load_tokenizer

END_OF_TEXT = 50256  # a constant in their programs, and the last entry of our vocabulary
VAL_TOKENS = 8 * 262144  # in their evaluation: whole documents, in sequences of 262,144 tokens
ACCUM = (1, 2, 4, 8)  # micro-batches per step; theirs has 8
_RECORD_27 = Path("records/track_1_short/2025-07-18_TritonMuon/record.txt")
_NEWEST = ("train_gpt.py", "triton_kernels.py", "dc_triton_kernels.py")
_HEADER = (20240520, 1)  # of llm.c's token files


@dataclass(frozen=True, slots=True)
class Program:
    """A record's files and patches, and how long it runs."""

    files: dict[str, str]  # the first one is started
    patches: tuple[Patch, ...]
    steps: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Outcome:
    steps: int
    seconds: float  # on their clock, which stops for evaluations
    process_seconds: float  # from the command to their last evaluation
    documents: float  # the loss by their own evaluation
    peak_bytes: int  # allocated up to the last step
    losses: np.ndarray  # on each of our windows


def program(checkout: Path, record: str, *, tokens: float, accum: int, seed: int) -> Program:
    """The record's program for about `tokens` tokens."""
    if accum not in ACCUM:
        raise ValueError(f"accum={accum}: a step must have 1, 2, 4 or 8 micro-batches")
    if record == "27":
        per_step = 49152 * accum
        steps = max(2, round(tokens / per_step))
        text = (checkout / _RECORD_27).read_text()
        code, rule, _ = text.partition("\n" + "=" * 100 + "\n")
        if not rule:
            raise ValueError(f"{_RECORD_27}: the log does not start with its program")
        return Program({"train_gpt.py": code}, record_27_patches(steps, accum, seed), steps, steps * per_step)
    if record == "newest":
        scheduled, extension = newest_steps(tokens, accum)
        files = {name: (checkout / name).read_text() for name in _NEWEST}
        thirds = [round(part * scheduled / 3) for part in range(4)]
        counts = [b - a for a, b in pairwise(thirds)]
        total = 2048 * accum * sum(n * size for n, size in zip((*counts, extension), (8, 16, 24, 24), strict=True))
        return Program(files, newest_patches(scheduled, extension, accum, seed), scheduled + extension, total)
    raise ValueError(f"record={record}: must be 27 or newest")


def newest_steps(tokens: float, accum: int) -> tuple[int, int]:
    """Steps in its schedule and after it, in the ratio 1270 to 15. The thirds of the schedule have 8, 16 and 24
    sequences of 2,048 tokens in a micro-batch; the steps after it have 24."""
    scheduled = max(6, round(tokens / (2048 * accum * (16 + 24 * 15 / 1270))))
    return scheduled, max(2, round(scheduled * 15 / 1270))


def run_modded(chosen: Program, room: Path, data: Path, windows: np.ndarray, log: Path) -> Outcome:
    """Train, and evaluate its last weights on our windows. `data` comes from write_data."""
    room.mkdir()
    np.save(room / "windows.npy", windows)
    for name, text in chosen.files.items():
        (room / name).write_text(patched(text, [each for each in chosen.patches if each.file == name]))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    begin = time.time()
    with log.open("w") as out:
        ended = subprocess.run(
            [sys.executable, "-u", next(iter(chosen.files))],
            cwd=room,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment(DATA_PATH=str(data), GLOO_SOCKET_IFNAME="lo", **rank),
            check=False,
        )
    if ended.returncode:
        print(f"{next(iter(chosen.files))} failed:\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)
        ended.check_returncode()
    (own_log,) = (room / "logs").glob("*.txt")
    log.with_suffix(".txt").write_bytes(own_log.read_bytes())
    return outcome(own_log, json.loads((room / "found.json").read_text()), begin)


def outcome(log: Path, found: dict[str, Any], begin: float) -> Outcome:
    """The outcome, from its log as nanopace reads it and from the code we append."""
    run = open_runs(log)[-1]
    last = run.evaluations[-1] if run.evaluations else None
    if last is None or last.val is None or last.iteration != run.rows[-1].last_iteration:
        raise ValueError("its log has no evaluation after the last step")
    seconds = sum(run.rows.sum_ms) / 1000
    losses = np.asarray(found["losses"])
    return Outcome(last.iteration, seconds, found["ended"] - begin, last.val, found["peak_bytes"], losses)


# --- data ------------------------------------------------------------------------------------------------------------


def write_data(folder: Path, corpus: Path, most: float) -> Path:
    """Write nanoGPT's token files in llm.c's format, enough for `most` tokens.

    Their loaders read each file once, and need the next one in advance.
    """
    tokenizer = load_tokenizer(corpus)
    entries: Sequence[str] = getattr(tokenizer, "entries", ())
    if tokenizer is None or len(entries) != END_OF_TEXT:
        raise ValueError(f"{corpus}: modded-nanogpt needs a vocabulary of 50,256 entries, followed by an end of text")
    shards = folder / "data" / "fineweb10B"
    shards.mkdir(parents=True)
    _write_shard(shards / "fineweb_val_000000.bin", np.fromfile(corpus / "val.bin", dtype=np.uint16), VAL_TOKENS + 2)
    first = shards / "fineweb_train_000001.bin"
    train = np.fromfile(corpus / "train.bin", dtype=np.uint16)
    _write_shard(first, train, 0)
    for number in range(2, math.ceil(most / len(train) * 1.3) + 3):  # they skip some tokens of each
        os.link(first, shards / f"fineweb_train_{number:06d}.bin")
    vocabulary = {spelled(entry).hex(): number for number, entry in enumerate(entries)}
    (folder / "vocabulary.json").write_text(json.dumps(vocabulary))
    return folder


def _write_shard(path: Path, tokens: np.ndarray, least: int) -> None:
    if len(tokens) < least:
        raise ValueError(f"{path.name}: {len(tokens):,} tokens, but {least:,} are needed")
    header = np.zeros(256, dtype=np.int32)
    header[:3] = (*_HEADER, len(tokens))
    with path.open("wb") as file:
        header.tofile(file)
        tokens.tofile(file)


def val_stream(split: Split) -> np.ndarray:
    """The tokens of their evaluation, and the one after them."""
    stream = np.empty((1, VAL_TOKENS + 1), dtype=np.int32)
    split.gather(np.zeros(1, dtype=np.int64), VAL_TOKENS + 1, stream)
    return stream[0]
