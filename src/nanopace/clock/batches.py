"""Measures how long a loop waits for its data, whatever loads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any, Generic, TypeVar, cast

from nanopace.clock.phases import Phase

T = TypeVar("T")


class Batches(Generic[T]):
    """Wraps a loader: waiting for a batch counts as phase `data`. Everything else is passed on to the loader."""

    def __init__(self, data: Phase, loader: Iterable[T]) -> None:
        self._data, self._loader = data, loader

    def __iter__(self) -> Iterator[T]:
        with self._data:  # a DataLoader starts its workers here
            batches = iter(self._loader)
        while True:
            with self._data:
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            yield batch

    def __len__(self) -> int:
        return len(cast(Sized, self._loader))

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # not set yet: an unfinished copy
            raise AttributeError(name)
        return getattr(self._loader, name)
