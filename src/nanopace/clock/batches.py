"""How long a loop waits for its data, whoever loads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any, Generic, TypeVar, cast

from nanopace.clock.phases import Phase

T = TypeVar("T")


class Batches(Generic[T]):
    """A loader whose batches are waited for inside the phase `data`. Everything else is the loader's own."""

    def __init__(self, data: Phase, loader: Iterable[T]) -> None:
        self._data, self._loader = data, loader

    def __iter__(self) -> Iterator[T]:
        with self._data:  # here a DataLoader starts its workers
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
        if name == "_loader":  # not made yet: a copy in the making
            raise AttributeError(name)
        return getattr(self._loader, name)
