"""Evaluations and checkpoints of a growing run. Those from an iteration on can be taken out.

A process may go back at every row of a log. Going back must cost only as much as it takes out; otherwise, a log of a
few megabytes would take hours.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Generic, Self, TypeVar

from nanopace.run import Checkpoint, Evaluation

Event = TypeVar("Event", Evaluation, Checkpoint)
_Key = tuple[int, str]


def _key(event: Evaluation | Checkpoint) -> _Key:
    return event.iteration, event.metric if isinstance(event, Evaluation) else ""


class ByIteration(Generic[Event]):
    """Events by iteration, evaluations also by metric. The last one with a key counts."""

    def __init__(self) -> None:
        self._events: dict[_Key, Event] = {}
        self._latest: list[tuple[int, _Key]] | None = None  # a heap, created the first time something goes back

    def __copy__(self) -> Self:
        twin = type(self)()
        twin._events = dict(self._events)
        return twin

    def put(self, event: Event) -> Event | None:
        """Add an event. Return the one that it replaces."""
        key = _key(event)
        before = self._events.get(key)
        if self._latest is not None and before is None:
            heappush(self._latest, (-event.iteration, key))
        self._events[key] = event
        return before

    def latest(self) -> int:
        """The highest iteration, or -1 if there is none."""
        heap = self._heap()
        return -heap[0][0] if heap else -1

    def take_from(self, iteration: int) -> list[Event]:
        """Take out the events of this iteration and later, sorted by iteration."""
        heap, taken = self._heap(), []
        while heap and -heap[0][0] >= iteration:
            taken.append(self._events.pop(heappop(heap)[1]))
        return taken[::-1]

    def in_order(self) -> tuple[Event, ...]:
        """All events, sorted by iteration."""
        return tuple(self._events[key] for key in sorted(self._events))

    def _heap(self) -> list[tuple[int, _Key]]:
        if self._latest is None:
            self._latest = [(-event.iteration, key) for key, event in self._events.items()]
            heapify(self._latest)
        return self._latest
