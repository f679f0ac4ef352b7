"""Access control, and what a browser may do with the answer.

Any web site open in the browser can send requests to a server on this machine, and so can a site whose name was made to
resolve to this machine. So the Host must be one of our names, the Origin our own, and a token is needed beyond
loopback. There is nothing to change: only GET and HEAD are answered.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nanopace.wording.catalog import Words

LOOPBACK = ("localhost", "127.0.0.1", "::1")
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    def __init__(self, app: ASGIApp, words: Words, *, host: str, token: str | None) -> None:
        """`token`: required in every request; None on loopback."""
        self._app, self._words, self._token = app, words, token
        names = (*LOOPBACK, host, socket.gethostname(), socket.getfqdn()) if token is not None else LOOPBACK
        self._names = {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, answer)

    def _refusal(self, scope: Scope) -> PlainTextResponse | RedirectResponse | None:
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return _refusal(405, self._words.text("This page is read-only."))
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_ours(host):
            return _refusal(403, self._words.text("The request is for another server."))
        if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            return _refusal(403, self._words.text("Another site may not read this page."))
        return self._without_token(scope, headers, host)

    def _is_ours(self, host: str) -> bool:
        """With a token, any IP address is accepted: unlike a name, it cannot be made to point elsewhere."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
            if name in self._names:
                return True
            return self._token is not None and bool(ipaddress.ip_address(name))
        except ValueError:
            return False

    def _without_token(self, scope: Scope, headers: Headers, host: str) -> PlainTextResponse | RedirectResponse | None:
        """The token comes with the first URL, and as a cookie from then on."""
        if self._token is None:
            return None
        port = urlsplit(f"//{host}").port or 80
        name = f"nanopace-{port}"
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = next((value for key, value in query if key == "token"), None)
        if given is not None and secrets.compare_digest(given.encode(), self._token.encode()):
            rest = urlencode([(key, value) for key, value in query if key != "token"])
            response = RedirectResponse(scope["path"] + (f"?{rest}" if rest else ""), 303)
            response.set_cookie(name, self._token, httponly=True, samesite="strict")
            return response
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(name)
        except CookieError:
            cookie = None
        if cookie is not None and secrets.compare_digest(cookie.value.encode(), self._token.encode()):
            return None
        return _refusal(401, self._words.text("Open the address that nanopace printed: it carries the token."))


def _refusal(code: int, why: str) -> PlainTextResponse:
    return PlainTextResponse(f"{why}\n", code)
