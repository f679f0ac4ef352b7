"""A loss that is a tensor on a card is not available yet. It is copied after the step, and read when the step is done.

The copy is queued in the stream, so the value is the step's, whatever the loop does to the tensor later.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Any

_PLACES = 1024  # values that can be pending at the same time


class LateValues:
    """Reads numbers at once, and tensors later."""

    def __init__(self, unreadable: Callable[[str, object], object]) -> None:
        """`unreadable` is called with the name of a value that is not a number."""
        self._unreadable = unreadable
        self._places: deque[Any] | None = None

    def take(self, name: str, value: Any) -> Any:
        """Return a number, or something for `read`."""
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
        """Return the number. The card must have finished the step."""
        if taken is None or type(taken) is float:
            return taken
        value = taken.item()  # already in host memory: no wait
        assert self._places is not None
        self._places.append(taken)
        return float(value)

    def prepare(self, torch: Any) -> None:
        """Allocate memory that the card can write to, which takes some milliseconds."""
        if self._places is None:
            with torch.inference_mode(False):  # the first caller may be an evaluation
                places = torch.zeros(_PLACES, dtype=torch.float32, device="cpu").pin_memory()
                self._places = deque(places.unbind())

    def _copied(self, value: Any) -> Any:
        torch = sys.modules["torch"]
        if torch.cuda.is_current_stream_capturing():
            return None  # the copy would be captured, too
        self.prepare(torch)
        if not self._places:
            return None  # the host is a thousand values ahead
        place = self._places.popleft()
        place.copy_(
            value.detach().reshape(()).float(), non_blocking=True
        )  # another dtype would need a conversion and wait
        return place
