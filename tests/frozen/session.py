"""Runs nanopace command lines one after another in one process, in an environment that leaves little to chance.

python tests/frozen/session.py reads [[argument, ...], ...] as JSON from stdin and prints each result. Torch is imported
once for all of them, and only the command line is used, so rooms may be moved and renamed.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import nanopace

# On x86-64, these select the plainest code in torch, MKL and oneDNN, which every such processor runs: no vectors of the
# processor's own width, no kernels chosen by its model. With one thread, the order of a sum is fixed.
PLAIN = {
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
# No card, no compiler, one language.
ALIKE = {
    "CUDA_VISIBLE_DEVICES": "",
    "CXX": "none",
    "LC_ALL": "C.UTF-8",
    "NO_COLOR": "1",
    "TZ": "UTC",
    "PYTHONUTF8": "1",
}


class Answer(NamedTuple):
    code: int
    out: str
    err: str


def session(directory: Path, commands: Sequence[Sequence[str]], **environment: str) -> list[Answer]:
    """The answer of each command, run in `directory`."""
    foreign = re.compile("COVERAGE_.*|LANGUAGE|TRITON_INTERPRET")  # other tests measure what is covered
    inherited = {key: value for key, value in os.environ.items() if not foreign.fullmatch(key)}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve())],
        input=json.dumps([list(command) for command in commands]),
        capture_output=True,
        text=True,
        cwd=directory,
        env={
            **inherited,
            **PLAIN,
            **ALIKE,
            "PYTHONPATH": str(Path(nanopace.__file__).parents[1]),
            "XDG_CACHE_HOME": str(directory / "cache"),
            **environment,
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Answer(*answer) for answer in json.loads(done.stdout)]


def machine() -> str:
    """What two machines must share to give the same bits: torch's release, the processor, the C library.

    With PLAIN, the model of an x86-64 processor should not matter: forbidding MKL, oneDNN and the C library the newer
    instructions changed no bit. Torch does not guarantee this, and Muon's losses did differ once, by 1e-7, between two
    models. If a machine of the same name gives other bits, add what distinguishes it here; do not widen the comparison.
    """
    from importlib.metadata import version

    release = version("torch").partition("+")[0]
    return f"torch {release}, {processor()}, {platform.system()}, {' '.join(platform.libc_ver())}"


def processor() -> str:
    """Its family of instructions; on Linux, also its vendor and model."""
    named = Path("/proc/cpuinfo")
    lines = named.read_text().splitlines() if named.exists() else []
    known = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    told = [known[name] for name in ("vendor_id", "cpu family", "model") if name in known]
    return " ".join([platform.machine(), *told])


def _answer(main: Any, command: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(command)
        except SystemExit as end:  # --help
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    from nanopace.cli.main import main

    commands = json.load(sys.stdin)
    with open(os.dup(1), "w", encoding="utf-8") as told:
        os.dup2(2, 1)  # child processes print on their own
        if any("--gpus=2" in command for command in commands):
            sys.path.append(str(Path(__file__).resolve().parents[1] / "train"))
            importlib.import_module("fork_server").fork_ranks()
        json.dump([_answer(main, command) for command in commands], told)
