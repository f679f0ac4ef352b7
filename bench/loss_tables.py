"""The results of time_to_loss.py as tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

Record = Mapping[str, Any]  # a line of results.jsonl


def show_all(records: Sequence[Record], target: float | None) -> None:
    """Print a table for each corpus, card and model: times and losses are only comparable within one."""
    groups: dict[tuple[str, ...], list[Record]] = {}
    for each in records:
        groups.setdefault((each["card"], each["torch"], each["corpus"], each["shared"]), []).append(each)
    for (card, torch, corpus, shared), found in groups.items():
        print(f"\n{card}, torch {torch}, corpus {corpus}, {shared}")
        if any("documents" in each for each in found):
            show_beside_modded(found)
        else:
            show(found, target)


def show(records: Sequence[Record], target: float | None) -> None:
    """Print every run, and then every setting over its seeds, compared with the first setting."""
    runs: dict[tuple[str, str], list[Record]] = {}
    for each in records:
        runs.setdefault((each["trainer"], each["setting"]), []).extend([] if "failed" in each else [each])
    first = next(iter(runs.values()), [])
    goal = target if target is not None else fmean(each["loss"] for each in first) if first else None
    width = 2 + max((len(setting) for _, setting in runs), default=0)
    head = f"{'trainer':10}{'setting':{width}}"
    print(f"\n{head}{'seed':>6}{'steps':>7}{'Mtokens':>9}{'seconds':>9}{'val loss':>18}{'vs. first':>19}{'reached':>8}")
    for each in (each for each in records if "failed" not in each):
        there = None if goal is None else reached_after(each, goal)
        paired = _paired(each, records[0])
        print(
            f"{each['trainer']:10}{each['setting']:{width}}{each['seed']:6}{each['steps']:7}"
            f"{each['tokens'] / 1e6:9.2f}{each['seconds']:9.1f}{_with_error(each['loss'], each['error']):>18}"
            f"{'' if paired is None else _with_error(*paired):>19}"
            f"{'' if there is None else f'{there:.1f}':>8}"
        )
    print(f"\n{head}{'seeds':>6}{'Mtokens':>9}{'seconds':>16}{'val loss':>18}{'time ratio':>13}{'goal':>8}")
    for (trainer, setting), found in runs.items():
        if found:
            seconds, losses = [each["seconds"] for each in found], [each["loss"] for each in found]
            share = f"{fmean(seconds) / fmean(each['seconds'] for each in first):.3f}" if first else ""
            holds = "" if goal is None else "met" if fmean(losses) <= goal else "missed"
            print(
                f"{trainer:10}{setting:{width}}{len(found):6}{fmean(each['tokens'] for each in found) / 1e6:9.2f}"
                f"{_spread(seconds, 1):>16}{_spread(losses, 4):>18}{share:>13}{holds:>8}"
            )
    _show_failed(records)
    wanted = "the first setting failed, so there is no goal" if goal is None else f"goal: {goal:.4f}"
    print(f"\n{wanted}. seconds: from the first step, with evaluations and checkpoints, without compilation.")
    print("±: for one run, the standard error over windows; for several seeds, their standard deviation. vs. first:")
    print("difference from the first run, window by window. reached: seconds until the run's own evaluations, or its")
    print("last weights, reach the goal. time ratio: relative to the first setting.")


def show_beside_modded(records: Sequence[Record]) -> None:
    """Print every run with both evaluations, the means over seeds, and when each trainer reaches the others' losses."""
    done = [each for each in records if "failed" not in each]
    width = 2 + max((len(each["setting"]) for each in done), default=0)
    print(
        f"\n{'trainer':15}{'setting':{width}}{'seed':>6}{'steps':>7}{'Mtokens':>9}{'training':>10}{'command':>9}"
        f"{'windows':>18}{'documents':>11}{'GiB':>7}"
    )
    for each in done:
        peak, documents = each.get("peak_bytes"), each.get("documents")
        print(
            f"{each['trainer']:15}{each['setting']:{width}}{each['seed']:6}{each['steps']:7}"
            f"{each['tokens'] / 1e6:9.2f}{each['seconds_of_steps']:10.1f}{each['process_seconds']:9.1f}"
            f"{_with_error(each['loss'], each['error']):>18}{'' if documents is None else f'{documents:.4f}':>11}"
            f"{'' if not peak else f'{peak / 2**30:.1f}':>7}"
        )
    means = horizons(done)
    print(f"\n{'mean of the seeds':{15 + width}}{'seeds':>6}{'training':>26}{'windows':>27}{'documents':>18}")
    for trainer, each in ((trainer, each) for trainer, found in means.items() for each in found):
        print(
            f"{trainer:15}{each.setting:{width}}{len(each.seconds):6}{_spread(each.seconds, 1):>26}"
            f"{_spread(each.windows, 4):>27}{_spread(each.documents, 4) if each.documents else '':>18}"
        )
    _show_failed(records)
    print("\ntraining: seconds of steps alone, without compilation and evaluations. command: seconds until the last")
    print("evaluation. windows: loss by our evaluator, ± its standard error, or the standard deviation of the seeds.")
    print("documents: loss on whole documents, for modded-nanogpt by its own evaluation, for nanopace with as much")
    print("context as it was trained on.")
    for each in done:
        for reach, loss in each.get("documents_by_reach", {}).items():
            print(f"{each['trainer']} {each['setting']} seed {each['seed']}: {loss:.4f} with {reach} tokens of context")
    _show_arrivals(means)


def _show_arrivals(means: Mapping[str, Sequence[Horizon]]) -> None:
    ours = means.get("nanopace", [])
    print(
        "\nWhen nanopace reaches the mean losses of the others: seconds of steps, and their share of the other's time."
    )
    print("Between two of its own runs, the time is interpolated, linearly in its logarithm.")
    for trainer, each in ((name, each) for name, found in means.items() if name != "nanopace" for each in found):
        curves = {
            "windows": (each.windows, [(fmean(own.seconds), fmean(own.windows)) for own in ours]),
            "documents": (
                each.documents,
                [(fmean(own.seconds), fmean(own.documents)) for own in ours if own.documents],
            ),
        }
        for kind, (goals, curve) in curves.items():
            if goals:
                said = _arrival(curve, fmean(goals), fmean(each.seconds))
                print(f"{trainer} {each.setting}, {kind} {fmean(goals):.4f}: {said}")


@dataclass(frozen=True, slots=True)
class Horizon:
    """One setting of a trainer over its seeds."""

    setting: str
    seconds: list[float]
    windows: list[float]
    documents: list[float]


def horizons(done: Sequence[Record]) -> dict[str, list[Horizon]]:
    """The settings of each trainer, the shortest first."""
    found: dict[str, dict[str, Horizon]] = {}
    for each in done:
        setting = found.setdefault(each["trainer"], {}).setdefault(
            each["setting"], Horizon(each["setting"], [], [], [])
        )
        setting.seconds.append(each["seconds_of_steps"])
        setting.windows.append(each["loss"])
        if each.get("documents") is not None:
            setting.documents.append(each["documents"])
    return {
        trainer: sorted(settings.values(), key=lambda each: fmean(each.seconds)) for trainer, settings in found.items()
    }


def arrival(curve: Sequence[tuple[float, float]], goal: float) -> tuple[float, bool] | None:
    """When a curve of (seconds, loss) reaches a loss, and whether that is interpolated; None: it does not. A longer run
    with a higher loss than a shorter one does not count."""
    before: tuple[float, float] | None = None
    for seconds, loss in sorted(curve):
        if loss <= goal:
            if before is None or loss == goal:
                return seconds, False
            share = (before[1] - goal) / (before[1] - loss)
            return before[0] * (seconds / before[0]) ** share, True
        if before is None or loss < before[1]:
            before = seconds, loss
    return None


def _arrival(curve: Sequence[tuple[float, float]], goal: float, theirs: float) -> str:
    found = arrival(curve, goal)
    if found is None:
        return "not reached"
    seconds, between = found
    return f"{seconds:.1f} s, {seconds / theirs:.2f} ({'interpolated' if between else 'the end of a run'})"


def _show_failed(records: Sequence[Record]) -> None:
    for each in records:
        if "failed" in each:
            print(f"FAILED: {each['trainer']} {each['setting']} seed {each['seed']}: {each['failed']}")


def reached_after(record: Record, goal: float) -> float | None:
    """When the run's own evaluations reached the goal, or its end, if its last weights reach it on all windows."""
    seen = [each["seconds"] for each in record["evaluations"] if each["loss"] <= goal]
    return min([*seen, *([record["seconds"]] if record["loss"] <= goal else [])], default=None)


def _paired(record: Record, first: Record) -> tuple[float, float] | None:
    """The difference from the first run, window by window, and its standard error."""
    if record is first or len(record.get("losses", ())) != len(first.get("losses", ())) or not first.get("losses"):
        return None
    differences = [own - other for own, other in zip(record["losses"], first["losses"], strict=True)]
    return fmean(differences), stdev(differences) / math.sqrt(len(differences))


def _with_error(value: float, error: float) -> str:
    return f"{value:.4f} ± {error:.4f}"


def _spread(values: Sequence[float], digits: int) -> str:
    return f"{fmean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")
