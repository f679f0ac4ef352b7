"""What a GPU did during a trace, and what it waited for when idle.

Idle time is a gap in which no stream has work. The work that ends the gap shows the reason:

host   when the GPU ran out of work, the host had not launched it yet: Python, a small model, a loss being read
copy   it was launched in time, and the work before it, or this work, is a copy between host and GPU: inputs or results
wait   it was launched in time but did not start: it waits for an event, or the GPU takes a moment
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from nanopace.trace.kernels import Class, class_of
from nanopace.trace.read import Trace, Work

MOST_NAMES = 3  # kernels to show for each class


@dataclass(frozen=True, slots=True)
class KernelClass:
    name: Class
    busy_ms: float  # sum; if streams overlap, more than the wall clock
    share: float  # of the time of all kernels
    count: int
    kernels: tuple[tuple[str, float], ...]  # the longest, with their ms


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """One GPU in one trace."""

    trace: str
    device: int
    device_name: str | None
    window_ms: float  # from the start of its first work to the end of its last
    busy_ms: float  # time with at least one busy stream
    idle_host_ms: float
    idle_copy_ms: float
    idle_wait_ms: float
    steps: int | None  # None: the program marked no steps
    classes: tuple[KernelClass, ...]  # largest first
    launches: int

    @property
    def idle_ms(self) -> float:
        return self.window_ms - self.busy_ms

    @property
    def busy_share(self) -> float:
        return self.busy_ms / self.window_ms if self.window_ms else 0.0


def summarise(trace: Trace) -> list[TraceSummary]:
    return [_of_gpu(trace, device, work) for device, work in sorted(trace.work.items())]


def _of_gpu(trace: Trace, device: int, work: Sequence[Work]) -> TraceSummary:
    idle = {"host": 0.0, "copy": 0.0, "wait": 0.0}
    first, reached, last = work[0].begin, work[0].begin, work[0]
    for each in work:
        if each.begin > reached:
            idle[_cause(reached, each, last)] += each.begin - reached
        if each.end >= reached:
            reached, last = each.end, each
    window = reached - first
    steps = sum(begin < reached and end > first for begin, end in trace.steps)
    return TraceSummary(
        trace=trace.name,
        device=device,
        device_name=trace.devices.get(device),
        window_ms=window / 1000,
        busy_ms=(window - sum(idle.values())) / 1000,
        idle_host_ms=idle["host"] / 1000,
        idle_copy_ms=idle["copy"] / 1000,
        idle_wait_ms=idle["wait"] / 1000,
        steps=steps or None,
        classes=_classes(work),
        launches=len(work),
    )


def _cause(begin: float, following: Work, last: Work) -> str:
    """Why the gap from `begin` to the following work occurred."""
    if following.asked is not None and following.asked > begin:
        return "host"
    return "copy" if last.is_copy or following.is_copy else "wait"


def _classes(work: Sequence[Work]) -> tuple[KernelClass, ...]:
    names: Counter[str] = Counter()
    counts: Counter[Class] = Counter()
    for each in work:
        names[each.name] += round(1000 * (each.end - each.begin))  # nanoseconds, because integers add up exactly
        counts[class_of(each.name)] += 1
    kernels: defaultdict[Class, list[tuple[str, float]]] = defaultdict(list)
    for name, nanoseconds in names.most_common():
        kernels[class_of(name)].append((name, nanoseconds / 1e6))
    total = names.total() / 1e6
    found = [
        KernelClass(
            name,
            busy := sum(ms for _, ms in own),
            busy / total if total else 0.0,
            counts[name],
            tuple(own[:MOST_NAMES]),
        )
        for name, own in kernels.items()
    ]
    return tuple(sorted(found, key=lambda each: -each.busy_ms))
