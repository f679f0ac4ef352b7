"""What the live display shows at one moment, before anything of it is on a screen.

The loop reports what happens, thousands of times a second if need be, so keeping it costs a few microseconds and no
lock; `frame` makes the lines, a few times a second, in another thread.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping

from nanopace.cli.display.log_lines import rough_duration
from nanopace.ledger import EvalEvent, Event, StepEvent
from nanopace.train.listener import Introduction
from nanopace.views.terminal.status_lines import Losses, Piece, cut, fitting
from nanopace.wording.catalog import words

PHASES: Mapping[str, str] = {
    "startup": "start-up",
    "compile": "compile",
    "data": "data",
    "step": "forward+backward",
    "optimizer": "optimizer",
    "evaluation": "evaluation",
    "checkpoint": "checkpoint",
    "logging": "logging",
    "suspend": "suspended",
    "other": "other",
}
_NOW = {**PHASES, "step": "training"}
_LEAST_SHARE = 0.0005  # what would be shown as 0.0%
_RECENT = 16  # steps that the rate is of
_NARROWEST_BAR, _WIDEST_BAR = 8, 60
_NARROWEST_CURVE, _WIDEST_CURVE = 8, 60
_ENGLISH = words()  # as the lines above the display are


class State:
    """What the loop reported so far, as far as it is shown."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._intro: Introduction | None = None
        self._phase = ""
        self._step: StepEvent | None = None
        self._first: tuple[int, float] | None = None  # the first step of this process, and when it was done
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._shares: Mapping[str, float] = {}
        self._evaluation: EvalEvent | None = None
        self._losses = Losses()
        self._skipped = 0

    def started(self, intro: Introduction) -> None:
        self._intro = intro

    def phase(self, name: str) -> None:
        self._phase = name

    def event(self, event: Event) -> None:
        if isinstance(event, StepEvent):
            self._take_step(event)
        elif isinstance(event, EvalEvent):
            self._evaluation = event

    def _take_step(self, step: StepEvent) -> None:
        if self._step is not None and step.iteration <= self._step.iteration:  # training went back
            self._first, self._losses = None, Losses()
        if self._first is None:
            self._first = step.iteration, self._clock()
        self._step = step
        self._shares = {} if self._intro is None else self._intro.phase_shares()
        self._skipped += step.skipped
        self._recent.append(step.ms)
        if step.loss is not None:
            self._losses.add(step.iteration, step.loss)

    # --- the lines ---------------------------------------------------------------------------------------------------

    def frame(self, width: int) -> list[list[Piece]]:
        """Lines of at most `width` columns."""
        lines = [
            self._progress(width),
            [(fitting(self._rate(), width), "")],
            [(fitting(self._where_the_time_goes(), width), "dim")],
            self._loss(width),
        ]
        return [cut(line, width) for line in lines if any(text for text, _ in line)]

    def _progress(self, width: int) -> list[Piece]:
        if self._intro is None:
            return []
        last = self._intro.last_step
        at = self._intro.first_step if self._step is None else self._step.iteration
        done = (at + (self._step is not None)) / (last + 1)
        left = self._seconds_left(last - at)
        before, after = (
            f"step {at:,} of {last:,}",
            [f"{done:.0%}", *([] if left is None else [f"{rough_duration(left)} left"])],
        )
        room = min(_WIDEST_BAR, width - len(before) - len(", ".join(after)) - 2)
        if room < _NARROWEST_BAR:
            return [(fitting([before, *after], width), "")]
        full = int(done * room)
        return [(f"{before} ", ""), ("━" * full, "green"), ("─" * (room - full), "dim"), (f" {', '.join(after)}", "")]

    def _seconds_left(self, steps: int) -> float | None:
        """By the clock on the wall since the first step, so that evaluations and checkpoints count."""
        if self._first is None or self._step is None or self._step.iteration <= self._first[0]:
            return None
        iteration, then = self._first
        return steps * (self._clock() - then) / (self._step.iteration - iteration)

    def _rate(self) -> list[str]:
        parts = [f"now: {_NOW.get(self._phase, self._phase)}"] if self._phase else []
        if self._step is not None and (recent := list(self._recent)) and sum(recent) > 0:
            ms = sum(recent) / len(recent)
            parts += [f"{_ENGLISH.si(round(1000 * (self._step.tokens or 0) / ms))} tok/s", f"{ms:.2f} ms a step"]
            mfu = None if self._intro is None else self._intro.mfu(self._step)
            if mfu is not None:
                parts.append(f"mfu {100 * mfu:.2f}%")
        if self._skipped:
            parts.append(f"{self._skipped} skipped")
        return parts

    def _where_the_time_goes(self) -> list[str]:
        """The largest first: what does not fit matters least."""
        shares = sorted(dict(self._shares).items(), key=lambda item: -item[1])
        return [f"{PHASES.get(phase, phase)} {share:.1%}" for phase, share in shares if share >= _LEAST_SHARE]

    def _loss(self, width: int) -> list[Piece]:
        if self._step is None:
            return []
        before, after = f"loss {self._step.loss:.4f}", ""
        if self._evaluation is not None:
            found = self._evaluation
            after = f"val {found.val:.4f} ±{found.val_error:.4f} at {found.iteration:,}"
        room = min(_WIDEST_CURVE, width - len(before) - len(after) - 2)
        if room < _NARROWEST_CURVE:
            return [(fitting(filter(None, (before, after)), width), "")]
        return [(f"{before} ", ""), (self._losses.drawn(room), "cyan"), (f" {after}".rstrip(), "")]
