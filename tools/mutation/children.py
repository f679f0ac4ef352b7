"""Runs tests in a forked child, in a copy of the tree: torch is imported once here, not once per mutant."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

HEAVY = (
    "pytest",
    "hypothesis",
    "numpy",
    "coverage",
    "xdist",
    "rich.progress",
    "jinja2",
    "zstandard",
    "torch",
    "safetensors.torch",
)
MEMORY = 6 << 30  # bytes per child: a mutant may fill a list forever
NOTHING_NOTICED = (0, 5)  # pytest's exit codes for "all passed" and "nothing to run"


def load_once() -> None:
    """Import everything heavy except nanopace itself: the child imports that, with the mutant in it."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def copy_tree(root: Path, to: Path) -> None:
    """Copy the files that git tracks or would track, without builds, virtual environments or data."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (root / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, to / name)


@dataclass
class Child:
    """A forked process that works in a copy of the tree, and its deadline."""

    pid: int
    began: float
    deadline: float

    def poll(self) -> int | None:
        """Its exit code, negative if it had to be killed; None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.kill()  # any processes it left behind
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() < self.deadline:
            return None
        self.kill()
        os.waitpid(self.pid, 0)
        return -signal.SIGKILL

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def fork(copy: Path, work: Callable[[], int], seconds: float) -> Child:
    """Run `work` in `copy`; its output goes to a log file."""
    began = time.monotonic()
    pid = os.fork()
    if pid:
        return Child(pid, began, began + seconds)
    code = 3
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        nothing = os.open(os.devnull, os.O_RDWR)
        log = os.open(copy.parent / f"{copy.name}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number, file in enumerate((nothing, log, log)):
            os.dup2(file, number)
        os.chdir(copy)
        os.environ.update(
            PYTHONPATH=str(copy / "src"), CI="true", HOME=str(copy.parent)
        )  # CI: the same examples each time
        sys.path[:0] = [str(copy / "src")]
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def run_pytest(copy: Path, arguments: list[str], plugin: object) -> int:
    """Run pytest in a child. Its temporary directories are removed, and nothing is cached."""
    import pytest

    space = copy.parent / f"{copy.name}.tmp"
    quiet = ["-n", "0", "-p", "no:cacheprovider", "--tb=no", f"--basetemp={space}"]
    try:
        return int(pytest.main([*quiet, *arguments], plugins=[plugin]))
    finally:
        shutil.rmtree(space, ignore_errors=True)


Request = tuple[Callable[[], int], float]  # a child's work, and its limit in seconds
Job = Generator[Request, int, None]  # requests children one after another, and receives their exit codes


def run_all(jobs: Iterable[Callable[[Path], Job]], copies: list[Path], tick: Callable[[], None]) -> None:
    """Run each job in its own copy; `tick` is called continually, and after each job."""
    waiting, free = iter(jobs), list(copies)
    running: list[tuple[Job, Child, Path]] = []
    more = True
    try:
        while more or running:
            while more and free:
                start = next(waiting, None)
                more = start is not None
                if start is not None and (begun := _go_on(start(free[-1]), None, free[-1])) is not None:
                    running.append(begun)
                    free.pop()
            for each in list(running):
                job, child, copy = each
                if (code := child.poll()) is not None:
                    running.remove(each)
                    if (begun := _go_on(job, code, copy)) is not None:
                        running.append(begun)
                    else:
                        free.append(copy)
            tick()
            time.sleep(0.02)
    finally:
        for job, child, _ in running:
            child.kill()
            job.close()


def _go_on(job: Job, code: int | None, copy: Path) -> tuple[Job, Child, Path] | None:
    try:
        work, seconds = next(job) if code is None else job.send(code)
    except StopIteration:
        return None
    return job, fork(copy, work, seconds), copy
