"""The short, fixed part of `make fuzz`: the same inputs every time, without a finding (docs/fuzzing.md)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..cli.conftest import unmeasured

BENCH = Path(__file__).resolve().parents[2] / "bench"
pytestmark = pytest.mark.slow


def fuzz(room: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCH / "fuzz.py"), f"--findings={room / 'findings'}", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=unmeasured(),
    )


def test_there_is_no_finding_in_what_is_always_tried(tmp_path: Path) -> None:
    """Sixty of each, and one fault."""
    done = fuzz(tmp_path, "--seed=28", "--executions=100")
    said = done.stdout + "".join(each.read_text() for each in tmp_path.glob("findings/*.txt")) + done.stderr
    assert done.returncode == 0, said[-8000:]
    tried = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()[1:] if line and line[0].isalpha()}
    assert tried["logs"] == tried["ledgers"] == tried["checkpoints"] == "100"
    assert tried["faults"] == "1"


# --- that it finds what it is there for ------------------------------------------------------------------------------


def test_a_broken_reader_is_a_finding_that_can_be_run_again(tmp_path: Path) -> None:
    broken = _broken(tmp_path, "raise KeyError('wanted')")
    assert "KeyError in" in broken.stdout
    assert broken.returncode == 1
    again = (tmp_path / "findings/logs-0.txt").read_text().splitlines()[1]
    assert again == "python bench/fuzz.py --seed 3 --only logs --case 0"
    replayed = _broken(tmp_path, "raise KeyError('wanted')", "--case=0")
    assert "1 findings" in replayed.stdout
    assert replayed.returncode == 1


def test_what_does_not_end_and_what_fills_memory_are_findings(tmp_path: Path) -> None:
    """Waiting takes no CPU time; for that, the fuzzer allows three times as long by the clock."""
    assert "hangs in" in _broken(tmp_path, "time.sleep(1000)").stdout
    assert "memory: " in _broken(tmp_path, "bytearray(b'x') * (550 << 20)").stdout
    assert "died of SIGKILL" in _broken(tmp_path, "os.kill(os.getpid(), 9)").stdout


def _broken(room: Path, statement: str, argument: str = "--executions=1") -> subprocess.CompletedProcess[str]:
    """The fuzzer with a log reader that does this. It starts itself as workers, so it is a script."""
    script = room / "fuzz.py"
    script.write_text(
        f"import os, sys, time\nsys.path.insert(0, {str(BENCH)!r})\n"
        "import fuzzing.pool, fuzzing.targets, pathlib\n"
        "fuzzing.pool.SCRIPT = pathlib.Path(__file__)\n"
        f"def broken(data):\n    {statement}\n"
        "logs = fuzzing.targets.TARGETS['logs']._replace(ready=lambda room: broken, seconds=1.5)\n"
        "fuzzing.targets.TARGETS['logs'] = logs\n"
        f"exec(compile(open({str(BENCH / 'fuzz.py')!r}).read(), 'nanopace/fuzz.py', 'exec'))\n"
    )
    return subprocess.run(
        [sys.executable, str(script), f"--findings={room / 'findings'}", "--seed=3", "--only=logs", argument],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=unmeasured(),
    )


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize(
    ("call", "after", "error"), [("write", 0, 28), ("write", 1, None), ("fsync", 0, 5), ("rename", 0, 5)]
)
def test_a_call_fails_when_it_shall(tmp_path: Path, call: str, after: int, error: int | None) -> None:
    shim = tmp_path / "faults.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(shim), str(BENCH / "fuzzing/faults.c"), "-ldl"], check=True)
    (tmp_path / "under").mkdir()
    program = """
import os, sys
try:
    with open("under/a", "wb", buffering=0) as file:
        file.write(b"text")
        os.fsync(file.fileno())
    os.rename("under/a", "under/b")
except OSError as error:
    print(error.errno)
"""
    fault = {
        "CALL": call,
        "AFTER": str(after),
        "TIMES": "1",
        "ERROR": str(error or 5),
        "UNDER": str(tmp_path / "under"),
    }
    environment = {f"FAULT_{name}": value for name, value in fault.items()} | {"LD_PRELOAD": str(shim)}
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=tmp_path, env=unmeasured() | environment
    )
    assert done.stdout.strip() == ("" if error is None else str(error))
