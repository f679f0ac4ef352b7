"""A million inputs for each parser, made by atheris (libFuzzer) to reach as much of the code as it can.

Every target of bench/fuzz_targets.py runs in a process of its own. An exception that is not a NanopaceError is a
crash, and its input is kept in the directory --findings; so is an input that takes longer than ten seconds.

libFuzzer keeps what it finds interesting, and so grows itself. Whether a parser does is therefore seen in a second,
plain process, which gives it a tenth as many inputs, samples with some bytes changed: its memory after a tenth of
those, and at the end.

    pip install atheris
    python bench/fuzz.py                                    # every target, a million each
    python bench/fuzz.py --executions 100000 logs ledger
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HUNG_S = 10
KEPT = 20  # crashes of different places, per target
GROWTH = 1.1  # of the memory that is allowed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--findings", type=Path, default=Path(tempfile.gettempdir(), "nanopace-fuzz"))
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if find_spec("atheris") is None:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    if args.child is not None:
        (plain if args.plain else fuzz)(args.targets[0], args.executions, args.child, args.findings)
        return 1
    from fuzz_targets import TARGETS

    unknown = [name for name in args.targets if name not in TARGETS]
    if unknown:
        print(f"{unknown[0]}: no such target; there are {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    print(f"{'target':12}{'executions':>12}{'exec/s':>9}{'crashes':>9}", end="")
    print(f"{'slowest':>12}{'plainly':>10}{'MB at 10%':>11}{'MB at end':>11}", flush=True)
    return max([_fuzzed(name, args.executions, args.findings) for name in args.targets or TARGETS])


def _fuzzed(name: str, executions: int, findings: Path) -> int:
    """One target, fuzzed and then plainly, and its row of the table."""
    found = _report(name, executions, findings)
    again = _report(name, max(10, executions // 10), findings, "--plain")
    if found is None or again is None:
        return 1
    print(
        f"{name:12}{found['executions']:12,}{found['executions'] / found['seconds']:9,.0f}{len(found['crashes']):9}"
        f"{1000 * found['slowest']:9.1f} ms{again['executions']:10,}{again['early_mb']:11.1f}{again['mb']:11.1f}",
        flush=True,
    )
    crashes = found["crashes"] + again["crashes"]
    for crash in crashes:
        print(f"    {crash}")
    return int(bool(crashes) or again["mb"] > GROWTH * again["early_mb"])


def _report(name: str, executions: int, findings: Path, *flags: str) -> dict[str, Any] | None:
    """What a process of its own has to tell; None where it was ended: a hang, a signal, or too much memory."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, __file__, name, f"--executions={executions}", f"--findings={findings}"]
        done = subprocess.run([*command, f"--child={report}", *flags], capture_output=True, text=True, check=False)
        if report.exists():
            found: dict[str, Any] = json.loads(report.read_text())
            return found
    print(f"{name:12}ended before its time:\n{done.stderr[-3000:]}", flush=True)
    return None


class Watch:
    """Counts executions, keeps what crashed and what was slow, and ends the process after the last one."""

    def __init__(self, name: str, executions: int, report: Path, findings: Path) -> None:
        from fuzz_targets import TARGETS

        self._name, self._executions, self._report, self._findings = name, executions, report, findings
        self._check = TARGETS[name].check()
        self._count = 0
        self._slowest = 0.0
        self._early_mb = 0.0
        self._crashes: dict[str, str] = {}
        self._began = time.monotonic()

    def __call__(self, data: bytes) -> None:
        from nanopace.errors import NanopaceError

        begin = time.perf_counter()
        try:
            self._check(data)
        except NanopaceError:
            pass
        except Exception as error:
            self._keep(data, error)
        self._slowest = max(self._slowest, time.perf_counter() - begin)
        self._count += 1
        if self._count == self._executions // 10:
            self._early_mb = _megabytes()
        if self._count >= self._executions:
            self._end()

    def _keep(self, data: bytes, error: Exception) -> None:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} in {Path(place.filename).name}:{place.lineno} {place.name}: {error}"[:200]
        key = where.partition(": ")[0]
        if key not in self._crashes and len(self._crashes) < KEPT:
            self._crashes[key] = where
            self._findings.mkdir(parents=True, exist_ok=True)
            (self._findings / f"{self._name}-{len(self._crashes)}").write_bytes(data)

    def _end(self) -> None:
        self._report.write_text(
            json.dumps(
                {
                    "executions": self._count,
                    "seconds": time.monotonic() - self._began,
                    "crashes": list(self._crashes.values()),
                    "slowest": self._slowest,
                    "early_mb": self._early_mb,
                    "mb": _megabytes(),
                }
            )
        )
        os._exit(0)


def _megabytes() -> float:
    """Without what is free, and only kept by the C library for the next one who asks."""
    gc.collect()
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def plain(name: str, executions: int, report: Path, findings: Path) -> None:
    """Samples with some bytes changed, put in or taken from another: the same ones every time."""
    from fuzz_targets import TARGETS

    watch, chance = Watch(name, executions, report, findings), random.Random(0)
    samples = [sample[: TARGETS[name].longest] for sample in TARGETS[name].samples()]
    while True:
        data = bytearray(chance.choice(samples))
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(data))
            match chance.randrange(3):
                case 0:
                    data[place] = chance.randrange(256)
                case 1:
                    data[place:place] = chance.randbytes(chance.randint(1, 8))
                case _:
                    data += chance.choice(samples)[chance.randrange(50) :]
        watch(bytes(data))


def fuzz(name: str, executions: int, report: Path, findings: Path) -> None:
    import atheris

    from fuzz_targets import TARGETS

    with atheris.instrument_imports(include=["nanopace"]):
        watch = Watch(name, executions, report, findings)
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as corpus:
        for number, sample in enumerate(target.samples()):
            Path(corpus, str(number)).write_bytes(sample[: target.longest])
        limits = [f"-max_len={target.longest}", f"-timeout={HUNG_S}", "-rss_limit_mb=4096", "-print_final_stats=0"]
        findings.mkdir(parents=True, exist_ok=True)
        atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={findings}/{name}-", corpus], watch)
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
