"""Reads the console output of Hugging Face's Trainer, and of TRL, Axolotl, LLaMA-Factory and ms-swift, which use it.

Its dicts have a loss (the mean of the steps since the previous dict) and an epoch, but neither a step nor a time. Both
are in the progress bar. Its clock shows whole seconds and keeps running during evaluations, whose dicts have their
duration.
"""

from __future__ import annotations

from nanopace.errors import NotALog
from nanopace.sources.build import RunBuilder
from nanopace.sources.formats.hugging_face.console_lines import Bar, Cut, bars, entries, seconds, step_of, total_steps
from nanopace.sources.formats.hugging_face.entries import MOST_S, CountedTokens, ValidationSet, tell_rate, without_steps
from nanopace.sources.formats.hugging_face.matching import Logged, Matching
from nanopace.sources.formats.hugging_face.progress import Progress
from nanopace.sources.formats.hugging_face.steps_of_epochs import Known, end_of
from nanopace.sources.formats.hugging_face.swift_clock import SwiftClock
from nanopace.sources.formats.hugging_face.told import Told
from nanopace.sources.scalars import to_number

_WIPED = 20  # blanks that tqdm prints to erase a bar
_MOST_BARS = 64  # of different lengths, to remember
_CAME_DOWN = 0.1  # of the highest learning rate
_TELLING = 3  # keys of a dict that another one is not equal to by chance
_END = ("train_runtime", "train_steps_per_second")


class ConsoleReader:
    """Holds a dict back until its step is known."""

    def __init__(self, builder: RunBuilder, _width: int = 0) -> None:
        self._builder = builder
        self._told = Told(builder)
        self._bars: dict[int, Progress] = {}
        self._training: Progress | None = None
        self._announced: int | None = None  # total steps
        self._matching = Matching(self._tell)
        self._cut = Cut()
        self._validation = ValidationSet()
        self._swift_clock = SwiftClock()
        self._tokens = CountedTokens(builder)
        self._processes = 1
        self._wiped = 0  # bars since the last one was painted
        self._end: dict[str, object] = {}  # what a process printed last
        self._over = False  # the process has ended, and no other has started
        self._another = False  # one has ended, and the next has no bar yet
        self._last: dict[str, object] = {}  # dict
        self._rates: list[float] = []  # the highest learning rate, and the last one

    def feed(self, line: str) -> bool:
        text = line.lstrip()
        self._wiped += len(line) - len(text) >= _WIPED and text[:1] in ("", "{")
        if line.isspace():
            return True
        total = total_steps(line)
        if total is not None:
            self._announced = total
            return True
        things: list[tuple[int, Bar | dict[str, object]]] = [(bar.at, bar) for bar in bars(line)]
        things += entries(self._cut.mend(line, things[-1][0] if things else 0))
        last: Bar | None = None
        for _, thing in sorted(things, key=lambda each: each[0]):
            if isinstance(thing, Bar):
                self._bar(thing)
                last = thing
            else:
                self._log(thing, last)
        return bool(things)

    def feed_cut(self, line: str) -> bool:
        """A dict counts if it has its closing brace, and a bar if it has its rate."""
        return self.feed(line)

    def finish(self) -> None:
        self._conclude()
        if any(each.loss is not None for each in self._matching.waiting):
            self._without_bars()
        if self._matching.lost and self._told.nothing:
            raise without_steps(self._builder.name, self._matching.lost)
        if self._end and self._told.nothing:
            raise NotALog(
                "{path}: a Hugging Face Trainer run that logged no loss; there is nothing to explain",
                path=self._builder.name,
            )
        runtime = to_number(self._end.get("train_runtime"))
        if self._processes == 1 and runtime is not None and 0 < runtime < MOST_S:
            self._builder.wall_ms(1000 * runtime)
            tell_rate(self._builder, self._end, self._told.evaluation_ms)

    # --- reading -----------------------------------------------------------------------------------------------------

    def _bar(self, bar: Bar) -> None:
        for each in self._bars.values():
            each.erase(self._wiped)
        self._wiped = 0
        progress = self._bars.get(bar.total)
        if self._over and (progress is None or progress is not self._training or progress.begins_anew(bar)):
            self._forget()
            progress = None
        if progress is not None and progress.begins_anew(bar):
            if progress is self._training:
                self._conclude()
                self._begin_process()
            progress = None
        if progress is None:
            progress = Progress(bar.total)
            if len(self._bars) >= _MOST_BARS:
                del self._bars[next(total for total, each in self._bars.items() if each is not self._training)]
            if self._training is not None and self._training.total == bar.total:
                self._training = progress
            self._bars[bar.total] = progress
        for each in self._bars.values():
            if each is not progress:
                each.below()
        progress.add(bar)
        if self._training is None and self._matching.waiting and progress.logged_first:
            self._follow(progress)
        if progress is self._training:
            self._matching.resolve(progress)

    def _log(self, entry: dict[str, object], before: Bar | None) -> None:
        if entry == self._last and len(entry) >= _TELLING and not self._bars:
            return  # printed twice: by the Trainer, and by a callback
        self._last = entry
        if any(key in entry for key in _END) and "loss" not in entry:
            self._ended(entry)
            return
        step, total = step_of(entry)
        loss = to_number(entry.get("loss"))
        evaluated = None if loss is not None else self._validation.read(entry)
        other = loss is None and evaluated is None
        if other and not self._wiped and not any(each.counts for each in self._bars.values()):
            return
        if self._over and loss is not None:
            self._forget()
        epoch = str(entry.get("epoch", ""))
        if self._training is None:
            chosen = self._choose(total, begun=epoch != "0" and not other)
            if chosen is not None:
                self._follow(chosen)
        bars = self._bars.values()
        waits = self._training or self._matching.waiting or to_number(epoch) or any(each.expects_dicts for each in bars)
        if evaluated is not None and not waits:
            self._builder.evaluation(0, None, evaluated[0], ms=evaluated[1])  # before training and its clock started
            return
        training = self._training
        if training is not None and evaluated is not None and evaluated[1] is not None:
            training.evaluated(evaluated[1] / 1000)
        if training is not None or total is not None:
            self._builder.fact("max_iters", total or (training.total if training else 0))
        near = before.step if before is not None and training is not None and before.total == training.total else None
        elapsed_s = seconds(entry.get("elapsed_time"))
        if elapsed_s is None and training is None:
            elapsed_s = to_number(entry.get("train_runtime"))  # present if tokens are counted; four digits
        fine_s = self._swift_clock.read(entry, step, elapsed_s)
        shown = training.step if training is not None else -1
        tokens = self._tokens.read(entry)
        rate = to_number(entry.get("learning_rate"))
        if rate is not None:
            self._rates = [max(rate, *self._rates[:1]) if self._rates else rate, rate]
        at_s = elapsed_s if fine_s is None else fine_s
        self._matching.add(
            Logged(epoch, loss, evaluated, step, near, at_s, fine_s is not None, shown, tokens, rate), training
        )

    def _ended(self, entry: dict[str, object]) -> None:
        """The last dict of a process. Its bar may be drawn once more, at its end."""
        self._end, self._over = entry, True
        self._matching.resolve(self._training)
        self._builder.ending("finished")

    def _conclude(self) -> None:
        """This process is over: all its dicts are there, even late ones."""
        if self._training is None and (chosen := self._choose(None, ended=self._over)) is not None:
            self._follow(chosen)
        training = self._training
        if training is not None:
            finished = self._over and training.step >= training.total
            total, epoch = training.total, str(self._end.get("epoch", ""))
            self._matching.settle(training, Known(total, total, epoch) if finished else None)
            if not self._matching.lost:
                self._told.rows_of_bar(training)  # a training shorter than logging_steps logs no loss
        self._told.flush()
        if training is not None and (hidden := training.hides_time) is not None:
            self._builder.drop_times()
            self._builder.caveat("bar_hides_time", bar_s=hidden[0], gap_s=hidden[1])
        if self._over:
            self._builder.ending("finished")

    def _forget(self) -> None:
        self._conclude()
        self._bars.clear()
        self._training, self._over, self._another = None, False, True

    def _follow(self, training: Progress) -> None:
        self._training = training
        if self._another:
            self._begin_process()
        self._builder.fact("max_iters", training.total)

    def _begin_process(self) -> None:
        self._another = False
        self._told.restart()
        self._matching.begin_process()
        self._processes += 1

    def _choose(self, total: int | None, *, begun: bool = True, ended: bool = False) -> Progress | None:
        """The training's progress bar. Bars of evaluations have not run as long, once the training has `begun`. Before
        it has `ended`, a bar at its end is that of an earlier evaluation."""
        named = self._bars.get(total or self._announced or -1)
        if named or not begun:
            return named
        bars = [*self._bars.values()]
        running = [each for each in bars if each.step < each.total]
        return max(running or bars if ended else running, key=lambda each: each.elapsed_s, default=None)

    # --- interpreting ------------------------------------------------------------------------------------------------

    def _tell(self, logged: Logged, step: int) -> None:
        if logged.loss is None and logged.evaluated is None:
            return
        if step == 0 and to_number(logged.epoch):
            return  # it resumed, and the bar did not show from where
        if logged.loss is not None:
            self._tokens.add(step, logged.tokens)
            self._tokens.tell()
        training = self._training
        at_s = logged.at_s
        if at_s is None and training is not None:
            at_s = training.ended_s(step)
            training.forget(step)
        if logged.evaluated is not None:
            self._told.evaluation(step, *logged.evaluated)
        else:
            self._told.row(step, at_s, logged.loss, has_fractions=logged.has_fractions)
            self._builder.rate(step, logged.rate)

    def _without_bars(self) -> None:
        """Derive the steps from the epochs and the end, if these leave no doubt. The rate at the end uses max_steps,
        even if training stopped early; only a decayed learning rate shows that it did not."""
        came_down = bool(self._rates) and self._rates[-1] <= _CAME_DOWN * self._rates[0]
        end = end_of(self._end) if came_down else None
        self._matching.settle(None, end)
        self._told.flush()
        if end is not None:
            self._builder.ending("finished", round((end.least + end.most) / 2))
