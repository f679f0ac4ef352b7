"""Compares nanopace with a second, deliberately simple log reader: prints every figure that differs by more than 2%.

python bench/wild.py FOLDER [FOLDER ...]        # or single logs; plain or .gz
python bench/wild.py --explained reasons.csv FOLDER

This reader shares no code with nanopace. It knows the rows of nanoGPT, nanochat and their forks, if a row has its
iteration and milliseconds. It knows nothing about history: a restart, a fork's different clock or a second run in the
file shows up as a disagreement. Disagreements that have been investigated are in bench/data/wild.csv (log, figure,
reason) and are listed with their reason. The exit status is 1 if there are others.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from nanopace import diagnose, open_runs
from nanopace.diagnosis.result import Diagnosis
from nanopace.errors import NanopaceError

TOLERANCE = 0.02
KNOWN = {"nanogpt", "nanochat", "nanopace"}  # formats
EXPLAINED = Path(__file__).parent / "data" / "wild.csv"

NUMBER = r"(\d+\.?\d*|nan|inf)"
# The kind of each line; its groups are the iteration and what is printed about it: milliseconds and mfu, or the loss.
KINDS = {
    "row": re.compile(r"\biter (\d+): loss .*?\btime:? ?(\d+\.?\d*) ?ms(?:.*?mfu (-?\d+\.\d+)%)?"),
    "chat": re.compile(r"\bstep (\d+)(?:/\d+)? \(.*?\| dt: (\d+\.\d+)ms"),
    "evaluation": re.compile(rf"\b[Ss]tep (\d+)(?:: .*?val loss| \| Validation bpb:) {NUMBER}"),
}
TOKENS = re.compile(r"[Tt]okens per iteration(?: will be)?: ([\d,]+)|Total batch size ([\d,]+)")

Figures = dict[str, float]
Seen = tuple[str, int, list[float]]  # kind, iteration, values
Rows = list[tuple[int, list[float]]]


def text_of(path: Path) -> str:
    """A file's text; from a truncated archive, as much as can be unpacked."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = zlib.decompressobj(wbits=31).decompress(data)
    return re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", data.decode("utf-8", "replace")).replace("\r", "\n")


def read_simply(text: str) -> list[Figures]:
    """The figures of each run. A new run begins where iterations start over at 0 or 1."""
    runs: list[list[Seen]] = [[]]
    tokens: list[float | None] = [None]
    told: float | None = None
    for line in text.split("\n"):
        if found := TOKENS.search(line):
            told = float((found[1] or found[2]).replace(",", ""))
        for kind, pattern in KINDS.items():
            if found := pattern.search(line):
                iteration, values = (
                    int(found[1]),
                    [float((each or "nan").replace(",", "")) for each in found.groups()[1:]],
                )
                if iteration <= 1 and any(kind != "evaluation" and at > iteration for kind, at, _ in runs[-1]):
                    runs.append([])
                    tokens.append(None)
                runs[-1].append((kind, iteration, values))
                tokens[-1] = told if kind != "evaluation" and tokens[-1] is None else tokens[-1]
    timed = [any(kind != "evaluation" for kind, _, _ in run) for run in runs]
    return [figures_of(run, count) for run, count, ok in zip(runs, tokens, timed, strict=True) if ok]


def figures_of(lines: list[Seen], tokens: float | None) -> Figures:
    rows = [(iteration, values) for kind, iteration, values in lines if kind in ("row", "chat")]
    evaluations = [(iteration, values[0]) for kind, iteration, values in lines if kind == "evaluation"]
    chat = any(kind == "chat" for kind, _, _ in lines)
    at = {iteration for iteration, _ in evaluations}
    times = [values[0] for _, values in rows]
    plain = [k for k, (iteration, _) in enumerate(rows) if k and (chat or iteration not in at)]
    found: Figures = {"rows": len(rows)}
    if plain:
        found["median_ms"] = median(times[k] for k in plain)
    found["evaluations"] = len({iteration for iteration in at if iteration > 0})
    cost = [] if chat else list(costs(rows, at, plain))
    if cost:
        found["evaluation_ms"] = median(cost)  # with its checkpoint
    if not chat and plain and (mfu := steady_mfu(rows, found["median_ms"])) is not None:
        found["steady_mfu"] = mfu
    if tokens and plain:
        found["tokens_per_s"] = tokens / found["median_ms"] * 1000
    vals = [val for _, val in evaluations if val == val]
    if vals:
        found["best_val"] = min(vals)
    return found


def costs(rows: Rows, at: set[int], plain: list[int]) -> Iterator[float]:
    """How much longer each evaluation row takes than the plain rows near it; the first row does not count."""
    for k, (iteration, values) in enumerate(rows):
        near = [rows[j][1][0] for j in plain if abs(j - k) <= 5]
        if k and iteration in at and near:
            yield values[0] - median(near)


def steady_mfu(rows: Rows, step_ms: float) -> float | None:
    """nanoGPT prints m_t = 0.9 m_(t-1) + 0.1 W / dt_t: the W that best fits the printed values, over a typical step."""
    above = below = inverse = known = 0.0
    begun = fresh = False
    for _, (ms, mfu) in rows:
        if not mfu > 0 or ms <= 0:
            begun, fresh = False, True
            continue
        if not begun:  # after -100%, the first value is the row's own; in an excerpt, it is already smoothed
            begun, inverse, known = True, 1 / ms if fresh else 0.0, 0.0
            known = 0.0 if inverse else mfu
        else:
            inverse, known = 0.9 * inverse + 0.1 / ms, 0.9 * known
        above += (mfu - known) * inverse
        below += inverse**2
    return above / below / step_ms / 100 if below else None


def told(diagnosis: Diagnosis) -> dict[str, float | None]:
    """The same figures from nanopace. Evaluations include their checkpoint, as the simple reader counts them."""
    evaluations, checkpoints = diagnosis.evaluations, diagnosis.checkpoints
    each = evaluations.each_ms
    if each is not None and not evaluations.contains_checkpoint and checkpoints.each_ms is not None:
        most_save = checkpoints.saved_rows > checkpoints.unsaved_rows
        each += checkpoints.each_ms if most_save and checkpoints.basis == "measured" else 0.0
    return {
        "rows": diagnosis.source.rows,
        "median_ms": diagnosis.step.median_ms,
        "evaluations": evaluations.count,
        "evaluation_ms": each,
        "steady_mfu": diagnosis.mfu.steady_printed,
        "tokens_per_s": diagnosis.throughput.tokens_per_s,
        "best_val": diagnosis.loss.best_val,
    }


def compared(simple: list[Figures], diagnoses: list[Diagnosis]) -> Iterator[tuple[str, float, float]]:
    """(name, simple reader's value, nanopace's value) of every figure that both have."""
    if len(simple) != len(diagnoses):
        yield "runs", len(simple), len(diagnoses)
    by_rows = {diagnosis.source.rows: diagnosis for diagnosis in diagnoses}
    for index, figures in enumerate(simple):
        same = by_rows.get(int(figures["rows"]))
        diagnosis = diagnoses[index] if len(diagnoses) == len(simple) else same
        if diagnosis is None:
            continue
        ours = told(diagnosis)
        for name, value in figures.items():
            if (our := ours[name]) is not None:
                yield name, value, our


def reasons(path: Path) -> dict[tuple[str, str], str]:
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {(row["log"], row["figure"]): row["reason"] for row in csv.DictReader(file)}


def logs_in(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        found += sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--explained", type=Path, default=EXPLAINED, metavar="CSV")
    args = parser.parse_args(argv)
    known = reasons(args.explained)
    logs = logs_in(args.folders)
    figures = disagreements = 0
    for log in logs:
        try:
            diagnoses = [diagnose(run) for run in open_runs(log)]
        except NanopaceError as error:
            print(f"refused   {error}")
            continue
        formats = {diagnosis.source.format for diagnosis in diagnoses}
        if not formats <= KNOWN:
            print(f"skipped   {log.name}: {', '.join(sorted(formats))}; see bench/foreign_logs.py")
            continue
        try:
            simple = read_simply(text_of(log))
        except (zlib.error, gzip.BadGzipFile) as error:
            print(f"unread    {log.name}: {error}")
            continue
        for name, theirs, ours in compared(simple, diagnoses):
            figures += 1
            if abs(ours - theirs) <= TOLERANCE * abs(theirs):
                continue
            why = known.get((log.name, name))
            disagreements += why is None
            said = f"{log.name}: {name}: {theirs:.6g} by the simple reader, {ours:.6g} by nanopace"
            print(f"explained {said} ({why})" if why else f"DIFFERS   {said}")
    print(f"{len(logs)} logs, {figures} figures compared, {disagreements} disagreements")
    return int(disagreements > 0)


if __name__ == "__main__":
    sys.exit(main())
