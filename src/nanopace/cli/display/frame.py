"""What the live display shows at one moment, before any of it is on a screen.

The loop reports events, possibly thousands of times a second, so storing them takes a few microseconds and no lock;
`frame` makes the lines a few times a second in another thread.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from nanopace.ledger import EvalEvent, Event, StepEvent
from nanopace.train.listener import Introduction
from nanopace.views.terminal.status_lines import Losses, Piece, cut, fitting
from nanopace.wording.template import label

if TYPE_CHECKING:
    from nanopace.wording.catalog import Words

PHASES: Mapping[str, str] = {
    "startup": label("start-up"),
    "compile": label("compiling"),
    "data": label("data"),
    "step": label("forward+backward"),
    "optimizer": label("optimizer"),
    "bus": label("host memory"),
    "evaluation": label("evaluation"),
    "checkpoint": label("checkpoint"),
    "sample": label("sampling"),
    "logging": label("logging"),
    "suspend": label("suspended"),
    "other": label("other"),
}
_NOW = {**PHASES, "step": label("training")}
_LEAST_SHARE = 0.0005  # a smaller share would be shown as 0.0%
_RECENT = 16  # steps that the rate is averaged over
_NARROWEST_BAR, _WIDEST_BAR = 8, 60
_NARROWEST_CURVE, _WIDEST_CURVE = 8, 60
_SCALE = 20  # columns for the lowest and the highest loss and the spaces around them


class State:
    """What the loop has reported so far, as far as it is shown."""

    def __init__(self, words: Words, clock: Callable[[], float] = time.monotonic) -> None:
        self._words, self._clock = words, clock
        self._intro: Introduction | None = None
        self._phase = ""
        self._step: StepEvent | None = None
        self._first: tuple[int, float] | None = None  # the first step of this process, and when it ended
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
        """The display as lines of at most `width` columns."""
        lines = [
            self._progress(width),
            [(fitting(self._rate(), width), "")],
            [(fitting(self._where_the_time_goes(), width), "dim")],
            self._loss(width),
        ]
        plain = ([(text.replace("\u00a0", " "), style) for text, style in line] for line in lines)
        return [cut(line, width) for line in plain if any(text for text, _ in line)]

    def _progress(self, width: int) -> list[Piece]:
        if self._intro is None:
            return []
        words, last = self._words, self._intro.last_step
        at = self._intro.first_step if self._step is None else self._step.iteration
        done = (at + (self._step is not None)) / (last + 1)
        left = self._seconds_left(last - at)
        before = words.text("step {step} of {last}", step=words.count(at), last=words.count(last))
        after = [words.percent(done, 0)]
        if left is not None:
            after.append(words.text("{time} left", time=words.duration(max(left, 1.0))))
        room = min(_WIDEST_BAR, width - len(before) - len(", ".join(after)) - 2)
        if room < _NARROWEST_BAR:
            return [(fitting([before, *after], width), "")]
        full = int(done * room)
        return [(f"{before} ", ""), ("━" * full, "green"), ("─" * (room - full), "dim"), (f" {', '.join(after)}", "")]

    def _seconds_left(self, steps: int) -> float | None:
        """From the wall clock since the first step, so that evaluations and checkpoints count."""
        if self._first is None or self._step is None or self._step.iteration <= self._first[0]:
            return None
        iteration, then = self._first
        return steps * (self._clock() - then) / (self._step.iteration - iteration)

    def _rate(self) -> list[str]:
        words = self._words
        parts = [words.text("now: {phase}", phase=self._called(_NOW, self._phase))] if self._phase else []
        if self._step is not None and (recent := list(self._recent)) and sum(recent) > 0:
            ms = sum(recent) / len(recent)
            parts.append(f"{_short(1000 * (self._step.tokens or 0) / ms, words)} tok/s")
            parts.append(words.text("{ms} ms/step", ms=words.significant(ms)))
            mfu = None if self._intro is None else self._intro.mfu(self._step)
            if mfu is not None:
                parts.append(f"mfu {words.significant(100 * mfu)}%")
        if self._skipped:
            parts.append(words.text("{count} skipped", count=self._skipped))
        return parts

    def _where_the_time_goes(self) -> list[str]:
        """Shares of the phases, largest first: what does not fit matters least."""
        shares = sorted(dict(self._shares).items(), key=lambda item: -item[1])
        return [
            f"{self._called(PHASES, phase)} {self._words.percent(share)}"
            for phase, share in shares
            if share >= _LEAST_SHARE
        ]

    def _loss(self, width: int) -> list[Piece]:
        """The curve has its own scale, with its lowest and its highest value next to it."""
        if self._step is None or self._step.loss is None:
            return []
        words, found = self._words, self._evaluation
        before, after = f"loss {words.significant(self._step.loss)}", ""
        if found is not None:
            digits = min(4, max(2, -math.floor(math.log10(found.val_error)))) if found.val_error else 4
            value = f"{words.number(found.val, digits)} ±{words.number(found.val_error, digits)}"
            after = words.text("val {loss} at {step}", loss=value, step=words.count(found.iteration))
        room = min(_WIDEST_CURVE, width - len(before) - len(after) - _SCALE)
        bars, low, high = self._losses.curve(max(1, room))
        if room < _NARROWEST_CURVE or not bars:
            return [(fitting(filter(None, (before, after)), width), "")]
        scale = words.text("{low} to {high}", low=words.significant(low), high=words.significant(high))
        return [(f"{before} ", ""), (bars, "cyan"), (f" {scale}", "dim"), (after and f"  {after}", "")]

    def _called(self, names: Mapping[str, str], phase: str) -> str:
        """The translated name of a phase; an unknown one keeps its own."""
        return self._words.text(names[phase]) if phase in names else phase


def _short(count: float, words: Words) -> str:
    """A rate in three digits: 389k."""
    scaled = count = float(f"{count:.3g}")
    while scaled >= 1000:
        scaled /= 1000
    return words.si(round(count), digits=2 if scaled < 10 else 1 if scaled < 100 else 0)
