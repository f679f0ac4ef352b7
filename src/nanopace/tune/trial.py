"""One short training in a separate process, which reads nothing but its config and writes nothing but its directory.

A trial that runs out of memory, hangs or dies is a data point. Its results are in its ledger, the only interface
between the trainer and us. Processes are forked from one that has already imported torch, which saves each of them
seconds; that one never touches the card, so each trial has the card to itself.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import runpy
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median

from nanopace.ledger import (
    CompileEvent,
    EndEvent,
    EvalEvent,
    Event,
    MicroBatchEvent,
    RunEvent,
    SpanEvent,
    StepEvent,
    read_ledger,
)
from nanopace.literals import Value

LEDGER, LOG, CONFIG = "ledger.jsonl", "log.txt", "config.py"
_DISCARDED = 0.3  # of the steps, at least one: caches are cold and clocks still rise
_ERROR = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception): ")
_GRACE_S = 10  # how long a process may take to end when asked to


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a trial."""

    failure: str | None  # None: it finished; memory, time, error
    seconds: float  # of the whole process
    said: str = ""  # the last line, if it failed
    step_ms: tuple[float, ...] = ()  # without the first ones
    tokens_per_second: float | None = None
    loss: float | None = None  # of the last evaluation
    flops_per_token: float | None = None
    micro_batch: int | None = None  # that it ended with, if reduced
    compile_ms: float = 0.0

    @property
    def worked(self) -> bool:
        return self.failure is None


def settings_of_trial(knobs: Mapping[str, Value], steps: int, *, evaluates: bool = False) -> dict[str, Value]:
    """The knobs with that many steps, and nothing else but an evaluation at the end if wanted."""
    quiet: dict[str, Value] = {
        "max_iters": steps,
        "eval_interval": steps,
        "eval_train": "steps",
        "save_interval": -1,
        "log_interval": 1,
        "wandb_log": False,
        "init_from": "scratch",
    }
    return {**knobs, **quiet, **({} if evaluates else {"eval_iters": 1})}


def run_trial(
    settings: Mapping[str, Value], folder: Path, timeout_s: float, *, machine_decides: bool = False
) -> Outcome:
    """Train with these settings in `folder`, which must be new. Open settings get nanoGPT's default, or the machine's
    choice."""
    folder.mkdir(parents=True)
    knobs = {**settings, "out_dir": str(folder / "out")}
    (folder / CONFIG).write_text("".join(f"{name} = {value!r}\n" for name, value in knobs.items()), encoding="utf-8")
    begin = time.monotonic()
    auto = ["--auto"] if machine_decides else []
    code = run_module("nanopace", ["train", str(folder / CONFIG), *auto, "--no-report"], folder / LOG, timeout_s)
    seconds = time.monotonic() - begin
    return Outcome(failure="time", seconds=seconds) if code is None else _outcome(folder, code, seconds)


def run_module(module: str, arguments: Sequence[str], log: Path, timeout_s: float) -> int | None:
    """Run `python -m module` in a separate process with its output in a file. Return its exit code; None if it hung."""
    process = _processes().Process(target=_run, args=(module, arguments, str(log), dict(os.environ)))
    process.start()
    try:
        process.join(timeout_s)
        hung = process.is_alive()
    finally:
        _end(process)  # also after Ctrl-C
    return None if hung else process.exitcode or 0


def introduction(folder: Path) -> RunEvent | None:
    """What a trial reported about itself: its whole config, its card. None if it died before."""
    return _first_run(_events(folder / "out" / LEDGER))


def data_share(folder: Path) -> float | None:
    """The share of the steps' time spent waiting for data; None without steps."""
    spans = [each for each in _events(folder / "out" / LEDGER) if isinstance(each, SpanEvent) and not each.background]
    parts = ("data", "step", "optimizer", "bus")
    phases = {phase: sum(each.ms for each in spans if each.phase == phase) for phase in parts}
    total = sum(phases.values())
    return phases["data"] / total if total else None


def _processes() -> ForkServerContext | SpawnContext:
    """The context for new processes; without fork, each of them imports torch itself."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["nanopace.train.run"])
    return context


def _run(module: str, arguments: Sequence[str], log: str, environment: Mapping[str, str]) -> None:
    """Runs in the new process. The process it is forked from may have an older environment."""
    os.environ.update(environment)
    with open(log, "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _end(process: BaseProcess) -> None:
    if process.is_alive():
        process.terminate()
        process.join(_GRACE_S)
    if process.is_alive():
        process.kill()
        process.join()


def _outcome(folder: Path, code: int, seconds: float) -> Outcome:
    events = _events(folder / "out" / LEDGER)
    ends = [each.reason for each in events if isinstance(each, EndEvent)]
    if code != 0 or ends != ["finished"]:
        failure = "memory" if "out_of_memory" in ends else "error"
        return Outcome(failure=failure, seconds=seconds, said=last_line(folder / LOG))
    steps = [each for each in events if isinstance(each, StepEvent)]
    steady = steps[max(1, round(_DISCARDED * len(steps))) :] or steps
    tokens = median(each.tokens or 0 for each in steady)
    evaluated = [each.val for each in events if isinstance(each, EvalEvent) and each.val is not None]
    smaller = [each.batch_size for each in events if isinstance(each, MicroBatchEvent) if each.where != "evaluation"]
    run = _first_run(events)
    return Outcome(
        failure=None,
        seconds=seconds,
        step_ms=tuple(each.ms for each in steady),
        tokens_per_second=tokens / median(each.ms for each in steady) * 1000,
        loss=evaluated[-1] if evaluated else None,
        flops_per_token=None if run is None else run.flops_per_token,
        micro_batch=smaller[-1] if smaller else None,
        compile_ms=sum(each.ms for each in events if isinstance(each, CompileEvent)),
    )


def _first_run(events: Sequence[Event]) -> RunEvent | None:
    return next((each for each in events if isinstance(each, RunEvent)), None)


def _events(path: Path) -> Sequence[Event]:
    try:
        with path.open("rb") as file:
            return read_ledger(file).events
    except FileNotFoundError:  # it died before
        return ()


def last_line(path: Path) -> str:
    """Why it ended: the last line, or the line of a traceback that names the error, because torch may print more after
    it."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except FileNotFoundError:
        return ""
    named = [line for line in lines if _ERROR.match(line)]
    return (named or lines or [""])[-1].removeprefix("nanopace: ")
