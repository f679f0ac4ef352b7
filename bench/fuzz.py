"""A million inputs for each parser, made by atheris (libFuzzer) to reach as much of the code as it can.

Every target of bench/fuzz_targets.py runs in a process of its own. An exception that is not a NanopaceError is a
crash, and its input is kept in the directory --findings; so is an input that takes longer than ten seconds. Memory is
told after a tenth of the inputs and at the end: all of the process, in which libFuzzer keeps every input that it found
interesting, and the blocks that Python's objects take, which are the parsers' alone. Those must not grow.

    pip install atheris
    python bench/fuzz.py                                    # every target, a million each
    python bench/fuzz.py --executions 100000 logs ledger
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from importlib.util import find_spec
from pathlib import Path

HUNG_S = 10
KEPT = 20  # crashes of different places, per target
GROWTH = 1.02  # of Python's memory between a tenth of the inputs and the end


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--findings", type=Path, default=Path(tempfile.gettempdir(), "nanopace-fuzz"))
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if find_spec("atheris") is None:
        print("atheris is not installed: pip install atheris", file=sys.stderr)
        return 2
    if args.child is not None:
        fuzz(args.targets[0], args.executions, args.child, args.findings)
        return 1
    from fuzz_targets import TARGETS

    unknown = [name for name in args.targets if name not in TARGETS]
    if unknown:
        print(f"{unknown[0]}: no such target; there are {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    print(f"{'target':12}{'executions':>12}{'exec/s':>9}{'crashes':>9}", end="")
    print(f"{'slowest':>12}{'MB at 10%':>11}{'at end':>8}{'blocks at 10%':>15}{'at end':>10}", flush=True)
    return max([_fuzzed(name, args.executions, args.findings) for name in args.targets or TARGETS])


def _fuzzed(name: str, executions: int, findings: Path) -> int:
    """One target in its own process, and its row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, __file__, name, f"--executions={executions}", f"--findings={findings}"]
        done = subprocess.run([*command, f"--child={report}"], capture_output=True, text=True, check=False)
        if not report.exists():  # libFuzzer ended it: a hang, a signal, or too much memory
            print(f"{name:12}ended before its time:\n{done.stderr[-3000:]}", flush=True)
            return 1
        found = json.loads(report.read_text())
    print(
        f"{name:12}{found['executions']:12,}{found['executions'] / found['seconds']:9,.0f}{len(found['crashes']):9}"
        f"{1000 * found['slowest']:9.1f} ms{found['early_mb']:11.0f}{found['mb']:8.0f}"
        f"{found['early_blocks']:15,}{found['blocks']:10,}",
        flush=True,
    )
    for crash in found["crashes"]:
        print(f"    {crash}")
    return int(bool(found["crashes"]) or found["blocks"] > GROWTH * found["early_blocks"])


class Watch:
    """Counts executions, keeps what crashed and what was slow, and ends the process after the last one."""

    def __init__(self, name: str, executions: int, report: Path, findings: Path) -> None:
        from fuzz_targets import TARGETS

        self._name, self._executions, self._report, self._findings = name, executions, report, findings
        self._check = TARGETS[name].check()
        self._count = 0
        self._slowest = 0.0
        self._early: dict[str, float] = {}
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
            self._early = {f"early_{name}": value for name, value in _memory().items()}
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
                    **self._early,
                    **_memory(),
                }
            )
        )
        os._exit(0)


def _memory() -> dict[str, float]:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6, "blocks": sys.getallocatedblocks()}


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
