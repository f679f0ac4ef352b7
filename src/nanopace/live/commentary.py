"""Comments on a row as it arrives: slow and why, a lasting change of pace, an unusual or non-finite loss.

Everything is incremental, over the last few hundred rows. The thresholds are those of the diagnosis.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import islice

from nanopace.diagnosis.loss.loss_spikes import FEWEST, RISES, STANDS_OUT, WINDOW, deviation
from nanopace.diagnosis.time.baseline_rows import LEAST_MS, SLOW_RATIO
from nanopace.diagnosis.time.levels import MAD, level_starts
from nanopace.diagnosis.time.pace_findings import SPILL_RATIO
from nanopace.diagnosis.time.rows import CHANGED_SHARE, CLEARLY_SLOW, LEAST_NOISE
from nanopace.incidents import LossSpike
from nanopace.live.comments import Comment, Say
from nanopace.live.observed import Seen
from nanopace.medians import median
from nanopace.run import Span
from nanopace.wording.catalog import Words

NEAR = 50  # plain rows that the usual time comes from
USUAL_FOR = 5  # rows until it is computed again
ENOUGH = 5  # of them are needed before a row is called slow
LEVEL_ROWS = 200  # plain rows in which a change of pace is searched ...
LEVEL_EVERY = 10  # ... each time this many more have arrived
LOOK_S = 0.1  # and not more often than this: it takes 1 to 2 ms
NEW_LEVEL = 10  # rows that a new level needs
NO_NEWS = 100  # rows: a change that took longer to confirm is small, and the final summary mentions it
ON_CPU = 1.25  # on a CPU, the pace changes all the time: ignore smaller changes
STALL_S, STALL_STEPS = 10.0, 5.0  # a row delayed by this much is an alert
REPEAT_S = 30.0  # comment on unexplained slow rows at most this often
LONG_EVENT = 3.0  # times the median of the evaluations before


class Commentary:
    """Takes rows in order and comments on those worth it."""

    def __init__(self, words: Words, say: Say) -> None:
        self._words, self._say = words, say
        self.on_cpu = False
        self.is_scheduled = False  # the pace changes because the trainer's schedule changes it
        self.elsewhere = False  # the trainer does not use nanoGPT's knobs
        self.watches_loss = False  # the trainer reports its own spikes
        self.slow_rows = 0  # for no reason the log shows
        self._told_not_finite = -1
        self._begin()

    def _begin(self) -> None:
        self._near: deque[float] = deque(maxlen=NEAR)  # logarithms of the times of plain rows
        self._known: tuple[float, float] | None = None  # what is usual
        self._rows_of_usual = 0  # how many more rows to use it for
        self._level: deque[tuple[int, float]] = deque(maxlen=LEVEL_ROWS)
        self._since_looked = 0
        self._looked_s = -math.inf
        self._streak = 0  # consecutive slow rows without a reason
        self._events_ms: deque[float] = deque(maxlen=9)  # the excess of evaluations over their row's steps
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self._since_spike = RISES  # rows: a continued rise is one spike
        self._not_finite = False
        self._shifted = False  # the pace has become slower, and that was reported
        self._slowest = -math.inf  # reported so far, as a logarithm: a pace that goes back and forth is reported once
        self._said_s = -math.inf
        self._unsaid = 0

    def row(self, seen: Seen, now: float) -> None:
        """Take a row; `now` is the clock, to limit how often comments appear."""
        if seen.back_from is not None and not seen.new_run:
            said = self._words.text(
                "Training resumes at iteration {iteration}; it had reached {reached} before.",
                iteration=self._words.count(seen.row.iteration),
                reached=self._words.count(seen.back_from),
            )
            self._say(Comment(said, None, seen.row.iteration))
        if seen.first:
            self._begin()
        if seen.timed:
            self._time(seen, now)
        if seen.row.loss is not None:
            self._loss(seen, seen.row.loss)

    def not_finite(self, iteration: int) -> None:
        """From this iteration on, the loss is not finite. A row may report it before and after its time is known."""
        if not self._not_finite and iteration != self._told_not_finite:
            at = self._words.count(iteration)
            said = self._words.text("The loss is NaN or infinite at iteration {iteration}.", iteration=at)
            self._say(Comment(said, "nan", iteration))
            self._told_not_finite = iteration

    def skipped(self, iteration: int) -> None:
        """A step that the trainer skipped."""
        if not self._not_finite:
            said = self._words.finding(
                "skipped_steps", {"count": 1, "iterations": self._words.count(iteration), "streaks": 1}
            )
            self._say(Comment(said, "nan", iteration))
        self._not_finite = True

    def span(self, span: Span) -> None:
        """A stall measured by the trainer."""
        if span.phase != "stall" or span.background or span.ms < 1000 * STALL_S:
            return
        seconds, words = span.ms / 1000, self._words
        if span.reason == "suspend":
            self._say(Comment(words.finding("suspended", {"count": 1, "suspended_s": seconds}), None, span.iteration))
            return
        said = words.text(
            "Training stalled for {time} before iteration {iteration}.",
            time=words.duration(seconds),
            iteration=words.count(span.iteration),
        )
        self._say(Comment(said, "stall", span.iteration))

    # --- times -------------------------------------------------------------------------------------------------------

    def _time(self, seen: Seen, now: float) -> None:
        log = math.log(max(seen.row.ms, LEAST_MS))
        usual = self._usual()
        if seen.plain:
            self._near.append(log)
        if usual is None:
            return
        slow = log - usual[0] >= max(CLEARLY_SLOW * usual[1], math.log(SLOW_RATIO))
        usual_ms = math.exp(usual[0])
        if not seen.plain:
            if slow and not seen.first:
                self._event_row(seen, usual_ms)
            return
        self._streak = self._streak + 1 if slow else 0
        if slow:
            self.slow_rows += 1
            self._slow_row(seen, usual_ms, now)
        self._level.append((seen.row.iteration, log))
        self._since_looked += 1
        if self._since_looked >= LEVEL_EVERY and now - self._looked_s >= LOOK_S:
            self._since_looked, self._looked_s = 0, now
            self._look_for_shift()

    def _usual(self) -> tuple[float, float] | None:
        """Level and noise of the plain rows before, as logarithms; computed again every few rows."""
        self._rows_of_usual -= 1
        if self._rows_of_usual < 0 and len(self._near) >= ENOUGH:
            self._rows_of_usual = USUAL_FOR
            level = median(self._near)
            noise = median([abs(each - level) for each in self._near])
            self._known = level, max(noise, LEAST_NOISE) / MAD
        return self._known

    def _event_row(self, seen: Seen, usual_ms: float) -> None:
        """A row that contains an evaluation, a checkpoint or both."""
        words, excess_ms = self._words, seen.row.ms - usual_ms
        causes = [code for code, there in (("evaluation", seen.evaluation), ("checkpoint", seen.checkpoint)) if there]
        said = words.text(
            "Iteration {iteration} is slow, but not because of training: {causes} {time}, the step {step}.",
            iteration=words.count(seen.row.iteration),
            causes=" + ".join(map(words.cause, causes)),
            time=words.duration(excess_ms / 1000),
            step=words.duration(usual_ms / 1000),
        )
        before = median(self._events_ms) if len(self._events_ms) >= 2 else math.inf
        if excess_ms > LONG_EVENT * before and excess_ms - before > 1000 * STALL_S:
            said += " " + words.text("Earlier ones took {time}.", time=words.duration(before / 1000))
            self._say(Comment(said, "stall", seen.row.iteration))
            return
        self._events_ms.append(excess_ms)
        self._say(Comment(said, None, seen.row.iteration))

    def _slow_row(self, seen: Seen, usual_ms: float, now: float) -> None:
        """A row that nothing in the log explains. Of several consecutive ones, only the first is reported: more may be
        a new pace."""
        words, excess_s = self._words, (seen.row.ms - usual_ms) / 1000
        alert = excess_s >= STALL_S and seen.row.ms >= STALL_STEPS * usual_ms
        if self._streak > 1 or (not alert and (self.is_scheduled or now - self._said_s < REPEAT_S)):
            self._unsaid += 1
            return
        said = words.text(
            "Iteration {iteration} took {time} instead of {usual}, for no reason the log shows.",
            iteration=words.count(seen.row.iteration),
            time=words.duration(seen.row.ms / 1000),
            usual=words.duration(usual_ms / 1000),
        )
        if self._unsaid:
            said += " " + words.plural(
                "{n} more row has been slow since the last comment.",
                "{n} more rows have been slow since the last comment.",
                self._unsaid,
            )
        self._said_s, self._unsaid = now, 0
        self._say(Comment(said, "stall" if alert else None, seen.row.iteration))

    def _look_for_shift(self) -> None:
        """Whether the pace has changed for good, as the diagnosis would find it in a finished run."""
        if len(self._level) < 3 * NEW_LEVEL:
            return
        logs = [log for _, log in self._level]
        start = level_starts(logs)[-1]
        if start < NEW_LEVEL or not NEW_LEVEL <= len(logs) - start <= NO_NEWS:
            return
        before, after = median(logs[:start]), median(logs[start:])
        ratio = math.exp(after - before)
        if max(ratio, 1 / ratio) < (ON_CPU if self.on_cpu else 1 + CHANGED_SHARE):
            return
        iteration = self._level[start][0]
        self._level = deque(islice(self._level, start, None), maxlen=LEVEL_ROWS)
        self._near = deque(logs[start:][-NEAR:], maxlen=NEAR)
        self._rows_of_usual = 0
        self._unsaid = 0
        slower = ratio > 1 and after > self._slowest + math.log(1 + CHANGED_SHARE)
        if slower or (ratio < 1 and self._shifted):
            self._say_shift(iteration, math.exp(before), math.exp(after))
            self._shifted, self._slowest = slower, max(self._slowest, after)

    def _say_shift(self, iteration: int, before_ms: float, after_ms: float) -> None:
        ratio = after_ms / before_ms
        if self._not_finite or self.is_scheduled:
            return  # steps that compute nothing are faster, which says nothing about the card
        code = "memory_spill" if ratio >= SPILL_RATIO and not self.on_cpu else "level_shift"
        numbers = {"iteration": iteration, "before_ms": before_ms, "after_ms": after_ms, "change_share": ratio - 1}
        said = self._words.finding(
            code, {**numbers, "ratio": ratio, "elsewhere": self.elsewhere and code == "memory_spill"}
        )
        self._say(Comment(said, "slower" if ratio > 1 else None, iteration))

    # --- losses ------------------------------------------------------------------------------------------------------

    def _loss(self, seen: Seen, loss: float) -> None:
        iteration = seen.row.iteration
        if not math.isfinite(loss):
            self.not_finite(iteration)
            self._not_finite = True
            return
        self._not_finite = False
        self._since_spike += 1
        if not self.watches_loss and len(self._losses) >= FEWEST and self._since_spike > RISES:
            lately = list(islice(self._losses, len(self._losses) - RISES, None))
            if loss > max(lately):
                z = deviation(list(self._losses), loss)
                if z >= STANDS_OUT:
                    self._since_spike = 0
                    self.spike(LossSpike(iteration, z, loss))
        self._losses.append(loss)

    def spike(self, spike: LossSpike) -> None:
        """A spike found here or reported by the trainer."""
        words = self._words
        said = words.text(
            "The loss spiked to {loss} at iteration {iteration}: {z} standard deviations above the rows before it.",
            iteration=words.count(spike.iteration),
            loss=words.loss(spike.loss),
            z=words.number(round(spike.z, 1)),
        )
        self._say(Comment(said, "spike", spike.iteration))
