"""A loss that is a tensor on a card is not there yet: it is copied behind the step, and read when the step is done.

The copy is ordered in the stream, so whatever the loop does to the tensor afterwards, the value is the step's own.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Any

_PLACES = 1024  # values that are on their way at the same time


class LateValues:
    """Numbers as they are, and tensors by and by."""

    def __init__(self, unreadable: Callable[[str, object], object]) -> None:
        """`unreadable` hears of a value that is no number, by its name."""
        self._unreadable = unreadable
        self._places: deque[Any] | None = None

    def take(self, name: str, value: Any) -> Any:
        """A number, or something for `read`."""
        if type(value) is float:
            return value
        device = getattr(value, "device", None)
        try:
            if getattr(device, "type", "cpu") == "cpu":
                return float(value.item() if hasattr(value, "item") else value)
            if device is not None and device.type == "cuda" and value.numel() == 1:
                return self._copied(value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            pass
        self._unreadable(name, value)
        return None

    def read(self, taken: Any) -> float | None:
        """The number. The card must have passed the step that it is of."""
        if taken is None or type(taken) is float:
            return taken
        value = taken.item()  # in the host's memory: nobody waits
        assert self._places is not None
        self._places.append(taken)
        return float(value)

    def prepare(self, torch: Any) -> None:
        """Places in memory that the card can write to, which take some milliseconds to get."""
        if self._places is None:
            with torch.inference_mode(False):  # an evaluation may be the first to come here
                places = torch.zeros(_PLACES, dtype=torch.float32, device="cpu").pin_memory()
                self._places = deque(places.unbind())

    def _copied(self, value: Any) -> Any:
        torch = sys.modules["torch"]
        if torch.cuda.is_current_stream_capturing():
            return None  # a copy would be captured, too
        self.prepare(torch)
        if not self._places:
            return None  # the host is a thousand values ahead
        place = self._places.popleft()
        place.copy_(
            value.detach().reshape(()).float(), non_blocking=True
        )  # another dtype would take a detour, and wait
        return place
