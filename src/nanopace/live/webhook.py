"""--webhook: post each message as JSON, in Slack's or Discord's format for their hosts."""

from __future__ import annotations

import json
import platform
import time
from typing import Any
from urllib.parse import urlsplit

from nanopace.errors import OutputError, UsageError, reason_of
from nanopace.live.notify import Channel, Complain, Message
from nanopace.version import __version__

WAITS_S = (1.0, 2.0, 4.0, 8.0)  # before trying again
TIMEOUT_S = 10.0  # per attempt
LONGEST_WAIT_S = 60.0  # the longest delay that a server may request
_DISCORD_MOST = 2000  # characters
_DISCORD = ("discord.com", "discordapp.com")
_SLACK = ("slack.com", "slack-gov.com")


class Webhook(Channel):
    """Posts messages, and tries again if that may help. The URL is a secret and is never printed."""

    flag = "--webhook"

    def __init__(self, url: str, complain: Complain) -> None:
        super().__init__(complain)
        self._host = check_url(url)
        self._url = url

    def deliver(self, message: Message) -> OutputError | None:
        reason: str | None = None
        for wait_s in (*WAITS_S, None):
            reason, again_s = self._post(json.dumps(form_of(message, self._host)).encode())
            if reason is None or again_s is None or wait_s is None:
                break
            time.sleep(min(max(wait_s, again_s), LONGEST_WAIT_S))
        if reason is None:
            return None
        return OutputError("--webhook {host}: the message was not delivered: {reason}", host=self._host, reason=reason)

    def _post(self, body: bytes) -> tuple[str | None, float | None]:
        """Why it failed, or None; and the least number of seconds before another attempt makes sense, or None."""
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import HTTPRedirectHandler, Request, build_opener

        class NoRedirect(HTTPRedirectHandler):
            def redirect_request(self, *_: Any) -> None:
                """Never follow a redirect: a message goes where it was sent, or nowhere."""

        headers = {"Content-Type": "application/json", "User-Agent": f"nanopace/{__version__}"}
        request = Request(self._url, body, headers, method="POST")
        try:
            with build_opener(NoRedirect).open(request, timeout=TIMEOUT_S) as answer:
                answer.read(1)
        except HTTPError as error:
            with error:
                return f"HTTP {error.code}", _again(error.code, error.headers.get("Retry-After"))
        except URLError as error:
            reason = error.reason
            return reason_of(reason) if isinstance(reason, Exception) else str(reason), 0.0
        except (OSError, HTTPException, ValueError) as error:
            return reason_of(error), 0.0
        return None, None


def check_url(url: str) -> str:
    """Check the URL of a webhook and return its host."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError("--webhook: must be an address that starts with https:// or http:// and names a host")
    return host


def form_of(message: Message, host: str) -> dict[str, Any]:
    """The JSON for a host. No name in a log can notify people in a chat."""
    text = f"{message.run} ({platform.node()}): {message.text}"
    if _is_of(host, _SLACK):
        return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
    if _is_of(host, _DISCORD):
        return {"content": text[:_DISCORD_MOST], "allowed_mentions": {"parse": []}}
    return {
        "event": message.event,
        "message": message.text,
        "iteration": message.iteration,
        "run": message.run,
        "host": platform.node(),
    }


def _is_of(host: str, domains: tuple[str, ...]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _again(code: int, asked: str | None) -> float | None:
    """Whether and when another attempt may help: if the server is busy or failing, not if it refuses."""
    if code not in (408, 425, 429) and code < 500:
        return None
    return float(asked) if asked is not None and asked.isdecimal() and len(asked) < 9 else 0.0
