"""How often the 80% interval of the loss forecast contains the true loss, and how close the forecast is.

python bench/forecast.py                    # the trend, on simulated power laws with noise
python bench/forecast.py LOG [...]          # and on the curves of nanoGPT's logs, 1.5 times ahead
python bench/forecast.py CHECKOUT [--fit]   # the final loss, on a checkout of KellerJordan/modded-nanogpt
python bench/forecast.py --cosine DIR       # the final loss, on complete logs of build-nanogpt and llm.c
python bench/forecast.py --pairs DIR        # the final loss of one run, given another that is finished

Each complete log of a checkout is cut at 10 to 90% of its iterations, and its final validation loss is forecast from
that part as the report does. The law in diagnosis/loss/final_loss.py was fitted to the half "fit" (--fit repeats that,
starting with the present law) and is tested on the half "test"; all logs of a record are in one half.

DIR has a directory for each source of runs that follow a cosine. Each is forecast by the law that the others give.

With --pairs, DIR is a checkout or has a directory for each source of runs with the same schedule. Pairs are of runs of
one record, or of one source, with the same last iteration; one of the two is cut, and forecast as `compare` does it.

Most runs of modded-nanogpt end near 3.28, because a record is one that gets there. The law does not know that; "always
3.28" is what this guess would score on the same forecasts, and "ends elsewhere" are the runs for which it is wrong.
"""

from __future__ import annotations

import math
import random
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nanopace.diagnosis.compare.align import Curve
from nanopace.diagnosis.compare.outlook import end_of
from nanopace.diagnosis.loss.final_loss import COSINE, LINE, Law, final_loss, progress, width_at
from nanopace.diagnosis.loss.losses import describe_loss
from nanopace.diagnosis.loss.schedule import Cosine, Schedule, schedule_of
from nanopace.diagnosis.loss.trend import Band, fit_trend
from nanopace.errors import NanopaceError
from nanopace.record import replace
from nanopace.run import Run
from nanopace.sources.runs import open_runs

TRIALS = 400
FITTED_CUTS = (0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.65, 0.8, 0.9)  # fitted to four, it failed between them
SHOWN_CUTS = (0.1, 0.15, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9)
EARLIEST = 0.08  # of a run along a cosine: its constants come from the rest
NEAR = 0.03
GUESS = 3.28  # where a record of track 1 is complete
FEWEST = 5  # evaluations of a complete run
OF_A_RECORD = 4  # logs of one record that the law is fitted to
PAIRS = 60  # of one record, at most
FREEDOM = 6  # of the Student distribution in the score: a few runs are far from any law


# --- the trend -------------------------------------------------------------------------------------------------------


def simulated(points: int, factor: float) -> float:
    """The share of laws a + b t^-c whose evaluation at `factor` times the iterations was inside the interval."""
    rng = random.Random(points)
    held = 0
    for _ in range(TRIALS):
        floor, power, noise = rng.uniform(1.5, 3.2), rng.uniform(0.15, 0.8), rng.choice([0.003, 0.01, 0.03])
        scale = rng.uniform(0.5, 5) * 500**power
        iterations = [500 * k for k in range(1, points + 1)]
        trend = fit_trend(iterations, [floor + scale * t**-power + rng.gauss(0, noise) for t in iterations])
        assert trend is not None
        goal = iterations[-1] * factor
        band = trend.at(goal)
        held += band.low <= floor + scale * goal**-power + rng.gauss(0, noise) <= band.high
    return held / TRIALS


def looked_up(log: Path) -> tuple[int, int]:
    """Forecast 1.5 times ahead from every evaluation of a log: how many were inside the interval, and of how many."""
    found = re.findall(r"^step (\d+): .* val loss ([\d.]+)", log.read_text(errors="replace"), re.MULTILINE)
    curve = {int(iteration): float(val) for iteration, val in found if int(iteration) > 0}
    held = asked = 0
    for end in curve:
        past = [iteration for iteration in curve if iteration <= end]
        goal = round(end * 1.5 / past[0]) * past[0]
        trend = fit_trend(past, [curve[iteration] for iteration in past])
        if trend is not None and goal in curve:
            band = trend.at(goal)
            asked += 1
            held += band.low <= curve[goal] <= band.high
    return held, asked


def show_trend(logs: list[Path]) -> None:
    for points, factor in ((9, 1.5), (20, 1.5), (40, 1.5), (20, 2.0)):
        share = simulated(points, factor)
        print(f"{points:3} evaluations, {factor}x: the loss was inside the interval in {share:.1%} of {TRIALS} runs")
    totals = [0, 0]
    for log in logs:
        held, asked = looked_up(log)
        totals = [totals[0] + held, totals[1] + asked]
        print(f"{log.name}: {held} of {asked}")
    if logs:
        print(f"total: {totals[0]} of {totals[1]}")


# --- the final loss --------------------------------------------------------------------------------------------------


class Complete(NamedTuple):
    """A run that went on to its end."""

    kind: str
    record: str
    run: Run
    curve: list[tuple[int, float]]
    end: int

    @property
    def half(self) -> str:
        return "test" if zlib.crc32(self.record.encode()) % 2 else "fit"

    @property
    def final(self) -> float:
        return self.curve[-1][1]

    @property
    def schedule(self) -> Schedule | None:
        return schedule_of(self.run)

    def until(self, cut: float) -> list[tuple[int, float]]:
        return [(t, val) for t, val in self.curve if t <= cut * self.end]


def complete_runs(checkout: Path) -> Iterator[Complete]:
    root = checkout / "records"
    for path in sorted(root.rglob("*")):
        if path.suffix not in (".txt", ".log") or not path.is_file():
            continue
        try:
            runs = open_runs(path)
        except NanopaceError:
            continue
        parts = path.relative_to(root).parts
        record = "/".join(parts[: 3 if parts[1] == "results" else 2])
        for run in runs[:2]:
            curve = [(e.iteration, e.val) for e in run.evaluations if e.val is not None and e.metric == "loss"]
            end = int(run.number("max_iters") or 0)
            if len(curve) >= FEWEST and curve[-1][0] == end and math.isfinite(curve[-1][1]):
                yield Complete(_kind(run, parts[0]), record, run, curve, end)


def _kind(run: Run, folder: str) -> str:
    track = " ".join(folder.split("_")[:2])
    if any(each.code == "batch_scheduled" for each in run.caveats):
        return f"{track}, batch grows"
    return track if run.number("cooldown") is not None else f"{track}, schedule unknown"


def by_report(complete: Complete, cut: float) -> Band | None:
    """What a report says about the end of a run that has come this far."""
    until = cut * complete.end
    run = complete.run
    rows = sum(iteration <= until for iteration in run.rows.last_iteration)
    past = replace(
        run, rows=run.rows[:rows], evaluations=tuple(e for e in run.evaluations if e.iteration <= until), ending=None
    )
    found = [each for each in describe_loss(past)[0].forecast if each.iteration == complete.end]
    return Band(found[0].loss, found[0].low, found[0].high) if found else None


def by_trend(complete: Complete, cut: float) -> Band | None:
    """What the trend says, which ignores the schedule."""
    past = [point for point in complete.until(cut) if point[0] > 0]
    trend = fit_trend([t for t, _ in past], [val for _, val in past])
    return trend.at(complete.end) if trend else None


def show_final(runs: list[Complete], half: str, forecast: Callable[[Complete, float], Band | None]) -> None:
    kinds = {kind: [each for each in runs if each.half == half and each.kind == kind] for kind in _kinds(runs)}
    kinds["all"] = [each for each in runs if each.half == half]
    kinds["ends elsewhere"] = [each for each in runs if each.half == half and abs(each.final - GUESS) > NEAR]
    for kind, chosen in kinds.items():
        for cut in SHOWN_CUTS:
            told = [(each, band) for each in chosen if (band := forecast(each, cut)) is not None]
            print(f"{half:5} {kind:25} at {cut:3.0%} {len(told):4} of {len(chosen):4}{_figures(told) if told else ''}")


def _figures(told: list[tuple[Complete, Band]]) -> str:
    widths = sorted((band.high - band.low) / 2 for _, band in told)
    errors = sorted(abs(band.value - each.final) for each, band in told)
    inside = _shares([(each.record, band.low <= each.final <= band.high) for each, band in told])
    near = _shares([(each.record, abs(band.value - each.final) <= NEAR) for each, band in told])
    guess = _shares([(each.record, abs(GUESS - each.final) <= NEAR) for each, _ in told])
    middle = f"±{widths[len(widths) // 2]:.3f}, error {errors[len(errors) // 2]:.3f}"
    records = len({each.record for each, _ in told})
    return f"  {records:3} records  inside {inside} {middle}  within {NEAR} {near}  always {GUESS} {guess}"


def _kinds(runs: list[Complete]) -> list[str]:
    return sorted({each.kind for each in runs})


def _shares(held: list[tuple[str, bool]]) -> str:
    """The share of the runs, and the mean of the shares of each record."""
    records = defaultdict(list)
    for record, each in held:
        records[record].append(each)
    of_records = sum(sum(each) / len(each) for each in records.values()) / len(records)
    return f"{sum(each for _, each in held) / len(held):4.0%} ({of_records:4.0%})"


# --- fitting the law -------------------------------------------------------------------------------------------------


Records = list[list[tuple[Complete, Schedule]]]


def of_half(runs: list[Complete]) -> Records:
    """A few runs of each record of the half "fit"."""
    records: defaultdict[str, list[tuple[Complete, Schedule]]] = defaultdict(list)
    for each in runs:
        schedule = each.schedule
        plain = each.half == "fit" and "," not in each.kind and schedule is not None
        if plain and schedule and len(records[each.record]) < OF_A_RECORD:
            records[each.record].append((each, schedule))
    return [some for some in records.values() if some]


def fitted(records: Records, law: Law) -> Law:
    """Change one constant at a time, as long as that helps."""
    best = score(law, records)
    step = 0.1
    while step > 0.01:
        before = best
        for name in Law._fields:
            for factor in (1 + step, 1 / (1 + step)):
                tried = law._replace(**{name: getattr(law, name) * factor})
                if (found := score(tried, records)) < best:
                    law, best = tried, found
        if before - best < 1e-4:
            step /= 2
        print(f"score {best:.4f}, step {step}", flush=True)
    return law


def score(law: Law, records: Records) -> float:
    """The mean logarithmic score of the forecasts; every record and every cut has the same weight."""
    total, weight = dict.fromkeys(FITTED_CUTS, 0.0), dict.fromkeys(FITTED_CUTS, 0.0)
    for record in records:
        for complete, schedule in record:
            for cut in FITTED_CUTS:
                band = final_loss(complete.until(cut), schedule, law, narrowest=0.0)  # a limit of the report
                if band is None:
                    continue
                factor = width_at(schedule, progress(schedule, complete.until(cut)[-1][0]))
                scale = math.log(band.high / band.low) / 2 / factor * math.sqrt((FREEDOM - 2) / FREEDOM)
                error = math.log(complete.final / band.value) / scale
                total[cut] += (math.log(scale) + (FREEDOM + 1) / 2 * math.log1p(error**2 / FREEDOM)) / len(record)
                weight[cut] += 1 / len(record)
    return sum(total[cut] / weight[cut] for cut in FITTED_CUTS if weight[cut]) / len(FITTED_CUTS)


# --- cosines ---------------------------------------------------------------------------------------------------------


def along_cosines(directory: Path) -> Iterator[tuple[Complete, Schedule]]:
    """The complete runs below a directory, each with the cosine that its rates show, or build-nanogpt's."""
    for path in sorted(each for each in directory.rglob("*") if each.is_file()):
        runs = open_runs(path)
        end = max(each.iteration for each in runs[0].evaluations)
        run = open_runs(path, overrides={"max_iters": end})[0]  # build-nanogpt and llm.c's main.log do not print it
        curve = [(e.iteration, e.val) for e in run.evaluations if e.metric == "loss" and e.val and math.isfinite(e.val)]
        schedule = schedule_of(run) if run.rates else Cosine(end, 715, 0.1)
        if isinstance(schedule, Cosine):
            yield Complete("cosine", path.relative_to(directory).parts[0], run, curve, end), schedule
        else:
            print(f"{path}: no cosine")


def show_cosines(directory: Path) -> None:
    sources = defaultdict(list)
    for complete, schedule in along_cosines(directory):
        sources[complete.record].append((complete, schedule))
    every = list(sources.values())
    print(f"all: {averaged(every)}")
    laws = {name: averaged([runs for runs in every if runs is not left_out]) for name, left_out in sources.items()}
    print("forecasts of each source by the law that comes from the others; then the trend")
    runs = [each for some in every for each in some]
    for cut in SHOWN_CUTS:
        bands = [(each, final_loss(each.until(cut), schedule, laws[each.record])) for each, schedule in runs]
        _show_cosine("law", cut, [(each, band) for each, band in bands if band is not None], len(runs))
    for cut in SHOWN_CUTS:
        told = [(each, band) for each, _ in runs if (band := by_trend(each, cut)) is not None]
        _show_cosine("trend", cut, told, len(runs))


def _show_cosine(kind: str, cut: float, told: list[tuple[Complete, Band]], of: int) -> None:
    print(f"cosine, {kind:5} at {cut:3.0%} {len(told):4} of {of:4}{_figures(told) if told else ''}")


def averaged(sources: Records) -> Law:
    """Slope and drop by least squares in each run: their means and their spreads. Every source has the same weight."""
    found, weights = [], []
    for runs in sources:
        for complete, schedule in runs:
            late = [(t, val) for t, val in complete.curve if t >= EARLIEST * complete.end]
            xs = [progress(schedule, t) for t, _ in late]
            slopes = [(math.pow(x, -COSINE.power) - 1) / COSINE.power for x in xs]
            parts = np.array([[1.0, slope, 1 - schedule.rate(t)] for slope, (t, _) in zip(slopes, late, strict=True)])
            found.append(np.linalg.lstsq(parts, np.log([val for _, val in late]), rcond=None)[0][1:])
            weights.append(1 / len(runs))
    mean = np.average(found, axis=0, weights=weights)
    spread = np.sqrt(np.average((found - mean) ** 2, axis=0, weights=weights))
    names = ("slope", "drop", "slope_spread", "drop_spread")
    return COSINE._replace(**dict(zip(names, map(float, (*mean, *spread)), strict=True)))


# --- pairs -----------------------------------------------------------------------------------------------------------


def runs_of_sources(directory: Path) -> Iterator[Complete]:
    """All runs below a directory, whose sub-directories are the sources."""
    for path in sorted(each for each in directory.rglob("*") if each.is_file()):
        try:
            runs = open_runs(path)
        except NanopaceError:
            continue
        source = path.relative_to(directory).parts[0]
        for run in runs:
            curve = [(e.iteration, e.val) for e in run.evaluations if e.metric == "loss" and e.val]
            if len(curve) >= FEWEST and math.isfinite(curve[-1][1]):
                yield Complete(source, f"{path.parent}" if len(runs) == 1 else f"{path}", run, curve, curve[-1][0])


def show_pairs(directory: Path) -> None:
    checkout = (directory / "records").is_dir()
    groups: defaultdict[tuple[str, str, int], list[Complete]] = defaultdict(list)
    for each in complete_runs(directory) if checkout else runs_of_sources(directory):
        kind = f"{each.kind.partition(',')[0]} {each.half}" if checkout else each.kind
        groups[kind, each.record if checkout else "", each.end].append(each)
    rng = random.Random(1)
    pairs: defaultdict[str, list[tuple[Complete, Complete]]] = defaultdict(list)
    for (kind, _, _), runs in sorted(groups.items()):
        every = [(one, other) for one in runs for other in runs if one is not other]
        pairs[kind] += rng.sample(every, min(PAIRS, len(every)))
    for kind, chosen in pairs.items():
        for cut in SHOWN_CUTS:
            told = [(other, band) for one, other in chosen if (band := by_other(one, other, cut)) is not None]
            print(f"{kind:25} at {cut:3.0%} {len(told):4} of {len(chosen):4}{_figures(told) if told else ''}")


def by_other(finished: Complete, running: Complete, cut: float) -> Band | None:
    """What `compare` says about the end of a run that has come this far, given a finished one."""
    past = running.until(cut)
    return end_of(Curve.through(finished.curve), Curve.through(past)) if past else None


def main() -> None:
    names = [Path(name) for name in sys.argv[1:] if not name.startswith("--")]
    for flag, show in (("--cosine", show_cosines), ("--pairs", show_pairs)):
        if flag in sys.argv:
            show(names[0])
            return
    show_trend([name for name in names if name.is_file()])
    for checkout in (name for name in names if name.is_dir()):
        runs = list(complete_runs(checkout))
        if "--fit" in sys.argv:
            print(fitted(of_half(runs), LINE))
            return
        print("forecasts of runs; shares of the runs (means over the records); half of the median width; median error")
        for half in ("fit", "test"):
            show_final(runs, half, by_report)
        print("the trend, which ignores the schedule:")
        show_final(runs, "test", by_trend)


if __name__ == "__main__":
    main()
