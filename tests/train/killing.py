"""Kills training repeatedly and resumes it until it is done: real processes, real SIGKILL, real files.

    python tests/train/killing.py CORPUS FOLDER --kills 40 [--real] [--seed 0]

A run is killed at random moments and at chosen ones: while it writes a checkpoint, and at the n-th disk operation while
writing or removing one. In the end it is compared with a run that was never killed. This is a separate process that
imports torch, computes nothing, and forks, so that starts are quick. With --real, every start is a
`python -m nanopace train`. It prints what happened as JSON; `bench/kill.py` makes a table of it.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nanopace.config import Asked
from nanopace.ledger import EvalEvent, StepEvent, read_ledger

KNOBS: dict[str, object] = {
    "device": "cpu",
    "compile": False,
    "n_layer": 1,
    "n_head": 2,
    "n_embd": 16,
    "block_size": 16,
    "batch_size": 4,
    "gradient_accumulation_steps": 2,
    "learning_rate": 1e-2,
    "min_lr": 1e-3,
    "warmup_iters": 3,
    "max_iters": 42,
    "lr_decay_iters": 42,
    "eval_interval": 6,
    "eval_iters": 2,
    "save_interval": 2,
    "keep_last": 2,
    "dropout": 0.1,
    "deterministic": True,
    "check_every": 5,
}
LAST = "step-00000043"  # iterations 0 to 42
TEMPORARY = (".writing", ".removing", ".replaced")

Start = Callable[[dict[str, object], "Moment | None"], int]  # from a run's knobs, and where it should die, to a process


@dataclass(frozen=True)
class Moment:
    """When a process kills itself: before its n-th disk operation in such a directory."""

    suffix: str
    count: int


@dataclass
class Tally:
    kills: int = 0
    lives: int = 0
    runs: int = 0
    left: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*TEMPORARY, ".part"), 0))
    resumed_from: list[int] = field(default_factory=list)  # 0: from scratch, as nothing was saved yet
    differences: list[str] = field(default_factory=list)


# --- processes -------------------------------------------------------------------------------------------------------


def forked(knobs: dict[str, object], moment: Moment | None) -> int:
    process = os.fork()
    if process:
        return process
    try:
        import torch

        from nanopace.train.ranks import Silent
        from nanopace.train.run import train

        torch.set_num_threads(1)
        if moment is not None:
            _die_at(moment)
        train(Asked(given=knobs, files=("config.py",)), listener=Silent(), started=time.monotonic())  # type: ignore[arg-type]
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def real(knobs: dict[str, object], moment: Moment | None) -> int:
    """The command that people type. It is only killed from outside."""
    assert moment is None
    flags = [f"--{name}={value}" for name, value in knobs.items()]
    command = [sys.executable, "-m", "nanopace", "train", "--no-report", *flags]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL).pid


def _die_at(moment: Moment) -> None:
    left = moment.count

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event not in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir"):
            return
        where = f"{arguments[0]!s} {_directory(arguments[-1])}"
        if moment.suffix in where:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def _directory(handle: object) -> str:
    """rmtree names files relative to an open directory."""
    if not isinstance(handle, int) or handle < 0:
        return ""
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:
        return ""


# --- one run ---------------------------------------------------------------------------------------------------------


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _ended(process: int) -> int | None:
    found, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


def _wait(process: int, enough: Callable[[], bool], pause: float = 0.005) -> int | None:
    """Wait and then kill it. Returns the exit code if it ends before."""
    while (code := _ended(process)) is None:
        if enough():
            os.kill(process, signal.SIGKILL)
            _, status = os.waitpid(process, 0)
            code = os.waitstatus_to_exitcode(status)
            break
        time.sleep(pause)
    return None if code == -signal.SIGKILL else code


def _after(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def _writing(out: Path, save: int, files: int) -> Callable[[], bool]:
    """Whether the n-th checkpoint that this process writes has a given number of files."""
    seen: set[str] = set()

    def enough() -> bool:
        for name in _names(out / "checkpoints"):
            if name.endswith(".writing"):
                seen.add(name)
                return len(seen) >= save and len(_names(out / "checkpoints" / name)) >= files
        return False

    return enough


def _life(out: Path, knobs: dict[str, object], start: Start, rng: random.Random, lasts: float) -> int | None:
    """One process, from start to end, usually killed. Returns None if it was."""
    kind = rng.choice(["time", "watched", "writing", "removing"]) if start is forked else "watched"
    if kind == "time":
        return _wait(start(knobs, None), _after(rng.uniform(0.0, lasts)))
    if kind == "watched":
        return _wait(start(knobs, None), _writing(out, rng.randint(1, 6), rng.randint(0, 4)), 0.0002)
    moment = Moment(f".{kind}", rng.randint(1, 60 if kind == "writing" else 30))
    return _wait(start(knobs, moment), lambda: False)


def _run(out: Path, corpus: Path, start: Start, rng: random.Random, lasts: float, tally: Tally, kills: int) -> None:
    """Repeat until the run is done. After enough kills, it runs undisturbed."""
    from nanopace.train.checkpoint.layout import checkpoint_directories, step_of
    from nanopace.train.checkpoint.write import sweep

    fresh = {**KNOBS, "dataset": str(corpus), "out_dir": str(out)}
    tally.runs += 1
    while True:
        found = checkpoint_directories(out)
        if found and found[0].name == LAST:  # killed between its last save and its end
            sweep(out)
            return
        tally.resumed_from.append(step_of(found[0].name) if found else 0)
        resuming = {"init_from": "resume", "out_dir": str(out), "device": KNOBS["device"]}
        knobs = resuming if found else {**fresh, "overwrite": True}
        tally.lives += 1
        code = _life(out, knobs, start, rng, lasts) if tally.kills < kills else _wait(start(knobs, None), lambda: False)
        if code is not None:
            assert code == 0, f"a life ended with {code}"
            return
        tally.kills += 1
        for name in _left(out):
            tally.left[name] += 1


def _left(out: Path) -> Iterator[str]:
    """The kinds of temporary files that a kill has left; at most one of each, and the ledger can be read."""
    names = [*_names(out / "checkpoints"), *(name for name in _names(out) if name.endswith(".part"))]
    for suffix in (*TEMPORARY, ".part"):
        found = [name for name in names if name.endswith(suffix)]
        assert len(found) <= 1, f"temporary files pile up: {found}"
        if found:
            yield suffix
    if (out / "ledger.jsonl").exists():
        told(out)


# --- what became of it -----------------------------------------------------------------------------------------------


def told(out: Path) -> tuple[dict[int, object], dict[int, object]]:
    """Losses and evaluations by iteration, as last reported."""
    with (out / "ledger.jsonl").open("rb") as file:
        events = read_ledger(file).events
    steps = {each.iteration: (each.loss, each.grad_norm, each.lr) for each in events if isinstance(each, StepEvent)}
    evaluations = {
        each.iteration: (each.train, each.val, each.change) for each in events if isinstance(each, EvalEvent)
    }
    return dict(steps), dict(evaluations)


def differences(out: Path, whole: Path) -> Iterator[str]:
    """Between a run that was killed and one that was not."""
    for name in ("model.safetensors", "optimizer.safetensors"):
        if (out / "checkpoints" / LAST / name).read_bytes() != (whole / "checkpoints" / LAST / name).read_bytes():
            yield name
    for what, ours, theirs in zip(("losses", "evaluations"), told(out), told(whole), strict=True):
        if ours != theirs:
            yield what
    if (out / "best.json").read_bytes() != (whole / "best.json").read_bytes():
        yield "best.json"
    kept, expected = set(_names(out / "checkpoints")), set(_names(whole / "checkpoints"))
    if not expected <= kept or len(kept - expected) > 1:  # if killed at the very end, one may be left over
        yield f"files: {sorted(kept)}"
    if extra := [name for name in _names(out / "checkpoints") if name.endswith(TEMPORARY)]:
        yield f"files: {extra}"
    if extra := [name for name in _names(out) if name.endswith(".part")]:
        yield f"files: {extra}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--like", type=Path, help="a run that nobody killed (else one is made)")
    args = parser.parse_args()
    start = real if args.real else forked
    if start is forked:  # all that a start imports, before the first fork
        import safetensors.torch  # noqa: F401
        import torch._dynamo  # noqa: F401

        import nanopace.train.run  # noqa: F401

        gc.freeze()  # a training collects garbage, and need not look through all that was imported

    whole = args.like or args.folder / "whole"
    rng, tally = random.Random(args.seed), Tally()
    began = time.monotonic()
    if args.like is None:
        _run(whole, args.corpus, start, rng, 0.0, Tally(), kills=0)
    lasts = (time.monotonic() - began) * 1.2
    while tally.kills < args.kills:
        out = args.folder / f"killed-{tally.runs}"
        _run(out, args.corpus, start, rng, lasts, tally, args.kills)
        tally.differences += [f"{out.name}: {each}" for each in differences(out, whole)]
    print(json.dumps(asdict(tally)))


if __name__ == "__main__":
    main()
