"""Trials within a time budget. Each result is stored, so that a second call continues where the first one ended."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nanopace.ledger import RunEvent
from nanopace.literals import Value
from nanopace.tune.results import keep_result, kept_results
from nanopace.tune.search.micro_batch_search import Probe
from nanopace.tune.trial import Outcome, data_share, introduction, run_trial, settings_of_trial

PILOT_STEPS = 6
_FEWEST_STEPS, _MOST_STEPS = 6, 40
_SHARE = 1 / 30  # of the budget: the most that the steps of one trial may take
_GOOD = 0.01  # the error of a trial that is long enough
_CHEAP = 1 / 4  # of the time before the steps: they may always take this long
_CAUTION = 1.2  # trials take about as long as those before

Changed = Mapping[str, Value]  # knobs, compared with the given config


@dataclass(frozen=True, slots=True)
class Tried:
    """One trial and its outcome. `number` counts those of the same setting."""

    changed: Changed
    number: int
    outcome: Outcome


class TrialRunner:
    """Runs trials of one config and of changes to it."""

    def __init__(
        self, given: Changed | None, folder: Path, budget_s: float, tell: Callable[[Tried], None] = lambda _: None
    ) -> None:
        """`given` is None if the machine decides; its decisions are known after the first trial."""
        self._given, self.folder, self._tell = given, folder, tell
        self._budget_s, self._begin = budget_s, time.monotonic()
        self._kept = read_results(folder)
        self._steps = PILOT_STEPS
        self._recent, self._guessed = [0.0], True  # seconds of trials
        self.tried: list[Tried] = []

    @property
    def left_s(self) -> float:
        return self._budget_s - (time.monotonic() - self._begin)

    @property
    def trial_s(self) -> float:
        """How long a trial may take, judging by those before."""
        return max(self._recent) * _CAUTION

    def affords(self, changed: Changed, others: int = 0, extra_s: float = 0.0) -> bool:
        """Whether one more trial of this setting, and `others` more, would finish within the budget. Stored results
        cost nothing."""
        return self._next(changed) in self._kept or (1 + others) * self.trial_s + extra_s <= self.left_s

    def run(self, changed: Changed) -> Outcome:
        """Run one more trial of this setting."""
        number = self._count(changed)
        outcome = self._kept.get(self._next(changed))
        if outcome is None:
            outcome = self._run(changed, number)
            if outcome.failure != "time":  # next time, there may be more of it
                keep_result(self.folder, dict(changed), number, outcome)
        if outcome.worked and outcome.step_ms:
            self._learn(outcome)
        self.tried.append(Tried(changed, number, outcome))
        self._tell(self.tried[-1])
        return outcome

    def rates(self, changed: Changed, since: int = 0) -> list[float]:
        """Tokens per second of the finished trials of this setting, leaving out the first `since` of all trials."""
        found = (each.outcome.tokens_per_second for each in self.tried[since:] if each.changed == changed)
        return [rate for rate in found if rate]

    def use_config(self, given: Changed) -> None:
        """Continue as if this config, which the machine chose, had been given."""
        self._given = given

    def introduced(self, changed: Changed) -> RunEvent | None:
        """What the first trial of a setting reports about config and card, and about the trainer's choices."""
        return introduction(self._folder_of(changed, 0))

    def data_share(self, changed: Changed) -> float | None:
        return data_share(self._folder_of(changed, 0))

    def _run(self, changed: Changed, number: int) -> Outcome:
        settings = settings_of_trial({**(self._given or {}), **changed}, self._steps)
        folder = self._folder_of(changed, number)
        if os.path.lexists(folder):  # an interrupted one
            count = len(list(folder.parent.glob(f"{folder.name}~*")))
            folder.rename(folder.with_name(f"{folder.name}~{count}"))
        return run_trial(settings, folder, max(1.0, self.left_s), machine_decides=self._given is None)

    def _count(self, changed: Changed) -> int:
        return sum(each.changed == changed for each in self.tried)

    def _next(self, changed: Changed) -> str:
        return _key(changed, self._count(changed))

    def _learn(self, outcome: Outcome) -> None:
        """The first trial decides how many steps the others have. It also imports torch, so it takes longer."""
        seconds = outcome.seconds - outcome.compile_ms / 1000
        if not self.tried:
            step_s = sum(outcome.step_ms) / len(outcome.step_ms) / 1000
            wanted = PILOT_STEPS * (Probe(0, outcome.step_ms).error / _GOOD) ** 2
            cheap = _CHEAP * (seconds / step_s - PILOT_STEPS)
            affordable = self._budget_s * _SHARE / step_s
            self._steps = min(_MOST_STEPS, max(_FEWEST_STEPS, round(min(max(wanted, cheap), affordable))))
            self._recent = [seconds + (self._steps - PILOT_STEPS) * step_s]
            self._guessed = True
            return
        self._recent = [*([] if self._guessed else self._recent[-2:]), seconds]
        self._guessed = False

    def _folder_of(self, changed: Changed, number: int) -> Path:
        name = "-".join(f"{knob}={value}" for knob, value in sorted(changed.items())) or "given"
        return self.folder / f"{name}.{number}"


def _key(changed: Changed, number: int) -> str:
    return json.dumps([sorted(changed.items()), number])


def read_results(folder: Path) -> dict[str, Outcome]:
    """The stored results by their settings."""
    return {_key(changed, number): outcome for changed, number, outcome in kept_results(folder)}
