"""The workers, one per core; each gets a target for a while. If one dies or takes too long for an input, it is ended,
the input is kept, and another worker continues after it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzzing.worker import PLACE, TRACE, Target, made, seconds_for

SLICE_S = 40.0  # for one target, before the next one gets the core
BLOCK = 1_000_000  # cases per slice: each slice has its own numbers, so that a number alone identifies the input
SETUP_S = 120  # before a worker's first input
_TICKS = os.sysconf("SC_CLK_TCK")
SCRIPT = Path(__file__).resolve().parents[1] / "fuzz.py"


@dataclass
class Tally:
    """What is known about a target."""

    executions: int = 0
    seconds: float = 0.0
    slices: int = 0
    slowest: tuple[float, int] = (0.0, -1)
    peak_mb: float = 0.0
    findings: dict[str, str] = field(default_factory=dict)  # place: the line that reports it


class Worker:
    """One process, and the last known state of its work."""

    def __init__(self, name: str, target: Target, seed: int, cases: range, seconds: float, file: Path | None) -> None:
        self.name, self.target, self.cases, self.began = name, target, cases, time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix="nanopace-fuzz-", dir=_memory())
        self.room = Path(self._folder.name)
        (self.room / "place").write_bytes(PLACE.pack(-1, 0, self.began))
        command = [sys.executable, str(SCRIPT), "--worker", str(self.room), "--only", name, f"--seed={seed}"]
        command += [f"--cases={cases.start}:{cases.stop}", f"--seconds={seconds}"]
        command += [] if file is None else [f"--file={file}"]
        self._errors = (self.room / "stderr").open("wb")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(self.room),
            start_new_session=True,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._rest = b""
        self._cpu: tuple[int, float] = (-1, 0.0)  # the case, and the CPU time when it was first seen

    def messages(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        while data := self.process.stdout.read():
            self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        yield from map(json.loads, lines)

    def place(self) -> tuple[int, int, float]:
        case, size, began = PLACE.unpack((self.room / "place").read_bytes())
        return case, size, began

    def hangs(self) -> bool:
        """Whether it used too much CPU time or, if it is waiting, three times that by the clock."""
        case, size, began = self.place()
        if case < 0:
            return time.monotonic() - began > SETUP_S
        used, limit = self._processor_s(), seconds_for(self.target, size)
        if self._cpu[0] != case:
            self._cpu = case, used
        return used - self._cpu[1] > limit or time.monotonic() - began > 3 * limit

    def _processor_s(self) -> float:
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def end(self) -> str:
        """Kill it and its children; return where it was, if it can tell."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)
            time.sleep(0.3)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        trace = self.room / TRACE
        return (trace.read_text() if trace.exists() else "") or (self.room / "stderr").read_text(errors="replace")[
            -3000:
        ]

    def clear(self) -> None:
        self.end()
        self._errors.close()
        subprocess.run(["chmod", "-R", "u+rwX", str(self.room)], check=False, stderr=subprocess.DEVNULL)
        self._folder.cleanup()


def _memory() -> Path | None:
    memory = Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) else None


def _environment(room: Path) -> dict[str, str]:
    """An environment without this machine's network, settings or caches."""
    kept = {name: given for name, given in os.environ.items() if not name.startswith(("COVERAGE_", "NANOPACE", "HF_"))}
    nowhere = "http://127.0.0.1:9"
    own = {"HOME": str(room), "TMPDIR": str(room), "XDG_CACHE_HOME": str(room)}
    return kept | own | {"OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8", "http_proxy": nowhere, "https_proxy": nowhere}


class Pool:
    """Runs targets until the time is up, or each has had its executions."""

    def __init__(self, targets: Mapping[str, Target], seed: int, findings: Path, workers: int) -> None:
        self.targets, self.seed, self.findings, self._at_once = targets, seed, findings, workers
        self.tallies = {name: Tally() for name in targets}
        self._workers: list[Worker] = []
        self._by_count = False

    def run(self, *, seconds: float, executions: int | None, tick: Callable[[float], object]) -> None:
        end, self._by_count = time.monotonic() + seconds, executions is not None
        left = {
            name: None if executions is None else max(1, int(executions * each.share))
            for name, each in self.targets.items()
        }
        try:
            while True:
                remaining = end - time.monotonic()
                for worker in list(self._workers):
                    self._watch(worker)
                while len(self._workers) < self._at_once and remaining > 0 and (name := self._next(left)):
                    self._start(name, min(SLICE_S if executions is None else 1e9, remaining), left)
                if not self._workers:
                    return
                tick(min(seconds, seconds - remaining))
                time.sleep(0.1)
        finally:
            for worker in self._workers:
                worker.clear()

    def replay(self, name: str, case: int, file: Path | None) -> None:
        """Run one input in its own process, with the same limits."""
        self._workers.append(Worker(name, self.targets[name], self.seed, range(case, case + 1), 1e9, file))
        while self._workers:
            self._watch(self._workers[0], go_on=False)
            time.sleep(0.05)

    def _next(self, left: dict[str, int | None]) -> str | None:
        """The target that has had the least time."""
        open_ones = [name for name, count in left.items() if count is None or count > 0]
        return min(open_ones, key=lambda name: self.tallies[name].seconds + SLICE_S * self._at_work(name), default=None)

    def _at_work(self, name: str) -> int:
        return sum(worker.name == name for worker in self._workers)

    def _start(self, name: str, seconds: float, left: dict[str, int | None]) -> None:
        first, count = self.tallies[name].slices * BLOCK, left[name] or BLOCK
        self.tallies[name].slices += 1
        if left[name] is not None:
            left[name] = 0
        self._workers.append(Worker(name, self.targets[name], self.seed, range(first, first + count), seconds, None))

    def _watch(self, worker: Worker, *, go_on: bool = True) -> None:
        tally, ended = self.tallies[worker.name], worker.process.poll() is not None
        for message in worker.messages():
            if "where" in message:
                self._keep(worker.name, message["case"], message["size"], message["where"], message["trace"])
            else:
                tally.executions += message["done"]
                tally.slowest = max(tally.slowest, tuple(message["slowest"]))
                tally.peak_mb = max(tally.peak_mb, message["peak"])
        if not ended and not worker.hangs():
            return
        case, size, _ = worker.place()
        code = worker.process.returncode
        if code != 0:
            trace = worker.end()
            said = "hangs" if not ended else f"died of {signal.Signals(-code).name if code < 0 else f'status {code}'}"
            self._keep(worker.name, case, size, _where_of(said, trace), trace)
            tally.executions += 1
        tally.seconds += time.monotonic() - worker.began
        self._workers.remove(worker)
        rest = range(case + 1, worker.cases.stop)
        worker.clear()
        if go_on and self._by_count and rest:
            self._workers.append(Worker(worker.name, worker.target, self.seed, rest, 1e9, None))

    def _keep(self, name: str, case: int, size: int, where: str, trace: str) -> None:
        known = self.tallies[name].findings
        if where in known:
            return
        known[where] = f"{name} case {case}, {size:,} bytes: {where}"
        self.findings.mkdir(parents=True, exist_ok=True)
        again = f"python bench/fuzz.py --seed {self.seed} --only {name} --case {case}"
        if name in ("formats", "parsers") and (formats := os.environ.get("FUZZ_FORMAT")):
            again += f" --format {formats}"
        (self.findings / f"{name}-{case}.txt").write_text(f"{known[where]}\n{again}\n\n{trace}\n", errors="replace")
        if case >= 0:
            (self.findings / f"{name}-{case}.input").write_bytes(made(self.targets[name], name, self.seed, case))


def _where_of(said: str, trace: str) -> str:
    """Where a killed process was: the innermost of our own lines in faulthandler's output."""
    places = [line.strip() for line in trace.splitlines() if "nanopace" in line and line.lstrip().startswith("File")]
    return f"{said} in {places[0].rpartition('/')[2]}" if places else said
