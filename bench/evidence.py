"""Simulates many runs with a known truth, explains and compares them, and counts false sentences.

python bench/evidence.py --runs 10000           # and a tenth as many pairs
python bench/evidence.py --seed 4711            # one run: its log, and its false sentences

tests/evidence defines what makes a sentence false, and runs a sample with the other tests.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.evidence.judging import judged, judged_pair
from tests.evidence.plan import drawn
from tests.evidence.truth import trained


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, help="default: one tenth of --runs")
    parser.add_argument("--from", type=int, default=0, dest="first", help="first seed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, help="show only this run")
    args = parser.parse_args()
    if args.seed is not None:
        print(trained(drawn(args.seed)).text, end="")
        for code, why in judged(args.seed):
            print(f"{code}: {why}", file=sys.stderr)
        return 0
    pairs = args.runs // 10 if args.pairs is None else args.pairs
    work = [("run", seed) for seed in range(args.first, args.first + args.runs)]
    work += [("pair", seed) for seed in range(args.first, args.first + pairs)]
    start = time.monotonic()
    with multiprocessing.Pool(args.workers) as pool:
        found = list(pool.imap(_judged, work, chunksize=50))
    counted = _printed(found)
    print(f"{counted:,} false sentences in {args.runs:,} runs and {pairs:,} pairs ({time.monotonic() - start:.0f} s)")
    return int(counted > 0)


def _judged(job: tuple[str, int]) -> tuple[str, int, list[tuple[str, str]]]:
    kind, seed = job
    try:
        return kind, seed, judged(seed) if kind == "run" else judged_pair(seed)
    except Exception as error:  # a crash is worse than a false sentence: report its seed as well
        return kind, seed, [("crash", f"{type(error).__name__}: {error}")]


def _printed(found: list[tuple[str, int, list[tuple[str, str]]]]) -> int:
    """Print the false sentences by code, most frequent first, each with its first seed; return their number."""
    by_code: dict[str, list[str]] = {}
    for kind, seed, false in found:
        for code, why in false:
            by_code.setdefault(code, []).append(f"{kind} {seed}: {why}")
    for code, cases in sorted(by_code.items(), key=lambda item: -len(item[1])):
        print(f"{len(cases):7,} {code:28} {cases[0]}")
    return sum(map(len, by_code.values()))


if __name__ == "__main__":
    sys.exit(main())
