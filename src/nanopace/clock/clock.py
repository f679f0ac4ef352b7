"""`Clock`: add a few lines to any loop to get a ledger that says where the time went.

Marks divide the time without gaps, so every moment since the process started belongs to exactly one phase:

- A step lasts from its beginning to its end, plus the wait for its data, even if that came before.
- An evaluation, a checkpoint or another phase inside a step is not part of it; `data` and `optimizer` are.
- Any other phase contains everything inside it: an evaluation's batches are part of the evaluation.
- Time outside all phases is start-up before the first step, and "other" after it.

A clock never stops a training. Only wrong arguments of `Clock(...)` are an error, because nothing has started then. Any
later failure turns the clock off, with one warning.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from operator import index
from typing import TYPE_CHECKING, Any, Self, TypeVar

from nanopace.clock import arguments, machine
from nanopace.clock.batches import Batches
from nanopace.clock.book import Book
from nanopace.clock.late_values import LateValues
from nanopace.clock.phases import Checkpoint, Evaluation, Phase, Step
from nanopace.clock.process import beginning, ending_of
from nanopace.clock.timeline import CudaTimeline, HostTimeline
from nanopace.errors import reason_of

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")
_PARTS = ("data", "optimizer")  # parts of a step
_SPANS = ("startup", "logging", "other")  # phases without a separate event
_PATIENCE_S = 10.0  # for the card, at the end
_alive: weakref.WeakSet[Clock] = weakref.WeakSet()


class Clock:
    """Writes a ledger of the loop around it. docs/clock.md explains everything.

    with Clock("out", config={"batch_size": 8}, tokens_per_iteration=8 * 1024) as clock:
        for batch in clock.batches(loader):
            with clock.step() as step:
                step.loss = train_on(batch)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        config: Mapping[str, object] | None = None,
        tokens_per_iteration: int | None = None,
        parameters: int | None = None,
        flops_per_token: float | None = None,
        resume: int = 0,
        trainer: str = "loop",
    ) -> None:
        """`path`: a file ending in .jsonl, or a directory for a ledger.jsonl. With several ranks, only the first one
        writes.

        `config`: the run's knobs, under nanoGPT's names if it has them. Only numbers, strings and booleans are
        recorded.

        `tokens_per_iteration`: across all cards. `flops_per_token`: forward and backward, about 6 per parameter.

        `resume`: the first iteration of this process, if the ledger already contains the run so far.
        """
        self._path = arguments.ledger_path(path)
        self._facts: dict[str, Any] = {
            "config": arguments.scalars(config),
            "tokens_per_iteration": arguments.whole("tokens_per_iteration", tokens_per_iteration),
            "parameters": arguments.whole("parameters", parameters),
            "flops_per_token": arguments.positive("flops_per_token", flops_per_token),
            "trainer": str(trainer),
        }
        self._resume = arguments.whole("resume", resume, least=0) or 0
        began = beginning()
        self._book = Book(began)
        self._book.iteration = self._resume
        self._timeline: HostTimeline | CudaTimeline = HostTimeline(began, self._complete)
        self._late = LateValues(self._unreadable)
        self._open: list[Phase] = []
        self._ended: Phase | None = None  # its values may still be set
        self._waiting = Phase(self, "data")  # the wait for the next step's data
        self._failed: list[Phase] = []
        self._warned: set[str] = set()
        self._thread: int | None = None  # the one that trains
        self._off = machine.rank_and_world(machine.torch_of_the_loop())[0] > 0
        if not self._off:
            _alive.add(self)
            atexit.register(self._at_exit)

    # --- phases ------------------------------------------------------------------------------------------------------

    def step(self, iteration: int | None = None, **values: object) -> Step:
        """Start an iteration. Without a number, it is the next one. Values: loss, tokens, lr, grad_norm, skipped."""
        step = Step(self, iteration=iteration)
        step.set(values)
        return step

    def evaluation(self, iteration: int | None = None, **values: object) -> Evaluation:
        """Start an evaluation of the model before the next step. Values: val, train, metric."""
        evaluation = Evaluation(self, iteration=iteration)
        evaluation.set(values)
        return evaluation

    def checkpoint(self, path: object = None, iteration: int | None = None, **values: object) -> Checkpoint:
        """Start a checkpoint that training waits for. Values: bytes."""
        checkpoint = Checkpoint(self, iteration=iteration)
        checkpoint.set({"path": path, **values})
        return checkpoint

    def data(self) -> Phase:
        """Start waiting for data. This counts as part of the step that needs it."""
        return Phase(self, "data")

    def phase(self, name: str) -> Phase:
        """Start another phase: optimizer (a part of the step), compile, startup, logging or other."""
        if name not in (*_PARTS, *_SPANS, "compile"):
            self._warn("phase", f"unknown phase {name!r}; its time counts as 'other'")
            name = "other"
        return Phase(self, name)

    def batches(self, loader: Iterable[T]) -> Batches[T]:
        """Wrap a loader, so that waiting for each batch counts as data."""
        return Batches(self.data(), loader)

    def passed(self, phase: Phase) -> None:
        """Count the time since the last phase as this one. For callbacks that are called when something is over."""
        if self._is_mine() and not self._open:
            try:
                self._number(phase)
                self._end(phase, None)
            except Exception as error:
                self._give_up(error)

    def note(self, text: str) -> None:
        """Add a line that the report shows."""
        self._book.note(str(text))

    def close(self, reason: str | None = "finished") -> None:
        """End the recording. `reason`: why training ended; None if unknown."""
        if self._off:
            return
        try:
            self._finish(reason)
        except Exception as error:
            self._give_up(error)
        self._turn_off()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(ending_of(error))

    def __reduce__(self) -> tuple[Callable[[], Clock], tuple[()]]:
        """A copy is turned off: only the original writes."""
        return _off_clock, ()

    # --- called by phases --------------------------------------------------------------------------------------------

    def enter(self, phase: Phase) -> None:
        if not self._is_mine():
            return
        try:
            inside = self._open[-1] if self._open else None
            if inside is not None and (not isinstance(inside, Step) or isinstance(phase, Step)):
                return  # its time belongs to the enclosing phase
            self._number(phase)
            if isinstance(phase, Step):
                self._prepare()
                if self._off:
                    return
                phase.waited, self._waiting = self._waiting, Phase(self, "data")
            self._mark(inside or self._book, "step" if inside else self._outside)
            phase.counts = True
            self._open.append(phase)
        except Exception as error:
            self._give_up(error)

    def leave(self, phase: Phase, *, failed: bool) -> None:
        if not phase.counts or not self._is_mine():
            return
        phase.counts = False
        try:
            while self._open and self._open.pop() is not phase:
                pass
            self._end(phase, self._open[-1] if self._open else None, failed=failed)
        except Exception as error:
            self._give_up(error)

    # --- the time ----------------------------------------------------------------------------------------------------

    @property
    def _outside(self) -> str:
        """The name of the time outside all phases."""
        return "other" if self._book.is_open else "startup"

    def _end(self, phase: Phase, step: Phase | None, *, failed: bool = False) -> None:
        """Count the time since the last mark as this phase. `step`: the enclosing step."""
        name = phase.name
        if name in _PARTS and (step is not None or name == "data"):
            self._mark(step or self._waiting, name)
        elif name in (*_PARTS, *_SPANS):
            self._mark(self._book, name if name in _SPANS else self._outside)
        else:
            self._take_values(phase)
            self._mark(phase, name)
            if failed:
                self._failed.append(phase)  # it took time but produced nothing
                return
            self._ended = phase
            if isinstance(phase, Step):
                self._book.iteration = phase.iteration + 1

    def _mark(self, owner: Phase | Book, part: str) -> None:
        ended, self._ended = self._ended, None
        if ended is not None:
            self._take_values(ended, last=True)
        self._timeline.mark(owner, part, ended)

    def _complete(self, phase: Phase) -> None:
        """Write a phase whose time is measured and whose values are available."""
        phase.read_values(self._late)
        self._book.complete(phase)

    def _take_values(self, phase: Phase, *, last: bool = False) -> None:
        """Read the values set so far. `last`: the loop can set no more."""
        phase.take_values(self._late, last=last)
        if last:
            for name in phase.__dict__:
                self._warn(name, f"{phase.name} has no {name!r}; it is left out")

    def _prepare(self) -> None:
        """Prepare for a step. The first one detects the machine and opens the ledger."""
        torch = machine.torch_of_the_loop()
        if isinstance(self._timeline, HostTimeline) and (card := machine.card_in_use(torch)) is not None:
            with suppress(RuntimeError):  # without this memory, losses are unknown
                self._late.prepare(torch)  # before the first step, not inside one
            self._timeline = CudaTimeline(torch.cuda, card, self._timeline, self._book, self._outside)
        if self._book.is_open:
            return
        if machine.rank_and_world(torch)[0] > 0:
            self._turn_off()
            return
        self._mark(self._book, "startup")
        facts = {**self._facts, **machine.introduction(torch)}
        try:
            self._book.open(self._path, self._resume, facts, self._in_trouble, self._give_up)
        except OSError as error:
            self._warn("off", f"{self._path}: {reason_of(error)}; the clock is off, and training continues")
            self._turn_off()

    def _finish(self, reason: str | None) -> None:
        while self._open:
            self.leave(self._open[-1], failed=True)
        self._mark(self._book, self._outside)
        self._timeline.settle(_PATIENCE_S)
        self._book.add("other", self._waiting.ms)
        for phase in self._failed:
            self._book.add("other" if isinstance(phase, Step) else phase.name, phase.ms + phase.waited_ms)
        self._book.close(reason)

    def _number(self, phase: Phase) -> None:
        """Set the iteration of a phase. If a loop counts from 0 in each epoch, the numbering continues."""
        asked, inside = phase.iteration, self._open[-1] if self._open else None
        phase.iteration = self._book.iteration if inside is None else inside.iteration
        if asked is None:
            return
        with suppress(TypeError):
            number = index(asked)
            if number >= (self._book.iteration if isinstance(phase, Step) else 0):
                phase.iteration = number
                return
        self._warn("iteration", f"step {asked!r} after step {phase.iteration - 1}: the clock numbers the steps itself")

    # --- errors ------------------------------------------------------------------------------------------------------

    def _is_mine(self) -> bool:
        """Whether the clock is on and this is the training thread: other threads do not hold it up."""
        if self._off:
            return False
        if self._thread is None:
            self._thread = threading.get_ident()
        return self._thread == threading.get_ident()

    def _unreadable(self, name: str, value: object) -> None:
        kind = type(value).__name__
        self._warn(name, f"{name} is left out: a {kind} that is not one number on the CPU or a CUDA card")

    def _in_trouble(self, text: str) -> None:
        self._warn("disk", text)

    def _give_up(self, error: Exception) -> None:
        self._warn("off", f"the clock is off, and training continues: {type(error).__name__}: {error}")
        self._turn_off()

    def _turn_off(self) -> None:
        self._off = True
        self._open.clear()
        atexit.unregister(self._at_exit)

    def _warn(self, about: str, text: str) -> None:
        """Warn once per subject. If warnings are turned into errors, stay silent."""
        if about not in self._warned:
            self._warned.add(about)
            with suppress(Exception):
                warnings.warn(f"nanopace: {text}", RuntimeWarning, stacklevel=4)

    def _at_exit(self) -> None:
        """The process ends without closing the clock. Python still has the error that ended it."""
        error = getattr(sys, "last_value", None)
        self.close(None if error is None or hasattr(sys, "ps1") else ending_of(error))


def _off_clock() -> Clock:
    clock = Clock(os.devnull)
    clock._turn_off()
    return clock


def _turn_off_in_child() -> None:
    for clock in list(_alive):
        clock._turn_off()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_turn_off_in_child)
