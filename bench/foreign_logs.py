"""Compares our readers with a plain grep on other trainers' logs: rows, last step, last validation loss, time.

    python bench/foreign_logs.py LOG_OR_DIRECTORY ...

Prints a line for each log: "ok" if both agree, or what differs. The exit status is 1 if any log differs or was refused.
The grep knows nothing about runs, samples or restarts: it adds up what looks like a row. To check another trainer, add
it to TRAINERS. A directory means all files below it in which one of its expressions finds rows.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import lzma
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nanopace.errors import NanopaceError
from nanopace.run import Run
from nanopace.sources.runs import open_runs

_NUMBER = r"(?P<{}>[\d.]+|nan|inf)"
_STEP, _LOSS, _TIME, _VAL = r"(?P<step>\d+)", *(_NUMBER.format(name) for name in ("loss", "time", "val"))
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_LARGEST = 200 << 20  # bytes
_FEWEST = 2  # rows: a single one is an example in a text


class Grep(NamedTuple):
    """A trainer's lines: groups step, loss, time and, if it varies, unit; for evaluations, val."""

    row: str
    val: str = ""
    first: int = 0  # the number of its first step
    timed: bool = True


TRAINERS = {  # by format name, sometimes followed by the kind of its rows
    "makemore": Grep(  # whose rows look like build-nanogpt's: of both, the first counts
        rf"^step {_STEP} \| loss {_LOSS} \| step time {_TIME}ms$", rf"^step \d+ train loss: \S+ test loss: {_VAL}$"
    ),
    "build_nanogpt": Grep(
        rf"(?i)^[^a-z]*step[ :]*{_STEP}[ |,]+(?:train.)?loss *[:= ] *{_LOSS}.*?(?:(?:dt|time)[ :=]+|[|,] *){_TIME} ?ms",
        rf"(?i)^(?:step \d+ \| )?(?:validation|val) loss:? +{_VAL}$",
    ),
    "build_nanogpt_log": Grep(rf"^{_STEP} train {_LOSS}", rf"^\d+ val {_VAL}", timed=False),
    "llama2c": Grep(rf"^{_STEP} \| loss {_LOSS} \| lr \S+ \| {_TIME}ms", rf"^step \d+: train loss .*val loss {_VAL}$"),
    "mingpt": Grep(rf"^iter_dt (?!0\.00ms){_TIME}ms; iter {_STEP}: train loss {_LOSS}$"),  # 0.00: there is no time yet
    "llmc": Grep(
        rf"step +{_STEP}/\d+(?: \||:) (?:train )?loss +{_LOSS}.*?[|(] ?{_TIME} ms", rf"^val loss {_VAL}$", first=1
    ),
    "llmc (C)": Grep(rf"^step {_STEP}: train loss {_LOSS} \(took {_TIME} ms", rf"^val loss {_VAL}$"),
    "llmc_python": Grep(rf"^step +{_STEP}/\d+ \| train loss +{_LOSS} .*\({_TIME} ms", rf"^val loss {_VAL}$", first=1),
    "llmc_log": Grep(rf"^s:{_STEP} trl:{_LOSS}", rf"^s:\d+ tel:{_VAL}", timed=False),
    "llmq": Grep(
        rf"\[T\] step +{_STEP} .*time: +{_TIME} +(?P<unit>m?s) .*loss +{_LOSS}", rf"\[V\] step .*eval +{_VAL}"
    ),
    "llmq_json": Grep(
        rf'"log": "step".*"step": {_STEP},.*"duration_ms": {_TIME},.*"loss": {_LOSS}', rf'"log": "eval".*"loss": {_VAL}'
    ),
}


class Figures(NamedTuple):
    """The figures to compare."""

    rows: int
    last_step: int
    last_val: float | None
    total_s: float | None

    def __str__(self) -> str:
        val = "-" if self.last_val is None else f"{self.last_val:.4f}"
        total = "-" if self.total_s is None else f"{self.total_s:,.1f} s"
        return f"{self.rows:>7,} rows, last {self.last_step:>7,}, val {val}, {total}"


def by_reader(runs: list[Run], grep: Grep) -> Figures:
    """The figures of all runs in a file together, including rows that a restart repeated."""
    rows = [row for run in runs for row in (run.logged, *(each.lost for each in (*run.restarts, *run.rollbacks)))]
    last_val = next(
        (
            each.val
            for run in reversed(runs)
            for each in reversed(run.evaluations)
            if each.metric != "core" and each.val is not None
        ),
        None,
    )
    return Figures(
        rows=sum(part.lines for part in rows),
        last_step=runs[-1].logged.last_iteration[-1] + grep.first,
        last_val=last_val,
        total_s=sum(map(sum, (part.sum_ms for part in rows))) / 1000 if grep.timed else None,
    )


def by_grep(text: str, grep: Grep) -> Figures | None:
    row, val = re.compile(grep.row), re.compile(grep.val) if grep.val else None
    rows, last, last_val, total = 0, 0, None, 0.0
    for line in text.splitlines():
        if (found := row.search(line)) is not None:
            rows, last = rows + 1, int(found["step"])
            unit_ms = 1000.0 if found.groupdict().get("unit") == "s" else 1.0
            total += float(found["time"]) * unit_ms if grep.timed else 0.0
        elif val is not None and (found := val.search(line)) is not None:
            last_val = float(found["val"])
    if rows < _FEWEST:
        return None
    finite = last_val if last_val is None or math.isfinite(last_val) else math.inf
    return Figures(rows, last, finite, total / 1000 if grep.timed else None)


def differences(ours: Figures, theirs: Figures) -> list[str]:
    return [
        name
        for name, a, b in zip(Figures._fields, ours, theirs, strict=True)
        if a != b and not (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-9))
    ]


def text_of(path: Path) -> str:
    opener = _OPENERS.get(path.suffix, open)
    with opener(path, "rb") as file:
        return file.read(_LARGEST).decode("utf-8", "replace")


def files_of(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--trainer", choices=TRAINERS, help="default: whichever matches the most rows")
    args = parser.parse_args()
    asked = [args.trainer] if args.trainer else list(TRAINERS)
    wrong = checked = 0
    for path in files_of(args.paths):
        text = text_of(path)
        found = {name: figures for name in asked if (figures := by_grep(text, TRAINERS[name])) is not None}
        if not found:
            continue
        checked += 1
        name = max(found, key=lambda name: found[name].rows)
        try:
            runs = open_runs(path)
        except NanopaceError as error:
            wrong += 1
            print(f"REFUSED  {path.name}: {error}")
            continue
        ours = by_reader(runs, TRAINERS[name])
        differ = [] if runs[0].format == name.partition(" ")[0] else ["format"]
        differ += differences(ours, found[name])
        wrong += bool(differ)
        print(f"{'ok      ' if not differ else 'DIFFERS '} {path.name}: {runs[0].format}, {len(runs)} run(s), {ours}")
        if differ:
            print(f"         {', '.join(differ)}; grep: {name}, {found[name]}")
    print(f"{checked} logs, {checked - wrong} agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
