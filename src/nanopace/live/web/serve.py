"""The server, from start to Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import uvicorn

from nanopace.errors import InputError, UsageError
from nanopace.live.web.app import Site
from nanopace.live.web.guard import LOOPBACK
from nanopace.live.web.library import Library
from nanopace.live.web.pages import Pages
from nanopace.prices import Prices
from nanopace.wording.catalog import Words

PORT = 8765  # always the same, so that an open page finds its server again; another one if it is taken
POLITE = 19  # niceness: a training on the same cores comes first


class _Server(uvicorn.Server):
    """Sleeps until a signal stops it. Checking ten times per second, as uvicorn does, costs time on busy cores."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopped = asyncio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    async def main_loop(self) -> None:
        await self.on_tick(0)  # the headers of all responses
        if not self.should_exit:
            await self._stopped.wait()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._loop.call_soon_threadsafe(self._stopped.set)


def serve(
    library: Library,
    words: Words,
    tell: Callable[[str], None],
    listening: socket.socket,
    *,
    host: str | None = None,
    prices: Prices | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until Ctrl-C. `host`: where others may connect, with a token; by default, only this machine. `ready` is
    called with the address."""
    token = None if host is None else secrets.token_urlsafe(16)
    site = Site(library, Pages(library, prices), words.lang)
    config = uvicorn.Config(
        site.app(host=host or LOOPBACK[1], token=token),
        log_level="error",
        lifespan="on",
        timeout_graceful_shutdown=1,
        server_header=False,
        date_header=False,
    )
    shown = _address(listening, host, token)
    tell(words.text("Live page: {address} (Ctrl-C closes the page; the training run continues)", address=shown))
    if ready is not None:
        ready(shown)
    with suppress(OSError, AttributeError):
        os.nice(POLITE)
    with suppress(KeyboardInterrupt):
        _Server(config).run(sockets=[listening])


def listen(host: str | None, port: int | None) -> socket.socket:
    """Open the socket for the pages. Any error is reported before anything else happens."""
    host = host or LOOPBACK[1]
    try:
        family, *_, place = socket.getaddrinfo(host, PORT if port is None else port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError, OverflowError) as error:
        raise UsageError(
            "--host {host}: {reason}", host=host, reason=getattr(error, "strerror", None) or error
        ) from None
    for attempt in (place, (place[0], 0, *place[2:])):
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(attempt)
            listening.listen(128)
        except OSError as error:
            listening.close()
            if port is not None or attempt is not place:
                raise InputError(
                    "cannot listen at {host}, port {port}: {reason}",
                    host=host,
                    port=attempt[1],
                    reason=error.strerror or str(error),
                ) from None
        else:
            return listening
    raise AssertionError


def _address(listening: socket.socket, host: str | None, token: str | None) -> str:
    name = host or LOOPBACK[1]
    if name in ("0.0.0.0", "::"):  # the printed address must be one that can be opened
        name = socket.gethostname()
    name = f"[{name}]" if ":" in name else name
    rest = f"?token={token}" if token is not None else ""
    return f"http://{name}:{listening.getsockname()[1]}/{rest}"
