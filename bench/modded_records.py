"""Checks that nanopace reads all logs of modded-nanogpt's records correctly, by comparison with a plain grep.

    python bench/modded_records.py CHECKOUT      # of KellerJordan/modded-nanogpt or openai/parameter-golf

It takes every .txt and .log file below records/, or below the directory itself if it has no records/. The runs, their
rows, last step, last validation loss and last time must match what the grep finds, and the rows must add up to that
time. A file in which the grep finds nothing must be refused; one whose rows have no times belongs to another format.
Prints counts by era, the refusals and every disagreement; the exit code is 1 if there is any.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from nanopace.errors import NanopaceError
from nanopace.run import Run
from nanopace.sources.runs import open_runs

ROW = re.compile(r"^step:(\d+)/\d+ (.*)")
TIME = re.compile(r"\b(?:train_time|t):([\d.]+)(ms|s)\b")
VAL = re.compile(r"\bval_loss:([\d.]+|nan)")
MINUTES_ROW = re.compile(r"^(?:[\d.]+ )?(\d+)/\d+ (?:train_loss: .* train_time: ([\d.]+)m|val_loss: ([\d.]+))")
STOPPED = re.compile(r"^(?:[\d.]+ )?stopping_early: wallclock_cap train_time: (\d+)ms step: (\d+)/")
UNTIMED = re.compile(r"^s:\d+ (?:trl|tel|eval):")
NEAR = 1e-6  # relative tolerance of times: sums of floats


@dataclass
class Grepped:
    """One run as the grep finds it."""

    rows: int = 0
    last_step: int = 0
    val: float | None = None
    ms: float = 0.0
    zeroed: bool = False  # the clock was reset
    losses: bool = False  # rows have a loss
    seconds: bool = False
    only_evaluations: bool = True
    minutes: bool = False  # times are in tenths of minutes
    lines: set[str] = field(default_factory=set)

    @property
    def era(self) -> str:
        if self.minutes:
            return "minutes and tok/s"
        if self.seconds:
            return f"seconds, {'evaluations only' if self.only_evaluations else 'every step'}"
        loss = "train_loss" if self.losses else "no loss"
        return f"{loss}, {'clock reset' if self.zeroed else 'no clock reset'}"


def grep(text: str) -> tuple[list[Grepped], bool]:
    """The runs of a file, and whether it has rows without times."""
    runs: list[Grepped] = []
    untimed = False
    for line in text.splitlines():
        untimed |= UNTIMED.match(line) is not None
        if runs and line in runs[-1].lines and not line.startswith("step:0/"):
            continue  # some scripts print a run's last lines twice
        if (row := ROW.match(line)) and (time := TIME.search(row[2])):
            val = VAL.search(row[2])
            ms = float(time[1]) * (1000 if time[2] == "s" else 1)
            run = _add(runs, int(row[1]), ms, float(val[1]) if val else None)
            run.lines.add(line)
            run.seconds |= time[2] == "s"
            run.only_evaluations &= val is not None
            run.losses |= "loss:" in row[2] and val is None
        elif found := MINUTES_ROW.match(line):
            run = _add(runs, int(found[1]), None, float(found[3]) if found[3] else None, counts=found[2] is not None)
            run.minutes = True
        elif (found := STOPPED.match(line)) and runs and runs[-1].minutes:
            _add(runs, int(found[2]), float(found[1]), None)
    return [run for run in runs if run.rows], untimed


def _add(runs: list[Grepped], step: int, ms: float | None, val: float | None, *, counts: bool = True) -> Grepped:
    if not runs or step < runs[-1].last_step:
        runs.append(Grepped())
    run = runs[-1]
    if step > run.last_step and counts:
        run.rows += 1
        run.last_step = step
    if ms is not None:
        run.zeroed |= ms < run.ms
        run.ms = ms
    run.val = val if val is not None else run.val
    return run


def disagreements(found: Grepped, run: Run) -> list[str]:
    """Where nanopace and the grep differ."""
    total, last = 0.0, 0
    after = next((each.numbers["iteration"] for each in run.caveats if each.code == "clock_set_to_zero"), 0)
    for row in run.rows:
        total += (row.iteration - last) * row.ms if row.iteration > int(after or 0) else 0.0
        last = row.iteration
    said = {
        "rows": (found.rows, len(run.rows)),
        "last step": (found.last_step, last),
        "validation loss": (found.val, run.evaluations[-1].val if run.evaluations else None),
        "clock reset": (found.zeroed, bool(after)),
    }
    wrong = [f"{what}: {plain} by grep, {read} by nanopace" for what, (plain, read) in said.items() if plain != read]
    if abs(total - found.ms) > NEAR * found.ms:
        wrong.append(f"time: {found.ms} ms by grep, but nanopace's rows add up to {total} ms")
    if found.zeroed and abs(1000 * (run.told_training_s or 0) - found.ms) > NEAR * found.ms:
        wrong.append(f"time: {found.ms} ms by grep, {run.told_training_s} s by nanopace")
    return wrong


def check(path: Path, counts: Counter[str], refused: Counter[str]) -> list[str]:
    """Check one file; return what is wrong."""
    grepped, untimed = grep(path.read_text(errors="replace"))
    try:
        runs = open_runs(path)
    except NanopaceError as error:
        counts["refused"] += 1
        refused[str(error).removeprefix(f"{path}: ")] += 1
        return [f"refused, but grep finds {len(grepped)} runs"] * bool(grepped)
    if untimed and not grepped:
        counts[f"read as another format ({runs[0].format})"] += 1
        return []
    if len(runs) != len(grepped):
        return [f"{len(grepped)} runs by grep, {len(runs)} by nanopace"]
    counts[grepped[0].era] += 1
    counts["(runs)"] += len(runs)
    counts["(rows)"] += sum(len(run.rows) for run in runs)
    return [line for found, run in zip(grepped, runs, strict=True) for line in disagreements(found, run)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    root = parser.parse_args().checkout
    root = root / "records" if (root / "records").is_dir() else root
    files = sorted(path for path in root.rglob("*") if path.suffix in (".txt", ".log") and path.is_file())
    counts: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    wrong = 0
    for path in files:
        for line in check(path, counts, refused):
            wrong += 1
            print(f"{path.relative_to(root)}: {line}")
    print(f"{len(files):,} files")
    for era, number in sorted(counts.items()):
        print(f"{number:10,}  {era}")
    for reason, number in refused.most_common():
        print(f"{number:10,}  refused: {reason[:150]}")
    print(f"{wrong:,} disagreements")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
