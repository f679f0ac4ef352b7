"""Finds the step of a dict: the dict has an epoch, and the progress bar has the steps.

A dict is held back until one of these shows its step:

- it names its step itself;
- the bar was erased and redrawn, once for each dict: after the dict or, if standard output was buffered, before it. The
  dicts are in the same order, so the first dict without a step is of the first such bar;
- the bar before it in its line, if bars are never erased, as in what a terminal leaves;
- it is an evaluation with the same epoch as the previous dict;
- its epoch, once a step and its epoch are known.

A step that contradicts the epochs is ignored: terminals leave bars of other moments between the lines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from nanopace.sources.formats.hugging_face.progress import Progress
from nanopace.sources.formats.hugging_face.steps_of_epochs import Epochs, Known, steps_of_logs

_FEWEST_PAIRS = 3  # of steps and epochs: fewer agree by chance, and one fewer is enough to leave a doubt


class Logged(NamedTuple):
    """One dict."""

    epoch: str
    loss: float | None = None
    evaluated: tuple[float | None, float | None] | None = None  # the loss, and milliseconds
    step: int | None = None  # that it names
    near: int | None = None  # of the bar just before it in its line
    at_s: float | None = None  # that it names
    has_fractions: bool = False  # of a second
    shown: int = -1  # the step of the bar when it was printed
    tokens: int | None = None  # of all steps so far
    rate: float | None = None


def _is_row(logged: Logged) -> bool:
    return logged.loss is not None


def _is_evaluation(logged: Logged) -> bool:
    return logged.evaluated is not None


class Matching:
    """The dicts of one process that wait for their step. `tell` is called with each, in order."""

    def __init__(self, tell: Callable[[Logged, int], None]) -> None:
        self.waiting: deque[Logged] = deque()
        self.lost = 0  # rows whose step is not known
        self._epochs = Epochs()
        self._rows: deque[int] = deque(maxlen=3)  # the steps of the last rows
        self._tell = tell
        self._begun = False  # a dict has been passed on

    def begin_process(self) -> None:
        self._epochs = Epochs()
        self._rows.clear()

    def add(self, logged: Logged, training: Progress | None) -> None:
        self.waiting.append(logged)
        self.resolve(training)

    def resolve(self, training: Progress | None) -> None:
        """Pass on every dict whose step is known."""
        late = training is not None and training.begins_late
        if training is not None and 0 < len(training.painted_again) < len(self.waiting):
            painted, last = training.painted_again[-1], self.waiting[-1]
            if not (late and training.counts) or (_is_evaluation(last) and last.shown == painted):
                self._learn(painted)
        while self.waiting:
            first = self.waiting[0]
            step = self._step_of(first, training)
            if step is None:
                return
            unsure = late and not self._begun and first.step is None
            if training is not None and unsure and (_is_evaluation(first) or step != training.first):
                self.lost += _is_row(self.waiting.popleft())  # nothing shows yet that it is of the bar before it
            else:
                self._pop(step)
            self._begun = True

    def settle(self, training: Progress | None, end: Known | None) -> None:
        """No more bars will come. The remaining dicts get their steps from the epochs. `end`: the last step, if
        training reached its end."""
        late = training is not None and training.counts and training.begins_late
        if training is not None and late:
            self._align(training, end)
        if training is not None and training.counts:
            self.resolve(training)
        if known := end or self._epochs.last:
            self._place(known, known.most if training is None else training.total)
        self.resolve(training)
        while self.waiting:
            logged = self.waiting[0]
            step = self._step_of(logged, training)
            if not step and _is_row(logged):
                step = self._next_row(logged.epoch)
            elif not step and _is_evaluation(logged) and not late:  # its time counts, even if its step is not certain
                step = self._epochs.step_of(logged.epoch) or max(0, logged.shown)
            if step:
                self._pop(step)
            else:
                self.lost += _is_row(self.waiting.popleft())

    def _next_row(self, epoch: str) -> int | None:
        """The step of a row, if those before it were evenly spaced and its epoch agrees."""
        if len(self._rows) < 3:
            return None
        first, second, third = self._rows
        step = 2 * third - second
        return step if third - second == second - first and self._epochs.allow(step, epoch) else None

    def _place(self, known: Known, most: float) -> None:
        """Name the steps of the waiting dicts that follow from their epochs, one known step and the last one."""
        for kind in (_is_row, _is_evaluation):
            of_kind = [number for number, each in enumerate(self.waiting) if each.step is None and kind(each)]
            steps = steps_of_logs([self.waiting[number].epoch for number in of_kind], known, most)
            for number, step in zip(of_kind, steps or (), strict=False):
                self.waiting[number] = self.waiting[number]._replace(step=step)

    def _align(self, training: Progress, end: Known | None) -> None:
        """Name the steps if the log's beginning is missing: some of the first dicts have no bar, or the first bar no
        dict. From there on, they are in the same order; if training reached its end, the last bars are of the last
        dicts. Otherwise, the epochs must leave a single answer."""
        painted, found = [*training.painted_again][1:], []  # the first may be erased for a bar that is missing
        shifts = range(2 - len(self.waiting), 2)
        if end is not None:
            painted = painted[:-1]  # of the last dict
            shifts = range(len(painted) - len(self.waiting), len(painted) - len(self.waiting) + 1)
        for shift in shifts:
            steps = [painted[at + shift] if 0 <= at + shift < len(painted) else None for at in range(len(self.waiting))]
            if self._fits(steps, end):
                found.append(steps)
        if len(found) == 1 and sum(map(bool, found[0])) >= _FEWEST_PAIRS:
            for number, step in enumerate(found[0]):
                self.waiting[number] = self.waiting[number]._replace(step=step)

    def _fits(self, steps: Sequence[int | None], end: Known | None) -> bool:
        """Whether the epochs agree with these steps of the waiting dicts."""
        pairs = [(step, each.epoch) for step, each in zip(steps, self.waiting, strict=True) if step is not None]
        epochs = Epochs()
        if end is not None:
            epochs.add(round(end.most), end.epoch)
        elif pairs:
            epochs.add(*pairs[-1])
        return len(pairs) >= _FEWEST_PAIRS - 1 and all(epochs.allow(step, epoch) for step, epoch in pairs)

    def _learn(self, painted: int) -> None:
        """There are more dicts than bars, so some were lost. The last bar follows the last dict."""
        last = self.waiting[-1]
        if not self._epochs.last_step and last.step is None:
            self._epochs.add(painted, last.epoch)

    def _step_of(self, logged: Logged, training: Progress | None) -> int | None:
        if logged.step is not None:
            return logged.step
        if training is None or (training.counts and training.begins_late):
            return None
        if training.counts:
            return self._in_order(logged, training)
        if logged.near is not None and self._epochs.allow(logged.near, logged.epoch):
            return logged.near
        if logged.loss is None and self._epochs.last_text == logged.epoch and self._epochs.last_step:
            return self._epochs.last_step
        if logged.loss is None and logged.epoch == "0" and training.step > 0:
            return 0
        while training.painted_again and self._epochs.is_past(training.painted_again[0], logged.epoch):
            training.painted_again.popleft()
        if training.painted_again and self._epochs.allow(training.painted_again[0], logged.epoch):
            return training.painted_again.popleft()
        step = self._epochs.exact(logged.epoch)
        if step is not None and step <= training.step:
            return step
        later = self.waiting[1].shown if len(self.waiting) > 1 else -1
        in_turns = not training.last_painted_again and not self.lost and 0 < logged.shown < later
        return logged.shown if in_turns and self._epochs.allow(logged.shown, logged.epoch) else None

    def _in_order(self, logged: Logged, training: Progress) -> int | None:
        """The bar was painted again once for each dict, and in the same order."""
        while training.painted_again and self._epochs.is_past(training.painted_again[0], logged.epoch):
            training.painted_again.popleft()
        if not training.painted_again:
            return None
        if self._epochs.allow(training.painted_again[0], logged.epoch):
            return training.painted_again.popleft()
        return self._epochs.exact(logged.epoch)

    def _pop(self, step: int) -> None:
        logged = self.waiting.popleft()
        self._epochs.add(step, logged.epoch)
        if _is_row(logged):
            self._rows.append(step)
        self._tell(logged, step)
