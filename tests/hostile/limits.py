"""Commands in a process that may take only so much memory and time: what would fill the machine fails instead."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ..cli.conftest import unmeasured

_ADDRESS_SPACE = 8 << 30  # bytes: torch alone maps some of them
_CPU_SECONDS = 120
_PROGRAM = """
import contextlib, io, json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]),) * 2)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from nanopace.cli.main import main
for arguments in json.load(sys.stdin):
    out, err, begin = io.StringIO(), io.StringIO(), time.process_time()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    status = open("/proc/self/status").read()  # getrusage begins with the most that the parent had
    most = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    said = {"code": code, "out": out.getvalue(), "err": err.getvalue(), "seconds": time.process_time() - begin}
    print(json.dumps(said | {"mb": most}), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """Of one command. `mb` is the most memory that the process has had up to then."""

    code: int
    out: str
    err: str
    seconds: float
    mb: float


def answers(commands: list[list[str]], directory: Path) -> list[Answer]:
    """Each command's, one after the other in one process, which must survive all of them."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(_ADDRESS_SPACE), str(_CPU_SECONDS)],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        timeout=300,
        env=unmeasured() | {"COLUMNS": "80", "LC_ALL": "C.UTF-8", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [Answer(**json.loads(line)) for line in done.stdout.splitlines()]


def is_one_line(answer: Answer) -> bool:
    return answer.code == 2 and answer.out == "" and answer.err.endswith("\n") and answer.err[:-1].isprintable()
