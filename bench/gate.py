"""How often `nanopace gate NEW BASE --slower 1%` finds a slowdown of 1%, and how often it gives a false alarm.

python bench/gate.py [TRIALS]             # simulated runs with several kinds of noise
python bench/gate.py [TRIALS] DIR ...     # real runs: each directory holds logs of the same code, compared in pairs

Each column shows how many of a hundred pairs of runs are called slower, not slower, or undecided. `enough` is the share
of undecided pairs that get an answer with as many rows as the gate asks for. Decision 41 quotes these figures.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

from nanopace.diagnosis.compare.gate import Check, Limits, judge
from nanopace.diagnosis.compare.slowdown import Sample, sample
from nanopace.diagnosis.time.rows import find_pace
from nanopace.errors import NanopaceError
from nanopace.run import Row, Rows, Run
from nanopace.sources.runs import find_logs, open_runs

TRIALS = 200
LIMIT = 0.01
MOST_ROWS = 4000  # to simulate when testing whether they are enough
ANSWERS = ("failed", "passed", "unknown")


class Kind(NamedTuple):
    """One kind of pair; fractions are relative to a step of 100 ms."""

    name: str
    rows: int = 200
    noise: float = 0.005
    alike: float = 0.0  # correlation of neighbouring rows
    outliers: float = 0.0  # share of rows that take up to 60% longer
    digit_ms: float = 0.01
    run_to_run: float = 0.0
    shape: Callable[[float], float] = lambda _: 0.0  # of both runs, as a function of progress
    of_new: Callable[[float], float] = lambda _: 0.0  # of the new run only


KINDS = (
    *(Kind(f"noise 0.5%, {rows} rows", rows) for rows in (30, 50, 100, 200, 500)),
    *(Kind(f"noise {noise:.1%}, 200 rows", noise=noise) for noise in (0.001, 0.01, 0.02)),
    *(Kind(f"noise 0.5%, neighbours alike by {alike}", alike=alike) for alike in (0.3, 0.5, 0.8, 0.9, 0.95)),
    Kind("  the last one, 1000 rows", 1000, alike=0.95),
    Kind("noise 3%, neighbours alike by 0.98", 300, 0.03, alike=0.98),
    Kind("5% of the rows are outliers", outliers=0.05),
    Kind("runs of one code differ by 0.1%", run_to_run=0.001),
    Kind("both drift by 3%", shape=lambda at: 0.03 * at),
    Kind("both warm up by 3%", shape=lambda at: 0.03 * (1 - math.exp(-5 * at))),
    Kind("both jump by 30%", shape=lambda at: 0.3 * (at > 0.4)),
    Kind("NEW jumps by 5% halfway", of_new=lambda at: 0.05 * (at > 0.5)),
    Kind("NEW drifts by 3%", of_new=lambda at: 0.03 * at),
    Kind("printed in whole ms", digit_ms=1.0),
    Kind("printed in whole ms, noise 0.05%", noise=0.0005, digit_ms=1.0),
)


def simulated(kind: Kind, rng: random.Random, slower: float, rows: int, *, new: bool) -> Run:
    """One run; its first row is the start-up."""
    times, state = [500.0], rng.gauss(0, 1)
    level = math.log(100 * (1 + slower)) + kind.run_to_run * rng.gauss(0, 1)
    for row in range(rows):
        at = row / rows
        step = math.exp(level + kind.noise * state + kind.shape(at) + (kind.of_new(at) if new else 0.0))
        if rng.random() < kind.outliers:
            step *= 1 + rng.uniform(0.02, 0.6)
        times.append(round(step / kind.digit_ms) * kind.digit_ms)
        state = kind.alike * state + math.sqrt(1 - kind.alike**2) * rng.gauss(0, 1)
    return Run("simulated", "nanogpt", Rows([Row(10 * number, ms) for number, ms in enumerate(times)]))


def asked(new: tuple[Run, Sample], base: tuple[Run, Sample]) -> Check:
    return judge(new, base, Limits(slower=LIMIT), None).checks[0]


def trial(kind: Kind, rng: random.Random, slower: float, rows: int) -> Check:
    new, base = simulated(kind, rng, slower, rows, new=True), simulated(kind, rng, 0.0, rows, new=False)
    return asked((new, sample(new, find_pace(new))), (base, sample(base, find_pace(base))))


def operating_characteristics(kind: Kind, trials: int) -> str:
    columns, again = [], []
    for slower in (LIMIT, 0.0, LIMIT / 2):
        rng = random.Random(f"{kind.name} {slower}")
        checks = [trial(kind, rng, slower, kind.rows) for _ in range(trials)]
        counted = Counter(check.answer for check in checks)
        columns.append(" ".join(f"{100 * counted[answer] / trials:5.1f}" for answer in ANSWERS))
        for check in checks[:60]:
            more: Any = check.numbers.get("rows_more")
            if more is not None and more + kind.rows <= MOST_ROWS:
                again.append(trial(kind, rng, slower, kind.rows + more).answer != "unknown")
    enough = f"{100 * sum(again) / len(again):4.0f} of {len(again)}" if again else "       –"
    return f"{kind.name:38} | " + " | ".join(columns) + f" | {enough}"


def real(directory: Path) -> tuple[str, Counter[str], Counter[str]]:
    """Every run of a directory against every other: unchanged, and with the new one slowed down by the limit."""
    runs = []
    for log in find_logs(directory):
        try:
            runs += [run for run in open_runs(log) if len(run.rows) > 1]
        except NanopaceError:
            continue
    samples = [(run, sample(run, find_pace(run))) for run in runs]
    same: Counter[str] = Counter()
    slowed: Counter[str] = Counter()
    for (run, new), base in permutations(samples, 2):
        same[asked((run, new), base).answer] += 1
        slower = new._replace(log_ms=[each + math.log1p(LIMIT) for each in new.log_ms])
        slowed[asked((run, slower), base).answer] += 1
    return f"{directory.name:38}", slowed, same


def main(arguments: Sequence[str]) -> None:
    trials = int(arguments[0]) if arguments and arguments[0].isdigit() else TRIALS
    directories = [Path(each) for each in arguments if not each.isdigit()]
    titles = " | ".join(f"{title:17}" for title in ("1% slower", "same speed", "0.5% slower"))
    print(f"{f'{trials} pairs of runs per cell':38} | {titles} | enough")
    print(f"{'':38} | " + " | ".join(["slow   not   ?   "] * 3) + " |")
    if not directories:
        for kind in KINDS:
            print(operating_characteristics(kind, trials), flush=True)
    for directory in directories:
        name, *columns = real(directory)
        print(f"{name} | " + " | ".join(" ".join(f"{column[each]:5}" for each in ANSWERS) for column in columns))


if __name__ == "__main__":
    main(sys.argv[1:])
