"""The URLs: / is the list, or the only run; /?run=A a run, /?run=A&run=B a comparison, /events the updates."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from nanopace.live.web.bar import address
from nanopace.live.web.channel import Channel, rendered
from nanopace.live.web.guard import Guard
from nanopace.live.web.library import Key, Library, cores_are_busy
from nanopace.live.web.pages import MOST_COMPARED, Pages
from nanopace.wording.catalog import words
from nanopace.wording.numbers import LANGUAGES

TICK_S = 1.0
BUSY_TICK_S = 5.0  # where all cores are busy: a wake-up costs ten times as much there, and the training pays for it
FORGET_S = 30.0  # a page without viewers is updated no longer than this; its event stream opens a moment after the page
STILL_HERE_S = 15.0  # between two keep-alive messages
MOST_LISTENERS = 500

T = TypeVar("T")


class Site:
    """One thread does all reading and rendering, one task at a time; the event loop only sends."""

    def __init__(self, library: Library, pages: Pages, lang: str) -> None:
        self._library, self._pages, self._lang = library, pages, lang
        self._thread = ThreadPoolExecutor(1, "nanopace-page")
        self._channels: dict[tuple[tuple[Key, ...], str], Channel] = {}

    def app(self, *, host: str, token: str | None) -> Guard:
        routes = [Route("/", self._page), Route("/events", self._events)]
        return Guard(Starlette(routes=routes, lifespan=self._lifespan), words(self._lang), host=host, token=token)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(self._follow())
        yield
        task.cancel()
        self._thread.shutdown(cancel_futures=True)

    async def _follow(self) -> None:
        """As long as the server runs, read what has changed and send it to open pages."""
        woken_s = time.monotonic()
        while True:
            await self._look()
            for place, channel in list(self._channels.items()):
                if channel.listeners and channel.is_stale:
                    await self._show(channel)
                elif channel.idle_s > FORGET_S:
                    del self._channels[place]
            self._library.is_watched = bool(self._channels)
            self._library.wanted = frozenset(key.log for channel in self._channels.values() for key in channel.keys)
            if time.monotonic() - woken_s >= STILL_HERE_S:
                woken_s = time.monotonic()
                for channel in self._channels.values():  # all at once: their tasks share one wake-up
                    channel.wake()
            await asyncio.sleep(BUSY_TICK_S if cores_are_busy() else TICK_S)

    async def _look(self) -> None:
        """Read what is due, and mark the pages that it makes outdated."""
        changed = await self._aside(self._library.look)
        for channel in self._channels.values():
            channel.is_stale |= bool(changed & {key.log for key in channel.keys} if channel.keys else changed)

    async def _show(self, channel: Channel) -> None:
        channel.show(await self._aside(channel.render))

    async def _channel(self, keys: tuple[Key, ...], lang: str) -> Channel:
        place = (keys, lang)
        if place not in self._channels:
            self._channels[place] = Channel(keys, lambda: rendered(self._pages.page(keys, words(lang))))
        channel = self._channels[place]
        if not channel.listeners:
            self._library.is_watched = True
            await self._look()
            channel.show(await self._aside(channel.render))
        return channel

    async def _aside(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # --- addresses ---------------------------------------------------------------------------------------------------

    async def _page(self, request: Request) -> Response:
        asked = request.query_params
        names, lang = asked.getlist("run"), self._language(asked.get("lang"))
        keys = await self._keys(names)
        if len(keys) < len(names) or len(keys) > MOST_COMPARED:
            return RedirectResponse(address(keys[:MOST_COMPARED], lang), 303)
        now = (await self._channel(keys, lang)).now
        assert now is not None
        events = address(keys, lang).replace("/?", "/events?", 1) + f"&version={now.version}"
        return HTMLResponse(await self._aside(lambda: now.page.framed(now.body, now.charts, events=events)))

    async def _events(self, request: Request) -> Response:
        asked = request.query_params
        lang = self._language(asked.get("lang"))
        keys = await self._keys(asked.getlist("run"))
        if sum(channel.listeners for channel in self._channels.values()) >= MOST_LISTENERS:
            return PlainTextResponse("Too many pages are open.\n", 503)
        version = request.headers.get("last-event-id") or asked.get("version", "")
        channel = await self._channel(keys, lang)
        return StreamingResponse(_stream(channel, version), media_type="text/event-stream")

    async def _keys(self, names: list[str]) -> tuple[Key, ...]:
        """The existing ones, in order and without duplicates."""
        found = await self._aside(lambda: [self._library.find(name) for name in names[: MOST_COMPARED + 1]])
        return tuple(dict.fromkeys(key for key in found if key is not None))

    def _language(self, asked: str | None) -> str:
        return asked if asked in LANGUAGES else self._lang


async def _stream(channel: Channel, version: str) -> AsyncIterator[bytes]:
    with channel.listening():
        yield b"retry: 2000\n\n"
        while True:
            version, event = await channel.event(version)
            yield event
