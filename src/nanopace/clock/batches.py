"""How long a loop waits for its data, whoever loads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from nanopace.clock.clock import Clock

T = TypeVar("T")


class Batches(Generic[T]):
    """A loader whose batches are waited for inside `clock.data()`. Everything else is the loader's own."""

    def __init__(self, clock: Clock, loader: Iterable[T]) -> None:
        self._clock, self._loader = clock, loader

    def __iter__(self) -> Iterator[T]:
        data = self._clock.data()
        with data:  # here a DataLoader starts its workers
            batches = iter(self._loader)
        while True:
            with data:
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
