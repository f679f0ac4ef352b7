"""A clock whose hands the test sets, and a card that lags behind its host."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from nanopace.clock import book, process, timeline
from nanopace.ledger import read_ledger
from nanopace.ledger.file import Ledger


class Hands:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        return self.now

    monotonic = perf_counter

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def work(self, ms: float) -> None:
        self.now += ms / 1000


class Event:
    """Passes once the card has done everything queued before it."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self.at = 0.0

    def record(self, _stream: object) -> None:
        self.at = max(self._card.hands.now, self._card.busy_until)

    def query(self) -> bool:
        return self.at <= self._card.hands.now

    def elapsed_time(self, other: Event) -> float:
        return (other.at - self.at) * 1000


class Card:
    """Stands in for torch.cuda: `work` is queued and done in turn."""

    def __init__(self, hands: Hands) -> None:
        self.hands = hands
        self.busy_until = 0.0
        self.synchronized = 0
        self.capturing = False

    def work(self, ms: float) -> None:
        self.busy_until = max(self.busy_until, self.hands.now) + ms / 1000

    def is_initialized(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def current_stream(self, _device: int) -> None:
        return None

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def synchronize(self, _device: int) -> None:
        self.synchronized += 1
        self.hands.now = max(self.hands.now, self.busy_until)

    def Event(self, enable_timing: bool) -> Event:  # noqa: N802  # its name in torch
        assert enable_timing
        return Event(self)

    def device_count(self) -> int:
        return 1

    def get_device_properties(self, _device: int) -> Any:
        return mock.Mock(total_memory=12 << 30, multi_processor_count=46, name="card")


@contextmanager
def hands_of_a_clock(*, card: bool = False) -> Iterator[tuple[Hands, Card]]:
    """Inside this context, a new Clock reads these hands and starts with them."""
    hands = Hands()
    cuda = Card(hands)
    loops_torch = mock.MagicMock(cuda=cuda, __version__="2", distributed=None) if card else None
    with (
        mock.patch.multiple(timeline, time=hands),
        mock.patch.multiple(book, time=hands),
        mock.patch.multiple(process, time=hands, _first=False),
        mock.patch.dict(sys.modules, {"torch": loops_torch}),
    ):
        yield hands, cuda


def ledger_of(path: Path) -> Ledger:
    with open(path / "ledger.jsonl" if path.is_dir() else path, "rb") as file:
        return read_ledger(file)
