"""Runs commands in a process with limited memory and time: what would fill the machine fails instead."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..cli.conftest import unmeasured

_ADDRESS_SPACE = 8 << 30  # bytes: torch alone maps some of them
_CPU_SECONDS = 120
_TIMEOUT_S = 300
_NEED_TORCH = {"train", "sample", "convert"}
# Each request gets a child with these limits; modules are imported once, before it is forked.
_PROGRAM = """
import contextlib, importlib, io, json, os, resource, signal, sys, time
space, seconds, timeout = map(int, sys.argv[1:4])
for name in sys.argv[4:]:
    importlib.import_module(name)
from nanopace.cli.main import main
def work(directory, commands):
    os.chdir(directory)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_AS, (space,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(timeout)
    for arguments in commands:
        out, err, begin = io.StringIO(), io.StringIO(), time.process_time()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
        status = open("/proc/self/status").read()  # getrusage begins with the most that the parent had
        most = int(status.partition("VmHWM:")[2].split()[0]) / 1024
        said = {"code": code, "out": out.getvalue(), "err": err.getvalue(), "seconds": time.process_time() - begin}
        print(json.dumps(said | {"mb": most}), flush=True)
for line in sys.stdin:
    if not (child := os.fork()):
        work(*json.loads(line))
        os._exit(0)
    print(json.dumps({"ended": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one command. `mb` is the process's peak memory so far."""

    code: int
    out: str
    err: str
    seconds: float
    mb: float


def answers(commands: list[list[str]], directory: Path) -> list[Answer]:
    """The answers of commands that run one after another in one process, which must survive all of them."""
    parent = _parent("torch") if any(command[0] in _NEED_TORCH for command in commands) else _parent()
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write(json.dumps([str(directory), commands]) + "\n")
    parent.stdin.flush()
    given = []
    for line in parent.stdout:
        said = json.loads(line)
        if "ended" in said:
            assert said["ended"] == 0, f"after {len(given)} commands: {said}; its traceback is above"
            break
        given.append(Answer(**said))
    return given


@cache
def _parent(*imported: str) -> subprocess.Popen[str]:
    """Ends with these tests, since nothing writes to it any more."""
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *map(str, (_ADDRESS_SPACE, _CPU_SECONDS, _TIMEOUT_S)), *imported],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=unmeasured() | {"COLUMNS": "80", "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1"},
    )


def is_one_line(answer: Answer) -> bool:
    said = answer.err.splitlines(keepends=True)
    said = [line for line in said if not line.startswith("tokenizing: ")]  # every ten seconds, on a busy machine
    return (
        answer.code == 2 and answer.out == "" and len(said) == 1 and said[0][:-1].isprintable() and said[0][-1] == "\n"
    )
