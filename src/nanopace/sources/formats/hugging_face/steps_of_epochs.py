"""Steps from epochs: a dict of Hugging Face's Trainer has no step, only the rounded epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nanopace.sources.running_clock import MOST_STEPS
from nanopace.sources.scalars import to_number


class Epochs:
    """How many steps an epoch has, from the last dict whose step is known."""

    def __init__(self) -> None:
        self.last_step = 0
        self.last_text = ""

    def add(self, step: int, epoch: str) -> None:
        self.last_step, self.last_text = step, epoch

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


def steps_between_logs(epochs: Sequence[str], end: Mapping[str, object]) -> int | None:
    """Steps from one row to the next, from their epochs and what is printed at the end; None if in doubt."""
    runtime, rate = to_number(end.get("train_runtime")), to_number(end.get("train_steps_per_second"))
    last, final = to_number(epochs[-1]), to_number(end.get("epoch"))
    if not runtime or not rate or not last or not final or min(runtime, rate, last, final) <= 0:
        return None
    between = runtime * rate * last / final / len(epochs)
    printed = [(epochs[-1], last), (str(end["epoch"]), final), (str(end["train_runtime"]), runtime)]
    printed.append((str(end["train_steps_per_second"]), rate))
    wrong = 1.1 * between * sum(_rounding(text) / number for text, number in printed)
    nearest = round(between) if between < 1e9 else 0
    return nearest if nearest and wrong < 0.5 and abs(between - nearest) <= wrong else None


def _rounding(text: str) -> float:
    """The possible error of a printed number. It had at least two decimals, before trailing zeros were removed."""
    _, _, decimals = text.partition(".")
    return 0.5 * 10.0 ** -max(2, len(decimals.split("e")[0]))
