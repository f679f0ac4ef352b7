"""Check whether this machine is ready to train: versions, card, driver, compiler, disk, memory, and what slows it down.

Every line says what was found and, if something is wrong, how to fix it. The exit status is 1 if training would fail.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from nanopace.cli.options import add_language, words_of
from nanopace.errors import InputError, reason_of
from nanopace.wording.template import label

if TYPE_CHECKING:
    from nanopace.wording.catalog import Words

State = Literal["ok", "warn", "bad"]

_MARKS: Mapping[State, str] = {"ok": label("ok"), "warn": label("warn"), "bad": label("BAD")}
_PATIENCE_S = 300.0  # for torch: the first compilation on a slow machine takes a minute or two
_DISK_BYTES = 256 << 20
_SLOW_DISK_MB_S = 100.0  # slower, and a checkpoint of GPT-2 takes 15 seconds
_LEAST_FREE_GB = 10.0  # on the disk: room for a few checkpoints of GPT-2
_LEAST_MEMORY_GB = 4.0  # of the machine
_BUSY_GB = 1.0  # of the card, in use by other processes
_SLOW_CARD = 0.6  # of its data sheet, in large matrix products
_GIB = 1 << 30


class Line(NamedTuple):
    state: State
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out_dir", metavar="DIR", type=Path, default=Path(), help="where checkpoints will go, to time that disk"
    )
    add_language(parser)


def run(args: argparse.Namespace) -> int:
    words = words_of(args)
    if not args.out_dir.is_dir():
        raise InputError("--out_dir {path}: no such directory", path=args.out_dir)
    states = []
    marks = {state: words.text(mark) for state, mark in _MARKS.items()}
    width = max(map(len, marks.values()))
    for line in _lines(args.out_dir, words):
        print(f"{marks[line.state]:{width}}  {line.text}", flush=True)
        states.append(line.state)
    return 1 if "bad" in states else 0


def _lines(directory: Path, words: Words) -> Iterator[Line]:
    from nanopace.version import __version__

    yield Line("ok", f"nanopace {__version__}")
    yield from _of_torch(words)
    yield _memory(words)
    yield _disk(directory, words)


# --- torch and the card ----------------------------------------------------------------------------------------------


def _of_torch(words: Words) -> Iterator[Line]:
    """Ask torch in a separate process, which may crash or hang. Each line is yielded as soon as it is known."""
    with (
        tempfile.TemporaryFile() as complaint,
        subprocess.Popen(
            [sys.executable, "-m", "nanopace.train.doctor"], stdout=subprocess.PIPE, stderr=complaint, text=True
        ) as process,
    ):
        hung = threading.Event()

        def give_up() -> None:
            hung.set()
            process.kill()

        patience = threading.Timer(_PATIENCE_S, give_up)
        patience.start()
        try:
            for printed in process.stdout or ():
                found = json.loads(printed)
                yield _SENTENCES[found["code"]](found, words)
        except BaseException:
            process.kill()
            raise
        finally:
            patience.cancel()
        if process.wait():
            complaint.seek(0)
            yield _of_a_crash(process.returncode, hung.is_set(), complaint.read().decode(errors="replace"), words)


def _of_a_crash(returncode: int, hung: bool, complaint: str, words: Words) -> Line:
    if hung:
        return Line("bad", words.text("torch hangs: no answer after {time}", time=_time(_PATIENCE_S, words)))
    if "No module named 'torch'" in complaint:
        return Line("bad", words.text("torch is not installed: pip install 'nanopace[train]'"))
    last = (complaint.strip().splitlines() or [words.text("exit code {code}", code=returncode)])[-1]
    return Line("bad", words.text("torch fails on this machine: {reason}", reason=last[:300]))


def _torch(found: Mapping[str, Any], _: Words) -> Line:
    build = f"CUDA {found['cuda']}" if found["cuda"] else "CPU"
    return Line("ok", f"torch {found['version']} ({build})")


def _no_card(found: Mapping[str, Any], words: Words) -> Line:
    if found["cuda"]:
        said = words.text("no CUDA card responds: check nvidia-smi and CUDA_VISIBLE_DEVICES")
    else:
        said = words.text("this torch is built for the CPU only; to use a card, install a CUDA build")
    return Line("warn", said)


def _card(found: Mapping[str, Any], words: Words) -> Line:
    parts = [
        f"{found['cards']} x {found['name']}" if found["cards"] > 1 else str(found["name"]),
        words.text(
            "{free} of {total} GB free", free=_gb(found["free_gb"], words), total=_gb(found["memory_gb"], words)
        ),
        f"sm {found['capability']}",
    ]
    if found["driver"]:
        parts.append(words.text("driver {version}", version=found["driver"]))
    busy = found["memory_gb"] - found["free_gb"] > _BUSY_GB
    if busy:
        parts.append(words.text("another process is using the rest; check nvidia-smi"))
    return Line("warn" if busy else "ok", ", ".join(parts))


def _speed(found: Mapping[str, Any], words: Words) -> Line:
    reached = words.text(
        "large {dtype} matrix products reach {tflops} TFLOP/s", dtype=found["dtype"], tflops=round(found["tflops"])
    )
    parts = [reached]
    share = found["tflops"] / found["peak_tflops"] if found["peak_tflops"] else None
    if share is not None:
        parts.append(words.text("{share} of the card's peak", share=words.percent(share)))
    if found["sm_mhz"]:
        parts.append(f"{words.count(found['sm_mhz'])} MHz")
    if found["throttle"]:
        parts.append(words.text("throttled by {reasons}", reasons=found["throttle"].replace(",", ", ")))
    slow = share is not None and share < _SLOW_CARD
    return Line("warn" if slow else "ok", ", ".join(parts))


def _works(name: str, what: str) -> dict[str, Callable[[Mapping[str, Any], Words], Line]]:
    """The three possible outcomes of a trial."""

    def works(found: Mapping[str, Any], words: Words) -> Line:
        return Line("ok", words.text("{what} works ({time})", what=what, time=_time(found["seconds"], words)))

    def fails(found: Mapping[str, Any], words: Words) -> Line:
        return Line("bad", words.text("{what} fails: {reason}", what=what, reason=found["reason"]))

    def differs(_: Mapping[str, Any], words: Words) -> Line:
        return Line("bad", words.text("{what} gives different results from plain torch", what=what))

    return {name: works, f"{name}_fails": fails, f"{name}_differs": differs}


_SENTENCES: Mapping[str, Callable[[Mapping[str, Any], Words], Line]] = {
    "python": lambda found, _: Line("ok", f"Python {found['version']}"),
    "torch": _torch,
    "no_card": _no_card,
    "card": _card,
    "speed": _speed,
    **_works("compile", "torch.compile"),
    **_works("kernels", "Triton"),
}


# --- the machine -----------------------------------------------------------------------------------------------------


def _memory(words: Words) -> Line:
    sizes = {}
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            sizes[name] = int(rest.split()[0]) / (1 << 20)
        free, total = sizes["MemAvailable"], sizes["MemTotal"]
    except (OSError, ValueError, KeyError, IndexError):
        return Line("ok", words.text("memory of this machine: unknown"))
    said = words.text(
        "memory: {free} of {total} GB free, {cores} cores",
        free=_gb(free, words),
        total=_gb(total, words),
        cores=os.cpu_count(),
    )
    return Line("warn" if free < _LEAST_MEMORY_GB else "ok", said)


def _disk(directory: Path, words: Words) -> Line:
    """How fast a checkpoint is written, measured by writing as much data."""
    block = os.urandom(1 << 20)  # random, so that a compressing disk gains nothing
    try:
        space = os.statvfs(directory)
        free_gb = space.f_bavail * space.f_frsize / _GIB
        if free_gb * _GIB < 4 * _DISK_BYTES:
            return Line(
                "bad", words.text("disk: only {free} GB free in {path}", free=_gb(free_gb, words), path=directory)
            )
        with tempfile.TemporaryFile(dir=directory) as file:
            began = time.perf_counter()
            for _ in range(_DISK_BYTES // len(block)):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            rate = _DISK_BYTES / 1e6 / (time.perf_counter() - began)
    except OSError as error:
        return Line("bad", words.text("disk: {path}: {reason}", path=directory, reason=reason_of(error)))
    said = words.text(
        "disk: writes {rate} MB/s, {free} GB free in {path}", rate=round(rate), free=_gb(free_gb, words), path=directory
    )
    return Line("warn" if rate < _SLOW_DISK_MB_S or free_gb < _LEAST_FREE_GB else "ok", said)


def _gb(size: float, words: Words) -> str:
    return words.number(size, 0 if size >= 10 else 1)


def _time(seconds: float, words: Words) -> str:
    return words.duration(seconds).replace("\u00a0", " ")
