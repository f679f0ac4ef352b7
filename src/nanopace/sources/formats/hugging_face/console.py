"""The console of Hugging Face's Trainer, and of what is built on it: TRL, Axolotl, LLaMA-Factory, ms-swift.

Its dicts have a loss, the mean of the steps since the one before, and an epoch, but neither a step nor a time. Both are
in the progress bar. Its clock shows whole seconds and runs on during evaluations; how long these took, their dict says.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from nanopace.errors import NotALog
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.hugging_face.console_lines import Bar, bars, entries, seconds, step_of, total_steps
from nanopace.sources.formats.hugging_face.entries import MOST_S, ValidationSet, tell_rate
from nanopace.sources.formats.hugging_face.progress import Progress
from nanopace.sources.formats.hugging_face.steps_of_epochs import Epochs, steps_between_logs
from nanopace.sources.running_clock import RunningClock
from nanopace.sources.scalars import to_count, to_number

_WIPED = 20  # blanks, with which tqdm wipes a bar
_MOST_BARS = 64  # of different lengths that are remembered
_END = ("train_runtime", "train_steps_per_second")


class Logged(NamedTuple):
    """One dict."""

    epoch: str
    loss: float | None = None
    evaluated: tuple[float | None, float | None] | None = None  # the loss, and milliseconds
    step: int | None = None  # that it names, or the bar just before it in its line
    at_s: float | None = None  # that it names
    shown: int = -1  # the step of the bar when it was printed
    tokens: int | None = None  # of all steps so far


class ConsoleReader:
    """Holds a dict back until it is known of which step it is."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._clock = RunningClock(builder, resolution_s=1.0)
        self._bars: dict[int, Progress] = {}
        self._training: Progress | None = None
        self._announced: int | None = None  # total steps
        self._waiting: deque[Logged] = deque()
        self._epochs = Epochs()
        self._validation = ValidationSet()
        self._evaluation_ms = 0.0
        self._processes = 1
        self._wiped = False
        self._last_total = 0
        self._end: dict[str, object] = {}  # what a process printed last

    def feed(self, line: str) -> bool:
        if line.isspace():
            self._wiped |= len(line) >= _WIPED
            return True
        total = total_steps(line)
        if total is not None:
            self._announced = total
            return True
        things: list[tuple[int, Bar | dict[str, object]]] = [(bar.at, bar) for bar in bars(line)]
        things += entries(line)
        last: Bar | None = None
        for _, thing in sorted(things, key=lambda each: each[0]):
            if isinstance(thing, Bar):
                self._bar(thing)
                last = thing
            else:
                self._log(thing, last)
        return bool(things)

    def feed_cut(self, line: str) -> bool:
        """A dict counts if it has its brace, and a bar if it has its rate."""
        return self.feed(line)

    def finish(self) -> None:
        self._settle()
        self._clock.flush()
        if any(each.loss is not None for each in self._waiting):
            self._without_bars()
        runtime = to_number(self._end.get("train_runtime"))
        if self._processes == 1 and runtime is not None and 0 < runtime < MOST_S:
            self._builder.wall_ms(1000 * runtime)
            tell_rate(self._builder, self._end, self._evaluation_ms)

    # --- what is printed ---------------------------------------------------------------------------------------------

    def _bar(self, bar: Bar) -> None:
        progress = self._bars.get(bar.total)
        if progress is not None and progress.begins_anew(bar):
            if progress is self._training:
                self._begin_process()
            progress = None
        if progress is None:
            progress = Progress(bar.total)
            if len(self._bars) >= _MOST_BARS:
                del self._bars[next(total for total, each in self._bars.items() if each is not self._training)]
            if self._training is not None and self._training.total == bar.total:
                self._training = progress
            self._bars[bar.total] = progress
        progress.add(bar, wiped=self._wiped and self._last_total == bar.total)  # else it wiped the other one
        self._wiped, self._last_total = False, bar.total
        if progress is self._training:
            self._resolve()

    def _log(self, entry: dict[str, object], before: Bar | None) -> None:
        if any(key in entry for key in _END) and "loss" not in entry:
            self._ended(entry)
            return
        step, total = step_of(entry)
        loss = to_number(entry.get("loss"))
        evaluated = None if loss is not None else self._validation.read(entry)
        if loss is None and evaluated is None:
            return
        if self._training is None:
            self._training = self._choose(total, finished=loss is not None)
            if self._training is not None and self._end:
                self._begin_process()
        if self._training is None and evaluated is not None and not self._waiting and not to_number(entry.get("epoch")):
            self._builder.evaluation(0, None, evaluated[0], ms=evaluated[1])  # before training, and its clock, began
            return
        training = self._training
        if training is not None or total is not None:
            self._builder.fact("max_iters", total or (training.total if training else 0))
        if step is None and before is not None and training is not None and before.total == training.total:
            step = before.step
        elapsed_s = seconds(entry.get("elapsed_time"))
        if elapsed_s is None and training is None:
            elapsed_s = to_number(entry.get("train_runtime"))  # there where tokens are counted; of four digits
        shown = training.step if training is not None else -1
        tokens = to_count(entry.get("num_input_tokens_seen"))
        self._waiting.append(Logged(str(entry.get("epoch", "")), loss, evaluated, step, elapsed_s, shown, tokens))
        self._resolve()

    def _ended(self, entry: dict[str, object]) -> None:
        """The last dict of a process. Those before it are all there, even if they came late."""
        self._end = entry
        self._settle()
        self._clock.flush()
        self._builder.ending("finished")
        self._training = None
        self._bars.clear()

    def _begin_process(self) -> None:
        self._settle()
        self._clock.restart()
        self._epochs = Epochs()
        self._processes += 1

    def _choose(self, total: int | None, *, finished: bool) -> Progress | None:
        """The bar of the training, which may have `finished`. Those of evaluations have not run as long."""
        named = self._bars.get(total or self._announced or -1)
        running = [each for each in self._bars.values() if each.step < each.total]
        running = running or [*self._bars.values()] if finished else running
        return named or max(running, key=lambda each: each.elapsed_s, default=None)

    # --- of which step a dict is -------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        """Tell the clock of every dict whose step is known, in their order."""
        while self._waiting:
            step = self._step_of(self._waiting[0])
            if step is None:
                return
            self._tell(self._waiting.popleft(), step)

    def _step_of(self, logged: Logged) -> int | None:
        if logged.step is not None:
            return logged.step
        if logged.loss is None and self._epochs.last_text == logged.epoch and self._epochs.last_step:
            return self._epochs.last_step  # evaluated after the row of the same step
        training = self._training
        if training is None:
            return None
        while training.painted_again:
            step = training.painted_again[0]
            if not self._epochs.is_past(step, logged.epoch):
                if self._epochs.is_ahead(step, logged.epoch):
                    return self._epochs.step_of(logged.epoch)
                training.painted_again.popleft()
                return step
            training.painted_again.popleft()
        later = self._waiting[1].shown if len(self._waiting) > 1 else -1
        return logged.shown if not training.last_painted_again and 0 < logged.shown < later else None

    def _settle(self) -> None:
        """No more bars of this process: what is left is of the steps that the bar showed, or that the epochs tell."""
        self._resolve()
        while self._waiting and self._training is not None:
            logged = self._waiting[0]
            step = self._step_of(logged) or self._epochs.step_of(logged.epoch) or max(0, logged.shown)
            if not step:
                return
            self._tell(self._waiting.popleft(), step)

    def _tell(self, logged: Logged, step: int) -> None:
        self._epochs.add(step, logged.epoch)
        if logged.tokens and step and logged.tokens % step == 0:
            self._builder.fact("tokens_per_iteration", logged.tokens // step)
        else:
            self._builder.drop_fact("tokens_per_iteration")  # they are not the same in all
        training = self._training
        at_s = logged.at_s
        if at_s is None and training is not None:
            at_s = training.ended_s(step)
            training.forget(step)
        if logged.evaluated is not None:
            val, ms = logged.evaluated
            self._evaluation_ms += ms or 0.0
            self._clock.evaluation(step, val, ms=ms)
        elif at_s is not None:
            self._clock.row(step, at_s, logged.loss)
            self._builder.caveat("whole_seconds")
        else:
            self._builder.untimed_row(step, logged.loss)

    def _without_bars(self) -> None:
        """Steps from the epochs and the end, where these leave no doubt."""
        rows = [each.epoch for each in self._waiting if each.loss is not None]
        between = steps_between_logs(rows, self._end)
        if between is None:
            raise NotALog(
                "{path}: {count} rows of Hugging Face Trainer, but the progress bars are missing, which have their "
                "steps and times; try the trainer_state.json of the same run",
                path=self._builder.name,
                count=len(rows),
            )
        step = 0
        for logged in self._waiting:
            step += between if logged.loss is not None else 0
            self._tell(logged, step)
        self._waiting.clear()
        self._clock.flush()
