"""The status of a training: progress, time left, speed, and what comes next; for a line or a footer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from nanopace.diagnosis.result import Diagnosis
from nanopace.medians import median
from nanopace.record import replace
from nanopace.run import Row
from nanopace.sources.formats.registry import find_format
from nanopace.views.report import card_range, seconds_by_phase, tilde
from nanopace.views.terminal.sparkline import LEVELS
from nanopace.views.terminal.status_lines import Losses, fitting
from nanopace.wording.catalog import Words

_NARROWEST_BAR, _WIDEST_BAR = 8, 40
_NARROWEST_CURVE, _WIDEST_CURVE = 8, 60
_LEAST_SHARE = 0.0005  # a smaller share would be shown as 0.0%
_SETTLED = 4  # the first 1/4 of the curve does not affect its scale: the first losses are far above all others


@dataclass(frozen=True, slots=True)
class Status:
    """A diagnosis, which may be a few rows old, and the last row."""

    diagnosis: Diagnosis
    last: Row
    last_evaluation: int | None = None  # its iteration
    clock_s: float | None = None  # time per iteration by our own clock, including everything between the rows
    silent_s: float | None = None  # time without a line, if worth mentioning
    pace_is_known: bool = True

    @property
    def max_iters(self) -> int | None:
        return self.diagnosis.ahead.max_iters

    @property
    def seconds_per_iteration(self) -> tuple[float | None, bool]:
        """Including evaluations and checkpoints; False if neither the log nor the clock shows yet what those cost."""
        if not self.pace_is_known:
            return None, True
        ahead = self.diagnosis.ahead
        if not self.diagnosis.timed:
            return self.clock_s, True
        each_s = None if ahead.seconds_per_1000 is None else ahead.seconds_per_1000 / 1000
        if self.last_evaluation is not None and self.diagnosis.evaluations.each_ms is None:
            return (self.clock_s, True) if self.clock_s is not None else (each_s, False)
        return each_s, True

    @property
    def left_s(self) -> float | None:
        each_s, _ = self.seconds_per_iteration
        if self.max_iters is None or each_s is None or find_format(self.diagnosis.source.format).ends_by_time:
            return None
        return max(0, self.max_iters - self.last.last_iteration) * each_s

    @property
    def next_evaluation(self) -> tuple[int, float] | None:
        """Its iteration, and in how many seconds it starts."""
        interval, levels = self._interval, self.diagnosis.step.levels
        if not interval or self.last_evaluation is None or not levels or not self.pace_is_known:
            return None
        due = self.last_evaluation + interval
        ahead = due - self.last.last_iteration
        if ahead <= 0 or (self.max_iters is not None and due > self.max_iters):
            return None
        return due, ahead * levels[-1].median_ms / 1000

    @property
    def _interval(self) -> int | None:
        """The evaluation interval: as observed, or from the config."""
        given = self.diagnosis.facts.get("eval_interval")
        known = given is not None and isinstance(given.value, int) and given.value > 0
        return self.diagnosis.evaluations.interval or (int(given.value) if given is not None and known else None)


def status_line(status: Status, words: Words) -> str:
    return ", ".join([_at(status, words), *_how_far(status, words), *_speed(status, words), *_next(status, words)])


def footer(status: Status, losses: Losses, words: Words, width: int) -> list[str]:
    """A few lines of at most `width` columns."""
    lines = [
        _progress(status, words, width),
        fitting([*_silent(status, words), *_speed(status, words), *_next(status, words)], width),
        fitting(_shares(status.diagnosis, words), width),
        _loss(status, losses, words, width),
    ]
    return [line[:width] for line in lines if line]


# --- parts -----------------------------------------------------------------------------------------------------------


def _at(status: Status, words: Words) -> str:
    at = words.count(status.last.last_iteration)
    if status.max_iters is None:
        return words.text("iteration {at}", at=at)
    return words.text("iteration {at} of {last}", at=at, last=words.count(status.max_iters))


def _how_far(status: Status, words: Words) -> list[str]:
    parts = []
    if status.max_iters:
        parts.append(words.percent(min(1.0, status.last.last_iteration / status.max_iters), 0))
    if status.left_s:
        limit = status.diagnosis.facts.get("max_iters")
        text = ("~" if limit is not None and limit.origin == "inferred" else "") + words.duration(status.left_s)
        _, counted = status.seconds_per_iteration
        parts.append(
            words.text("{time} left", time=text)
            if counted
            else words.text("{time} left without the evaluations", time=text)
        )
    return parts


def _speed(status: Status, words: Words) -> list[str]:
    """The current speed: if the pace has changed, the figures of the diagnosis are for the whole run."""
    step, tokens_per_s, mfu = status.diagnosis.step, status.diagnosis.throughput.tokens_per_s, status.diagnosis.mfu
    if step.median_ms is None or not status.pace_is_known:  # such as in a log without times
        return []
    now_ms = step.levels[-1].median_ms
    parts = []
    if tokens_per_s is not None:
        tokens = tilde(status.diagnosis, "tokens_per_iteration") + words.si(tokens_per_s * step.median_ms / now_ms)
        parts.append(words.text("{tokens} tokens/s", tokens=tokens))
    if step.normal_rows:
        parts.append(words.text("{time} per step", time=words.ms(now_ms)))
    shares = (mfu.card, mfu.card_low, mfu.card_high)
    card, low, high = (None if share is None else share * step.median_ms / now_ms for share in shares)
    mfu = replace(mfu, card=card, card_low=low, card_high=high)
    if mfu.card_name is not None and (mfu.card is not None or mfu.card_low is not None):
        share = words.value("card", mfu.card) if mfu.card is not None else card_range(mfu, words)
        share = tilde(status.diagnosis, "flops_per_token") + share
        parts.append(words.text("{share} of the {card}", share=share, card=words.value("card_name", mfu.card_name)))
    return parts


def _next(status: Status, words: Words) -> list[str]:
    due = status.next_evaluation
    if due is None:
        return []
    return [
        words.text(
            "evaluation at {iteration} in {time}",
            iteration=words.count(due[0]),
            time=words.duration(max(due[1], 0.001)),
        )
    ]


def _silent(status: Status, words: Words) -> list[str]:
    return [] if status.silent_s is None else [words.text("no line for {time}", time=words.duration(status.silent_s))]


def _progress(status: Status, words: Words, width: int) -> str:
    before, after = _at(status, words), ", ".join(_how_far(status, words))
    room = min(_WIDEST_BAR, width - len(before) - len(after) - 2)
    if status.max_iters is None or room < _NARROWEST_BAR:
        return fitting([before, *_how_far(status, words)], width)
    full = int(min(1.0, status.last.last_iteration / max(1, status.max_iters)) * room)
    return f"{before} {'━' * full}{'─' * (room - full)} {after}".rstrip()


def _shares(diagnosis: Diagnosis, words: Words) -> list[str]:
    """Where the time went, largest share first: what does not fit matters least."""
    wall, spent = diagnosis.wall, seconds_by_phase(diagnosis.wall)
    shares = [(phase, seconds / wall.total_s) for phase, seconds in spent.items() if seconds and wall.total_s]
    shares.sort(key=lambda each: -each[1])
    return [f"{words.phase(phase)} {words.percent(share)}" for phase, share in shares if share >= _LEAST_SHARE]


def _loss(status: Status, losses: Losses, words: Words, width: int) -> str:
    if status.last.loss is None:
        return ""
    before, after = words.text("loss {loss}", loss=words.loss(status.last.loss)), ""
    found = status.diagnosis.loss
    if found.last_val is not None and found.last_val_iteration is not None:
        after = words.text(
            "validation {loss} at {iteration}",
            loss=words.loss(found.last_val),
            iteration=words.count(found.last_val_iteration),
        )
    room = min(_WIDEST_CURVE, width - len(before) - len(after) - 2 - len("00.00  00.00"))
    if room < _NARROWEST_CURVE or not losses.points:
        return fitting(filter(None, (before, after)), width)
    low, bars, high = _curve([loss for _, loss in losses.points], room)
    return f"{before} {words.number(high, 2)} {bars} {words.number(low, 2)} {after}".rstrip()


def _curve(losses: Sequence[float], room: int) -> tuple[float, str, float]:
    """The curve on its own scale, with the lower and the upper end of that scale."""
    columns = min(room, len(losses))
    parts = [
        list(islice(losses, len(losses) * column // columns, len(losses) * (column + 1) // columns))
        for column in range(columns)
    ]
    middles = [median(part) for part in parts]
    settled = sorted(middles[columns // _SETTLED :])
    low, high = settled[len(settled) // 50], settled[-1 - len(settled) // 20]  # spikes do not affect the scale
    scale = (len(LEVELS) - 1) / (high - low) if high > low else 0.0
    heights = (math.floor(scale * (middle - low) + 0.5) for middle in middles)
    bars = "".join(LEVELS[max(0, min(len(LEVELS) - 1, height))] for height in heights)
    return low, bars, high
