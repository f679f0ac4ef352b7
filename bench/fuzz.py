"""Throws hostile files, flags, directories and faults at nanopace to see whether anything breaks (docs/fuzzing.md).

    python bench/fuzz.py                                   # everything, ten minutes, on all cores
    python bench/fuzz.py --seed 7 --minutes 60 --only logs ledgers
    python bench/fuzz.py --seed 7 --only logs --case 1234  # repeat one input, and write it to a file
    python bench/fuzz.py --only logs --file some.log       # try your own file
    python bench/fuzz.py --only parsers --format modded-nanogpt --executions 1000000

A finding is an exception other than NanopaceError, a traceback, an undocumented exit code, a change to a file that is
not nanopace's, more than 10 s of CPU time for 5 MB, or more than 500 MB of memory. The exit code is 1 if there are
findings.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from fuzzing.pool import Pool, Tally
from fuzzing.targets import TARGETS
from fuzzing.worker import made, work


def main() -> int:
    args = _arguments()
    chosen = {name: TARGETS[name] for name in args.only or TARGETS}
    if args.worker is not None:
        _work(args)
        return 0
    if args.format:
        os.environ["FUZZ_FORMAT"] = " ".join(args.format)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # CUDA's libraries take a gigabyte of memory, whatever the input
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FUZZ_WORLD"] = str(Path(folder, "world.json"))
        pool = Pool(chosen, args.seed, args.findings, args.workers)
        return _replay(pool, args) if args.case is not None or args.file is not None else _fuzz(pool, args)


def _fuzz(pool: Pool, args: argparse.Namespace) -> int:
    began = time.monotonic()
    try:
        _run(pool, args)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    _table(pool.tallies, time.monotonic() - began, args.findings)
    return int(any(tally.findings for tally in pool.tallies.values()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="TARGET", choices=tuple(TARGETS), help=", ".join(TARGETS))
    parser.add_argument("--format", nargs="+", metavar="NAME", help="only these formats (targets formats and parsers)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--executions", type=int, metavar="N", help="inputs per target, instead of a time limit")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="parallel processes")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), metavar="DIR", help="output folder")
    parser.add_argument("--case", type=int, metavar="N", help="replay this case of --only")
    parser.add_argument("--file", type=Path, help="run --only on this file alone")
    for hidden, kind in (("--worker", Path), ("--cases", str), ("--seconds", float)):
        parser.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if (args.case is not None or args.file is not None) and len(args.only or ()) != 1:
        parser.error("--case and --file need --only with a single TARGET")
    return args


def _work(args: argparse.Namespace) -> None:
    first, _, stop = args.cases.partition(":")
    report = os.fdopen(os.dup(1), "w")  # keeps nanopace's own output out of the report
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    given = None if args.file is None else args.file.read_bytes()
    name = args.only[0]
    os.chdir(args.worker)
    work(TARGETS[name], name, args.seed, range(int(first), int(stop)), args.seconds, args.worker, report, given)


def _replay(pool: Pool, args: argparse.Namespace) -> int:
    name, case = args.only[0], args.case or 0
    if args.file is None:
        args.findings.mkdir(parents=True, exist_ok=True)
        saved = args.findings / f"{name}-{case}.input"
        saved.write_bytes(made(TARGETS[name], name, args.seed, case))
        print(f"{saved}: {saved.stat().st_size:,} bytes")
    pool.replay(name, case, args.file and args.file.resolve())
    found = pool.tallies[name].findings
    for line in found.values():
        print((args.findings / f"{name}-{case}.txt").read_text() if args.file is None else line)
    tally = pool.tallies[name]
    print(f"{len(found)} findings, {tally.slowest[0]:.2f} s, {tally.peak_mb:.0f} MB")
    return int(bool(found))


def _run(pool: Pool, args: argparse.Namespace) -> None:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    seconds = 60 * args.minutes if args.executions is None else 1e9
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("", total=seconds if args.executions is None else args.executions * len(pool.targets))

        def tick(elapsed: float) -> None:
            done = sum(tally.executions for tally in pool.tallies.values())
            found = sum(len(tally.findings) for tally in pool.tallies.values())
            said = f"{done:,} executions, {done / max(1.0, elapsed):,.0f}/s, {found} findings"
            progress.update(task, completed=elapsed if args.executions is None else done, description=said)

        pool.run(seconds=seconds, executions=args.executions, tick=tick)


def _table(tallies: dict[str, Tally], seconds: float, findings: Path) -> None:
    print(f"{'target':12}{'executions':>12}{'per s':>8}{'findings':>10}{'slowest':>11}{'peak':>9}")
    for name, tally in tallies.items():
        rate = tally.executions / max(0.1, tally.seconds)
        print(f"{name:12}{tally.executions:12,}{rate:8,.0f}{len(tally.findings):10}", end="")
        print(f"{tally.slowest[0]:9.2f} s{tally.peak_mb:6,.0f} MB")
    print(f"{'all':12}{sum(each.executions for each in tallies.values()):12,} in {seconds / 60:.1f} minutes")
    for line in (line for tally in tallies.values() for line in tally.findings.values()):
        print(f"  {line}")
    if any(tally.findings for tally in tallies.values()):
        print(f"Inputs, and the commands to replay them: {findings}/")


if __name__ == "__main__":
    sys.exit(main())
