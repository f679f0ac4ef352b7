"""The phases that a loop enters: a step, an evaluation, a checkpoint, or another one.

Each is a context manager and a decorator. Its values are plain attributes, to be set inside the block or after it,
until the next phase starts. An unknown name is not an error, since nothing here may stop training: the clock warns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Protocol, Self, TypeVar

from nanopace.ledger import CheckpointEvent, CompileEvent, EvalEvent, Event, StepEvent

if TYPE_CHECKING:
    from types import TracebackType

    from nanopace.clock.late_values import LateValues

P = ParamSpec("P")
R = TypeVar("R")
_DIGITS = 4  # of a millisecond


class Times(Protocol):
    """Measures the phases: the Clock."""

    def enter(self, phase: Phase) -> None: ...

    def leave(self, phase: Phase, *, failed: bool) -> None: ...


class Phase:
    """A stretch of time. `ms` grows as parts of it are measured."""

    __slots__ = ("__dict__", "_clock", "counts", "data_ms", "iteration", "ms", "name", "optimizer_ms", "taken")

    VALUES: ClassVar[tuple[str, ...]] = ()  # attributes that go into its event

    def __init__(self, clock: Times, name: str, iteration: object = None) -> None:
        self._clock = clock
        self.name = name
        self.iteration: Any = iteration  # an integer after `__enter__`
        self.ms = self.data_ms = self.optimizer_ms = 0.0
        self.counts = False  # it was entered, and its time does not belong to an enclosing phase
        self.taken: dict[str, Any] = {}  # its values at the end

    def __enter__(self) -> Self:
        self._clock.enter(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._clock.leave(self, failed=kind is not None)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Use it as a decorator: each call is a phase of this kind."""

        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> R:
            with type(self)(self._clock, self.name):
                return function(*args, **kwargs)

        return timed

    def set(self, values: Mapping[str, object]) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def take_values(self, late: LateValues, *, last: bool) -> None:
        """Start reading the values. `last`: the loop can set no more, so its tensors are released."""
        for name in self.VALUES:
            value = getattr(self, name)
            if value is not None:
                before = self.taken.get(name)
                if before is None or before[0] is not value:
                    self.taken[name] = value, late.take(name, value)
                if last and type(value) is not float:
                    setattr(self, name, None)
        if last:
            for name, (_, taken) in self.taken.items():
                self.taken[name] = taken

    def read_values(self, late: LateValues) -> None:
        """Finish reading the values, which are available by now."""
        for name, taken in self.taken.items():
            self.taken[name] = late.read(taken)

    @property
    def waited_ms(self) -> float:
        """How long its data was waited for before it began."""
        return 0.0

    def add(self, part: str, ms: float) -> None:
        """Add a measured part of its time."""
        self.ms += ms
        if part == "data":
            self.data_ms += ms
        elif part == "optimizer":
            self.optimizer_ms += ms

    def event(self, at_ms: float) -> Event:
        """The ledger event. Of the phases without a class, only compile has one."""
        assert self.name == "compile"
        return CompileEvent(round(self.ms, _DIGITS), None, self.iteration, at_ms=at_ms)

    def line(self, at_ms: float) -> Event | str:
        """The event, or its line in the ledger."""
        return self.event(at_ms)


class Step(Phase):
    """One iteration: waiting for its data, forward, backward, optimizer."""

    __slots__ = ("grad_norm", "loss", "lr", "skipped", "tokens", "waited")

    VALUES = ("loss", "tokens", "lr", "grad_norm", "skipped")

    def __init__(self, clock: Times, name: str = "step", iteration: object = None) -> None:
        super().__init__(clock, name, iteration)
        self.loss: Any = None  # a number, or a tensor, which is read once the card is done with it
        self.tokens: Any = None
        self.lr: Any = None
        self.grad_norm: Any = None
        self.skipped: Any = None  # the weights did not change because the loss or a gradient was not finite
        self.waited: Phase | None = None  # the wait for its data before it began

    @property
    def waited_ms(self) -> float:
        return 0.0 if self.waited is None else self.waited.ms

    def event(self, at_ms: float) -> Event:
        taken = self.taken
        return StepEvent(
            self.iteration,
            round(self.ms, _DIGITS),
            taken.get("loss"),
            _count(taken.get("tokens")),
            taken.get("lr"),
            taken.get("grad_norm"),
            bool(taken.get("skipped")),
            at_ms=at_ms,
        )

    def line(self, at_ms: float) -> Event | str:
        """The line that the codec would write, in a fifth of the time, if the step has only the usual values."""
        taken = self.taken
        loss, lr = taken.get("loss"), taken.get("lr")
        if len(taken) != (loss is not None) + (lr is not None) or not isfinite((loss or 0.0) + (lr or 0.0)):
            return self.event(at_ms)
        said = "" if loss is None else f',"loss":{loss!r}'
        said += "" if lr is None else f',"lr":{lr!r}'
        return (
            f'{{"event":"step","iteration":{self.iteration},"ms":{round(self.ms, _DIGITS)!r}{said},"at_ms":{at_ms!r}}}'
        )


class Evaluation(Phase):
    """One evaluation, before the step of its iteration."""

    __slots__ = ("metric", "train", "val")

    VALUES = ("train", "val")

    def __init__(self, clock: Times, name: str = "evaluation", iteration: object = None) -> None:
        super().__init__(clock, name, iteration)
        self.train: Any = None
        self.val: Any = None
        self.metric: Any = "loss"  # or bpb: bits per byte

    def event(self, at_ms: float) -> Event:
        taken, ms = self.taken, round(self.ms, _DIGITS)
        return EvalEvent(self.iteration, taken.get("train"), taken.get("val"), str(self.metric), ms, at_ms=at_ms)


class Checkpoint(Phase):
    """One checkpoint, for as long as training waits for it."""

    __slots__ = ("bytes", "path")

    VALUES = ("bytes",)

    def __init__(self, clock: Times, name: str = "checkpoint", iteration: object = None) -> None:
        super().__init__(clock, name, iteration)
        self.path: Any = None
        self.bytes: Any = None

    def event(self, at_ms: float) -> Event:
        path, size = None if self.path is None else str(self.path), _count(self.taken.get("bytes"))
        return CheckpointEvent(self.iteration, path, round(self.ms, _DIGITS), bytes=size, at_ms=at_ms)


def _count(value: float | None) -> int | None:
    return int(value) if value is not None and 0 <= value < 2**53 else None
