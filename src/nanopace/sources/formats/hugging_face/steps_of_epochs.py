"""Steps from epochs: a dict of Hugging Face's Trainer has no step, only the rounded epoch."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nanopace.sources.running_clock import MOST_STEPS
from nanopace.sources.scalars import to_number

_EXPONENT = re.compile(r"[-+]?\d{1,3}|", re.ASCII)
_MOST_EPOCHS = 1e9
_MOST_POWER = 300  # of ten: floats end a little above
_MOST_FIRSTS = 100  # multiples that the first dict may be of: with more, there is no single answer


class Known(NamedTuple):
    """A step of which the epoch is known. The step may be known to be between two."""

    least: float
    most: float
    epoch: str


class Epochs:
    """How many steps an epoch has, from the last dict whose step is known."""

    def __init__(self) -> None:
        self.last_step = 0
        self.last_text = ""

    def add(self, step: int, epoch: str) -> None:
        self.last_step, self.last_text = step, epoch

    @property
    def last(self) -> Known | None:
        return Known(self.last_step, self.last_step, self.last_text) if self.last_step else None

    def is_past(self, step: int, epoch: str) -> bool:
        """Whether a step is certainly before this epoch."""
        expected = self._expected(epoch)
        return expected is not None and step < expected[0] - expected[1]

    def allow(self, step: int, epoch: str) -> bool:
        """Whether a step may have this epoch."""
        expected = self._expected(epoch)
        return expected is None or abs(step - expected[0]) <= expected[1]

    def exact(self, epoch: str) -> int | None:
        """The step of an epoch, if rounding leaves no doubt."""
        expected = self._expected(epoch)
        return None if expected is None or expected[1] > 1.4 else self.step_of(epoch)

    def step_of(self, epoch: str) -> int | None:
        expected = self._expected(epoch)
        return None if expected is None or expected[0] >= MOST_STEPS else round(expected[0])

    def _expected(self, epoch: str) -> tuple[float, float] | None:
        """The expected step, and its possible rounding error."""
        now, last = to_number(epoch), to_number(self.last_text)
        if not now or not last or not self.last_step or not 0 < now < 1e9 or not 0 < last < 1e9:
            return None
        per_epoch = self.last_step / last
        wrong = per_epoch * (now * _rounding(self.last_text) / last + _rounding(epoch))
        return now * per_epoch, 1 + wrong


def end_of(end: Mapping[str, object]) -> Known | None:
    """The last step, from what is printed at the end."""
    runtime, rate = to_number(end.get("train_runtime")), to_number(end.get("train_steps_per_second"))
    if not runtime or not rate or not 0 < runtime < 1e9 or not 0 < rate < 1e9:
        return None
    steps = runtime * rate
    wrong = steps * _rounding(str(end["train_steps_per_second"])) / rate
    return Known(steps - wrong, steps + wrong, str(end.get("epoch", "")))


def steps_of_logs(epochs: Sequence[str], known: Known, most: float) -> list[int] | None:
    """The steps, up to `most`, of dicts that the Trainer logs every so many steps; None if several answers fit their
    epochs.

    The dicts are at consecutive multiples of a number of steps. With `logging_first_step`, step 1 comes before them.
    """
    step_epochs, bounds = _of_a_step(known), []
    for text in epochs:
        number, wrong = to_number(text), _rounding(text)
        if step_epochs is None or number is None or not 0 <= number < _MOST_EPOCHS or wrong > 1:
            return None
        uneven = 0.0 if _ends_an_epoch(number) and _ends_an_epoch(to_number(known.epoch)) else step_epochs[1]
        bounds.append((number - wrong - uneven, number + wrong + uneven))
    if step_epochs is None or len(bounds) < 2:
        return None
    answers = _multiples(bounds, step_epochs, most)
    if bounds[0][0] <= step_epochs[1] < bounds[0][1]:
        after_first = _multiples(bounds[1:], step_epochs, most, begins=True)
        answers += [[1, *steps] for steps in after_first if steps[0] > 1]
    return answers[0] if len(answers) == 1 else None


def _of_a_step(known: Known) -> tuple[float, float] | None:
    """How much of an epoch a step is: at least, and at most."""
    epoch, wrong = to_number(known.epoch), _rounding(known.epoch)
    uneven = 0 if _ends_an_epoch(epoch) else 1
    if epoch is None or not wrong < epoch < _MOST_EPOCHS or not uneven < known.least <= known.most < MOST_STEPS:
        return None
    least, most = (epoch - wrong) / (known.most + uneven), (epoch + wrong) / (known.least - uneven)
    return (least, most) if least > 1 / MOST_STEPS else None


def _ends_an_epoch(epoch: float | None) -> bool:
    """Elsewhere, epochs rise unevenly if an epoch's batches are no multiple of a step's: by up to one step."""
    return epoch is not None and epoch.is_integer()


def _multiples(
    bounds: Sequence[tuple[float, float]], step_epochs: tuple[float, float], most: float, *, begins: bool = False
) -> list[list[int]]:
    """Consecutive multiples of one number of steps whose epochs are within these bounds: up to two answers.

    `begins`: the first of them is that number itself.
    """
    if len(bounds) < 2:
        return []
    (low, high), (last_low, last_high), rises = bounds[0], bounds[-1], len(bounds) - 1
    slowest, fastest = max(step_epochs[0], (last_low - high) / rises), (last_high - low) / rises  # epochs per dict
    if fastest < slowest:
        return []
    firsts = range(max(1, math.ceil(low / fastest)), 2 if begins else math.floor(high / slowest) + 1)
    if len(firsts) > _MOST_FIRSTS:
        return []
    answers: list[list[int]] = []
    for first in firsts:
        least = max(below / number for number, (below, _) in enumerate(bounds, first))
        greatest = min(above / number for number, (_, above) in enumerate(bounds, first))
        if least > greatest:
            continue
        last = first + rises
        for between in range(
            max(1, math.ceil(least / step_epochs[1])), math.floor(min(greatest / step_epochs[0], most / last)) + 1
        ):
            answers.append([between * number for number in range(first, last + 1)])
            if len(answers) > 1:
                return answers
    return answers


def _rounding(text: str) -> float:
    """The possible error of a printed number. It had two or more decimals, or since version 5 four digits; trailing
    zeros were removed, but for one decimal before version 5."""
    mantissa, _, exponent = text.partition("e")
    if not _EXPONENT.fullmatch(exponent):
        return math.inf
    whole, point, decimals = mantissa.partition(".")
    places = 3 if exponent else 4 - len(whole)
    if point and not exponent:
        places = min(2, places)
    power = int(exponent or 0) - max(places, len(decimals))
    return 0.5 * 10.0**power if power < _MOST_POWER else math.inf
