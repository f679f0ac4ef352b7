"""Put small mistakes into the source, one at a time, and see which ones no test notices (docs/mutation.md).

    python tools/mutate.py --room diagnosis ledger            # 60 mutants of each, drawn at random, on all cores
    python tools/mutate.py --room train/checkpoint --count 200 --seed 7
    python tools/mutate.py --room ledger --again              # after new tests: try its survivors again

A room is the beginning of a path below src/nanopace. Results are kept in .mutate/, so that an interrupted run continues
where it stopped. Survivors that do not matter are in tests/mutants.toml with the reason, and do not count.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mutation import coverage_map
from mutation.children import Job, copy_tree, load_once, run_all
from mutation.coverage_map import PACKAGE
from mutation.judging import Verdict, judge, read_verdicts
from mutation.operators import Mutant, mutants_of

MEASURE_S = 900  # for one test file

Excuse = tuple[str, str, str, int]  # file, line, change, and its number among equal changes in equal lines


def main() -> int:
    args = _arguments()
    root: Path = args.root.resolve()
    cache = root / ".mutate"
    cache.mkdir(exist_ok=True)
    rooms = {room: sample(root, room, args.count, args.seed) for room in args.room}
    if empty := [room for room, drawn in rooms.items() if not drawn]:
        print(f"no source file path starts with {', '.join(empty)}", file=sys.stderr)
        return 2
    excused = {key for key, _ in read_excuses(root)}
    known = read_verdicts(cache / "results.jsonl")
    todo = [
        mutant
        for mutant in dict.fromkeys(mutant for drawn in rooms.values() for mutant in drawn)
        if excuse_key(mutant) not in excused
        and (mutant.key not in known or (args.again and not known[mutant.key].killed))
    ]
    try:
        if todo:
            _run(root, cache, todo, args)
    except KeyboardInterrupt:
        print("interrupted; run the same command to continue", file=sys.stderr)
    _report(rooms, excused, read_verdicts(cache / "results.jsonl"))
    return 0


def sample(root: Path, room: str, count: int, seed: int) -> list[Mutant]:
    """`count` mutants of the files whose path begins with `room`; the same seed draws the same ones."""
    every: list[Mutant] = []
    for file in sorted((root / PACKAGE).rglob("*.py")):
        path = file.relative_to(root / PACKAGE).as_posix()
        if path.startswith(room):
            every += mutants_of(path, file.read_bytes())
    return random.Random(f"{seed} {room}").sample(every, min(count, len(every)))


def read_excuses(root: Path) -> Iterator[tuple[Excuse, str]]:
    """The survivors that do not matter, and why."""
    file = root / "tests" / "mutants.toml"
    for entry in tomllib.loads(file.read_text())["mutant"] if file.exists() else ():
        yield (entry["file"], entry["line"], entry["change"], entry.get("nth", 0)), entry["why"]


def excuse_key(mutant: Mutant) -> Excuse:
    return mutant.path, mutant.line, mutant.change, mutant.nth


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", nargs="+", required=True, metavar="PATH", help="path prefix below src/nanopace")
    parser.add_argument("--count", type=int, default=60, metavar="N", help="mutants per room (default: 60)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="test survivors again")
    parser.add_argument("--tests", nargs="+", default=["tests"], metavar="PATH", help="only these tests (default: all)")
    budget, patience = (
        "seconds for tests of other modules (default: 60)",
        "seconds beyond 4x the usual time (default: 30)",
    )
    parser.add_argument("--budget", type=float, default=60, metavar="S", help=budget)
    parser.add_argument("--patience", type=float, default=30, metavar="S", help=patience)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="mutants in parallel")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help=argparse.SUPPRESS)
    return parser.parse_args()


def _run(root: Path, cache: Path, todo: list[Mutant], args: argparse.Namespace) -> None:
    load_once()
    files = sorted({file.relative_to(root).as_posix() for each in args.tests for file in _test_files(root / each)})
    with tempfile.TemporaryDirectory(prefix="nanopace-mutate-") as folder:
        copies = [Path(folder, str(number)) for number in range(args.jobs)]
        for copy in copies:
            copy_tree(root, copy)
        stale = [file for file in files if not coverage_map.is_fresh(cache, root, file)]
        with _progress("measure", len(stale)) as done:
            run_all((partial(_measure, cache, file, done) for file in stale), copies, done.tick)
        tests = coverage_map.read(cache, files)
        with (cache / "results.jsonl").open("a") as results, _progress("mutants", len(todo)) as done:

            def tell(verdict: Verdict) -> None:
                verdict.write(results)
                done(not verdict.killed)

            run_all((judge(mutant, tests, args.budget, args.patience, tell) for mutant in todo), copies, done.tick)


def _test_files(path: Path) -> Iterable[Path]:
    return [path] if path.is_file() else (file for file in path.rglob("test_*.py") if "gpu" not in file.parts)


def _measure(cache: Path, file: str, done: Callable[[], None], copy: Path) -> Job:
    yield partial(coverage_map.measure, copy, cache, file), MEASURE_S
    if not coverage_map.is_fresh(cache, copy, file):
        coverage_map.leave_out(copy, cache, file)
    done()


class _Done:
    """Counts what is done and shows it, without a drawing thread, since the process forks."""

    def __init__(self, progress: Progress, what: str, total: int) -> None:
        self.progress, self.what, self.began, self.drawn, self.found = progress, what, time.monotonic(), 0.0, 0
        self.task = progress.add_task(what, total=total)

    def __call__(self, survived: bool = False) -> None:
        self.found += survived
        self.progress.advance(self.task)

    def tick(self) -> None:
        now = time.monotonic()
        if now - self.drawn > 0.5:
            self.drawn = now
            rate = 60 * self.progress.tasks[0].completed / max(1.0, now - self.began)
            said = f"{self.what}, {rate:.0f}/min" + (f", {self.found} survived" if self.found else "")
            self.progress.update(self.task, description=said, refresh=True)


@contextmanager
def _progress(what: str, total: int) -> Iterator[_Done]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True, auto_refresh=False) as progress:
        yield _Done(progress, what, total)


def _report(rooms: dict[str, list[Mutant]], excused: set[Excuse], verdicts: dict[str, Verdict]) -> None:
    print(f"{'room':24}{'mutants':>9}{'excused':>9}{'killed':>9}{'score':>8}")
    for room, drawn in rooms.items():
        count = [mutant for mutant in drawn if excuse_key(mutant) not in excused]
        judged = [verdicts[mutant.key] for mutant in count if mutant.key in verdicts]
        killed = sum(verdict.killed for verdict in judged)
        score = f"{100 * killed / len(judged):.0f}%" if judged else "-"
        print(f"{room:24}{len(judged):9}{len(drawn) - len(count):9}{killed:9}{score:>8}")
    for drawn in rooms.values():
        survivors = [each for each in drawn if each.key in verdicts and not verdicts[each.key].killed]
        survivors = [each for each in survivors if excuse_key(each) not in excused]
        for mutant in sorted(survivors, key=lambda each: (each.path, each.start)):
            nth = f" (nth = {mutant.nth})" if mutant.nth else ""
            print(f"\n{PACKAGE}/{mutant.path}:{mutant.number} ({verdicts[mutant.key].by}): {mutant.change}{nth}")
            print(f"    {mutant.line}")


if __name__ == "__main__":
    sys.exit(main())
