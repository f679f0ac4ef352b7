"""One log: its runs, and whether they are still running."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from nanopace.diagnosis.result import Diagnosis
from nanopace.errors import InputError
from nanopace.live.remarks import usual_s
from nanopace.live.silence import Silence
from nanopace.live.web.source import Source
from nanopace.run import Ending, Metric

State = Literal["running", "silent", "finished", "stopped"]

SPARKLINE = 48  # points
_DOCUMENT_S = 3600.0  # a file that is written at every checkpoint may take a while


@dataclass(frozen=True, slots=True)
class Listed:
    """A run in the list. It is small, because all of them are kept."""

    name: str
    ending: Ending | None
    last_iteration: int
    max_iters: int | None
    metric: Metric
    best: float | None
    losses: tuple[float, ...]
    overhead_share: float | None
    total_s: float | None
    tokens_per_s: float | None


class Followed:
    """Call `look` about every second, and `read` if there is something new."""

    def __init__(self, name: str, source: Source, now: float, silent_s: float | None = None) -> None:
        self.name, self.source = name, source
        self.listed: tuple[Listed, ...] = ()
        self.error: InputError | None = None
        self.is_read = False
        self._diagnoses: list[Diagnosis] | None = None  # None: not read yet, or dropped to save memory
        self._mark: object = None
        self._now = now
        self.written_s = now - source.age_s()  # fixed when found: the order of a list must not change every second
        self._silence = Silence(silent_s)
        self._usual_s = 0.0, 0.0

    @property
    def has_news(self) -> bool:
        mark = self.source.mark()
        return mark is not None and mark != self._mark

    @property
    def quiet_s(self) -> float | None:
        """How long it has been silent, once that is too long."""
        return self._silence.lasts_s(self._now) if self._silence.told else None

    def look(self, now: float) -> bool:
        """Whether it has just fallen silent."""
        self._now = now
        return self.is_read and self._silence.check(now, *self._usual_s) is not None

    def read(self) -> None:
        """Read everything again. If it cannot be read but could be before, it is probably being written."""
        self._mark = self.source.mark()
        if self.is_read:
            self._silence.line(self._now)
        else:
            self._silence.found(self.written_s, self._now)
        self.is_read = True
        try:
            diagnoses = self.source.diagnoses()
        except InputError as error:
            self.error = None if self.listed else error
            return
        except Exception as error:  # an unexpected error in one log must not take down the page of all others
            self.error = InputError("{path}: cannot be explained: {reason}", path=self.name, reason=repr(error))
            return
        self.error, self._diagnoses = None, diagnoses
        self.listed = tuple(map(_listed, diagnoses))
        if diagnoses:
            row_s, evaluation_s = usual_s(diagnoses[-1])
            if diagnoses[-1].evaluations.count:
                self._silence.evaluation()
            self._usual_s = (_DOCUMENT_S if self.source.is_document else row_s), evaluation_s

    def run(self, number: int) -> Diagnosis | None:
        """The n-th run of this log."""
        if self._diagnoses is None:
            self.read()
        return self._diagnoses[number] if self._diagnoses and number < len(self._diagnoses) else None

    def drop(self) -> None:
        """Drop the diagnoses, which take megabytes. They can be read again."""
        self._diagnoses = None

    def state(self, number: int) -> State:
        ending = self.listed[number].ending
        if ending == "finished":
            return "finished"
        if ending is not None or number < len(self.listed) - 1:
            return "stopped"
        return "silent" if self._silence.told else "running"


def _listed(run: Diagnosis) -> Listed:
    return Listed(
        name=run.source.name,
        ending=run.source.ending,
        last_iteration=run.source.last_iteration,
        max_iters=run.ahead.max_iters,
        metric=run.loss.metric,
        best=run.loss.best_core if run.loss.metric == "core" else run.loss.best_val,
        losses=_thinned([loss for loss in run.curves.row_loss if loss is not None and math.isfinite(loss)]),
        overhead_share=run.wall.overhead_share,
        total_s=run.wall.total_s,
        tokens_per_s=run.throughput.tokens_per_s,
    )


def _thinned(losses: Sequence[float]) -> tuple[float, ...]:
    """The means of equal stretches."""
    count = min(SPARKLINE, len(losses))
    edges = [at * len(losses) // count for at in range(count + 1)] if count else []
    return tuple(sum(losses[a:b]) / (b - a) for a, b in pairwise(edges))
