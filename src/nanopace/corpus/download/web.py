"""Requests a file from a server: where Hugging Face is, which redirects to follow, and which answers to reject."""

from __future__ import annotations

import errno
import http.client
import os
import re
import socket
import ssl
import urllib.error
import urllib.request
from http.client import HTTPMessage
from typing import Any, Final
from urllib.parse import urlsplit

from nanopace.errors import UsageError
from nanopace.version import __version__

_HUB: Final = "https://huggingface.co"
_LONGEST_REASON: Final = 200


def hub() -> str:
    """Hugging Face, or the mirror given in HF_ENDPOINT."""
    address = os.environ.get("HF_ENDPOINT") or _HUB
    if not _is_address(address):
        raise UsageError("HF_ENDPOINT={address}: is not an address; write it as https://HOST", address=repr(address))
    return address.rstrip("/")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
        (parts.hostname or "").encode("idna")
    except ValueError:
        return False
    return bool(known) and re.fullmatch(r"[!-~]+", text) is not None and not (parts.query or parts.fragment)


class Question:
    """One request, and what its redirects revealed."""

    def __init__(self, url: str, begin: int) -> None:
        """`begin`: the first byte to request."""
        headers = {"User-Agent": f"nanopace/{__version__}", "Accept-Encoding": "identity"}
        if begin:
            headers["Range"] = f"bytes={begin}-"
        self._request = urllib.request.Request(url, headers=headers)
        self.redirects = _Redirects()

    def ask(self, timeout: float) -> http.client.HTTPResponse:
        answer: http.client.HTTPResponse = urllib.request.build_opener(self.redirects).open(
            self._request, timeout=timeout
        )
        return answer


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to http and https only, and never from https to http. Keeps the checksum that Hugging Face
    sends with the redirect to a large file."""

    sha256: str | None = None

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        named = headers.get("X-Linked-Etag", "").strip('"')
        if re.fullmatch("[0-9a-f]{64}", named):
            self.sha256 = named
        before, after = urlsplit(req.full_url).scheme, urlsplit(newurl)
        if after.scheme not in ("http", "https") or not after.hostname or (before, after.scheme) == ("https", "http"):
            raise urllib.error.HTTPError(req.full_url, code, f"leads to {newurl!r}", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def is_web_page(answer: http.client.HTTPResponse, begin: bytes) -> bool:
    """Whether the answer is a page for people: a network that requires a login, a server that is down."""
    is_html = answer.headers.get_content_type() in ("text/html", "application/xhtml+xml")
    return is_html or re.match(rb"\s*(?:\xef\xbb\xbf)?\s*<(?:!doctype\s+html|html|head|\?xml)", begin, re.I) is not None


def is_hopeless(reason: object) -> bool:
    """Whether trying again is pointless: the host is unknown or unreachable, or has a wrong certificate."""
    unreachable = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ECONNREFUSED)
    hopeless = (socket.gaierror, ssl.SSLCertVerificationError, ValueError, http.client.InvalidURL)
    return isinstance(reason, hopeless) or getattr(reason, "errno", None) in unreachable


def said(reason: object) -> str:
    """The reason on one line, whatever the server put into it."""
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return text.strip().partition("\n")[0][:_LONGEST_REASON]
