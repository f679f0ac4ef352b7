"""One page as all its viewers see it, and what has changed since their version.

All viewers of a page in the same language share one channel: it is rendered once, however many there are.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from nanopace.live.web.library import Key
from nanopace.views.page.render import Page

_COLUMNS = ("x", "y", "low", "high")


class Rendered(NamedTuple):
    """A page at one moment."""

    page: Page
    body: str
    charts: dict[str, dict[str, object]]
    version: str


def rendered(page: Page) -> Rendered:
    body, charts = page.body(), page.charts()
    said = json.dumps([body, charts], allow_nan=False).encode()
    return Rendered(page, body, charts, hashlib.sha256(said).hexdigest()[:16])


class Channel:
    """`render` is called where it may take a while; everything else belongs to the event loop."""

    def __init__(self, keys: tuple[Key, ...], render: Callable[[], Rendered]) -> None:
        self.keys = keys
        self.listeners = 0
        self.is_stale = False
        self.render = render
        self._left_s = time.monotonic()  # when someone last looked
        self.now: Rendered | None = None
        self._before: Rendered | None = None
        self._woken = asyncio.Event()
        self._events: dict[bool, bytes] = {}  # made once for all viewers

    @property
    def idle_s(self) -> float:
        """For how long nobody has looked."""
        return 0.0 if self.listeners else time.monotonic() - self._left_s

    def show(self, rendered: Rendered) -> None:
        self.is_stale = False
        if self.now is not None and rendered.version == self.now.version:
            return
        self._before, self.now = self.now, rendered
        self._events.clear()
        self.wake()

    def wake(self) -> None:
        """Let every viewer's `event` return: with what is new, or with a keep-alive message."""
        self._woken.set()
        self._woken = asyncio.Event()

    @contextmanager
    def listening(self) -> Iterator[None]:
        self.listeners += 1
        try:
            yield
        finally:
            self.listeners -= 1
            self._left_s = time.monotonic()

    async def event(self, version: str) -> tuple[str, bytes]:
        """The next update for a viewer with this version, and the resulting version; or a keep-alive message."""
        if self._has_seen(version):
            await self._woken.wait()
            if self._has_seen(version):
                return version, b": still here\n\n"
        assert self.now is not None
        known = self._before is not None and self._before.version == version
        if known not in self._events:
            self._events[known] = _event(self.now, self._before if known else None)
        return self.now.version, self._events[known]

    def _has_seen(self, version: str) -> bool:
        return self.now is None or self.now.version == version


def _event(now: Rendered, before: Rendered | None) -> bytes:
    """Everything, or only what differs from the viewer's version."""
    news: dict[str, object] = {"version": now.version}
    if before is None or now.body != before.body:
        news["body"] = now.body
    if before is None:
        news["charts"] = now.charts
    else:
        charts, tails = changes(before.charts, now.charts)
        news |= {"charts": charts, "tails": tails}
    return f"id: {now.version}\ndata: {json.dumps(news, allow_nan=False)}\n\n".encode()


def changes(
    before: dict[str, dict[str, object]], now: dict[str, dict[str, object]]
) -> tuple[dict[str, object], dict[str, object]]:
    """Charts to redraw, and the new points of those that only have more points."""
    charts: dict[str, object] = {}
    tails: dict[str, object] = {}
    for key, chart in now.items():
        known = before.get(key)
        if known == chart:
            continue
        tail = None if known is None else _tail(known, chart)
        if tail is None:
            charts[key] = chart
        else:
            tails[key] = tail
    return charts, tails


def _tail(before: dict, now: dict) -> dict[str, object] | None:  # type: ignore[type-arg]  # JSON
    """The new points by series number; None if anything else has changed."""
    series = list(zip(before["series"], now["series"], strict=False))
    if len(before["series"]) != len(now["series"]) or _but(before, "series") != _but(now, "series"):
        return None
    tails: dict[str, object] = {}
    for number, (old, new) in enumerate(series):
        if _but(old, *_COLUMNS) != _but(new, *_COLUMNS):
            return None
        if old == new:
            continue
        pairs = zip(_points(old), _points(new), strict=False)
        start = next((at for at, (was, now_) in enumerate(pairs) if was != now_), min(len(old["x"]), len(new["x"])))
        tails[str(number)] = {"from": start, **{column: new[column][start:] for column in _COLUMNS}}
    return tails


def _points(series: dict) -> Iterator[tuple[object, ...]]:  # type: ignore[type-arg]
    kept = [series[column] for column in _COLUMNS if series[column]]
    return zip(*kept, strict=True)


def _but(content: dict, *left_out: str) -> dict[str, object]:  # type: ignore[type-arg]
    return {key: value for key, value in content.items() if key not in left_out}
