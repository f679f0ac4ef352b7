"""How often the 80% interval for the time left contains the true value, and how wide it is.

python bench/eta.py                   # simulated runs
python bench/eta.py FOLDER [...]      # also real logs; up to four per record of a KellerJordan/modded-nanogpt checkout

Each log that is long enough is cut at 10, 25, 50 and 80% of its iterations, with `max_iters` set to where it really
ended. The time that was left, on the log's own wall clock as the diagnosis computes it, should be inside the interval.
The constants in diagnosis/time/time_left.py were fitted to the half "fit" and are tested on the half "test"; all logs
of one directory are in the same half. Logs with restarts, which cannot be forecast, or fewer than 20 rows are left out.

Simulated runs are steady, drift, throttle (the card is slower for a while now and then) or stall. "shocks" are the runs
of tests/evidence, whose speed changes once or twice by up to 2.2 times without warning.
"""

from __future__ import annotations

import math
import random
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nanopace.diagnosis.result import Ahead
from nanopace.diagnosis.time.rows import find_pace
from nanopace.diagnosis.time.slow_rows import break_down_rows
from nanopace.diagnosis.time.time_left import look_ahead
from nanopace.diagnosis.time.wall_time import account
from nanopace.errors import NanopaceError
from nanopace.record import replace
from nanopace.run import Evaluation, Fact, Row, Rows, Run
from nanopace.sources.runs import open_runs

CUTS = (0.1, 0.25, 0.5, 0.8)
MADE_UP = ("steady", "drift", "throttle", "stall")
RUNS = 200  # of each simulated kind
A_FOLDER = 4  # logs per folder: those of one record are alike
FEWEST_ROWS = 20
LARGEST = 8_000_000  # bytes


class Forecast(NamedTuple):
    cut: float
    held: bool | None  # None: no interval
    width: float  # of the interval, relative to the forecast time left


def forecasts(run: Run) -> Iterator[Forecast]:
    if len(run.rows) < FEWEST_ROWS or run.restarts or run.rollbacks or max(run.rows.count) > 1:
        return
    end_s = _looked_ahead(run)[1]
    first, last = run.rows.iteration[0], run.rows.last_iteration[-1]
    for cut in CUTS:
        rows = sum(iteration <= first + cut * (last - first) for iteration in run.rows.last_iteration)
        if rows < 2:
            continue
        ahead, _ = _looked_ahead(_cut(run, rows, last))
        left_s = end_s[-1] - end_s[rows - 1]
        if ahead.eta_low_s is None or ahead.eta_high_s is None or not ahead.eta_s:
            yield Forecast(cut, None, math.nan)
        else:
            width = (ahead.eta_high_s - ahead.eta_low_s) / ahead.eta_s
            yield Forecast(cut, ahead.eta_low_s <= left_s <= ahead.eta_high_s, width)


def _looked_ahead(run: Run) -> tuple[Ahead, list[float]]:
    pace = find_pace(run)
    breakdown = break_down_rows(run, pace)
    wall, _, clock = account(run, pace, breakdown)
    return look_ahead(run, pace, breakdown, wall, clock), list(clock.row_end_s)


def _cut(run: Run, rows: int, max_iters: int) -> Run:
    """The run as it was after `rows` rows."""
    last = run.rows.last_iteration[rows - 1]
    return replace(
        run,
        rows=run.rows[:rows],
        evaluations=tuple(each for each in run.evaluations if each.iteration <= last and (each.row or 0) < rows),
        checkpoints=tuple(each for each in run.checkpoints if each.iteration <= last and (each.row or 0) < rows),
        spans=tuple(each for each in run.spans if each.iteration <= last),
        facts={**run.facts, "max_iters": Fact(max_iters, "flag")},
        ending=None,
        wall_ms=None,
    )


def made_up(kind: str, seed: int) -> Run:
    """A simulated run with nanoGPT's rows, whose times include evaluations."""
    dice = random.Random(f"{kind} {seed}")
    count, interval = dice.choice((300, 1000, 3000)), dice.choice((10, 25, 50))
    step_ms, noise, evaluation = 10 ** dice.uniform(1, 4), dice.choice((0.002, 0.01, 0.03)), dice.uniform(0.5, 30)
    drift = dice.uniform(-0.05, 0.15) if kind == "drift" else 0.0
    hotter, dwell = dice.uniform(0.05, 0.4), dice.uniform(0.01, 0.1) * count
    stalls = dice.uniform(3, 30) / count if kind == "stall" else 0.0
    rows, evaluations, hot = Rows(), [], False
    for at in range(count + 1):
        hot ^= kind == "throttle" and dice.random() < 1 / dwell
        steps = (1 + drift * at / count) * (1 + hotter * hot) * math.exp(dice.gauss(0, noise))
        steps += dice.random() < stalls and 10 ** dice.uniform(0, 2)
        if at % interval == 0:
            steps += evaluation * math.exp(dice.gauss(0, 0.02))
            evaluations.append(Evaluation(at, 3.0, 3.0, row=at))
        rows.append(Row(at, step_ms * (steps + (at == 0) * 20), 3.0))
    return Run(kind, "nanogpt", rows, evaluations=tuple(evaluations))


def logs(folder: Path) -> Iterator[tuple[str, str, Run]]:
    """The kind, the group of similar runs, and the run."""
    records = folder / "records"
    taken: defaultdict[Path, int] = defaultdict(int)
    for path in sorted((records if records.is_dir() else folder).rglob("*")):
        if not path.is_file() or path.stat().st_size > LARGEST:
            continue
        if records.is_dir():
            if path.suffix not in (".txt", ".log") or taken[path.parent] == A_FOLDER:
                continue
            taken[path.parent] += 1
        try:
            runs = open_runs(path)
        except NanopaceError:
            continue
        group = str(path.parent.relative_to(folder)) if records.is_dir() else path.name
        for run in runs[:2]:
            yield "records" if records.is_dir() else "other logs", group, run


def everything() -> Iterator[tuple[str, str, Run]]:
    for kind in MADE_UP:
        for seed in range(RUNS):
            yield kind, f"{kind} {seed}", made_up(kind, seed)
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.evidence.judging import read
    from tests.evidence.plan import drawn
    from tests.evidence.truth import trained

    for seed in range(4 * RUNS):
        plan = drawn(seed)
        if plan.cut == "none" and not plan.restarts and not plan.ending:
            yield "shocks", f"shocks {seed}", read(trained(plan))[0]
    for name in sys.argv[1:]:
        yield from logs(Path(name))


def main() -> None:
    found: defaultdict[tuple[str, str, float], list[Forecast]] = defaultdict(list)
    for kind, group, run in everything():
        half = "test" if zlib.crc32(group.encode()) % 2 else "fit"
        for each in forecasts(run):
            found[half, kind, each.cut].append(each)
    print("share inside the interval ± half its median width, relative to the time left (with an interval; without)")
    print(f"{'':22}" + "".join(f"{f'at {cut:.0%}':>30}" for cut in CUTS))
    for half in ("fit", "test"):
        kinds = dict.fromkeys(kind for of, kind, _ in found if of == half)
        for kind in kinds:
            print(f"{half:5} {kind:16}" + "".join(_shown(found[half, kind, cut]) for cut in CUTS))
        real = [k for k in kinds if k != "shocks"]
        shares = [_share(found[half, kind, cut]) for kind in real for cut in CUTS]
        known = [share for share in shares if share is not None]
        print(f"{half:5} all but shocks, each kind and cut weighted equally: {sum(known) / len(known):.1%}")


def _share(forecasts: list[Forecast]) -> float | None:
    told = [each.held for each in forecasts if each.held is not None]
    return sum(told) / len(told) if told else None


def _shown(forecasts: list[Forecast]) -> str:
    told = sorted(each.width for each in forecasts if each.held is not None)
    share = _share(forecasts)
    if share is None:
        return f"{'-':>30}"
    return f"{f'{share:.0%} ±{told[len(told) // 2] / 2:.1%} ({len(told)}; {len(forecasts) - len(told)})':>30}"


if __name__ == "__main__":
    main()
